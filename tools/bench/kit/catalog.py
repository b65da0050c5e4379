# SPDX-License-Identifier: GPL-2.0
"""The module of each benchmark, by the name that `make bench` takes and that its result carries."""
import importlib

BENCHMARKS = {
    "fairness": "cases.mqfq_fairness",
    "latency": "cases.k2_latency",
    "full": "cases.k2_full",
    "cost": "cases.all_cost",
    "throughput": "cases.all_throughput",
    "tabs": "cases.tabs_mixes",
    "octofas": "cases.octofas_queues",
    "timeline": "cases.all_timeline",
    "postgres": "cases.tabs_postgres",
    "octokv": "cases.octokv_users",
    "balancer": "cases.octokv_balancer",
    "turns": "cases.octokv_turns",
    "peers": "cases.octokv_peers",
    "auto": "cases.mqfq_auto",
    "shallow": "cases.mqfq_shallow",
    "time": "cases.mqfq_time",
    "isolation": "cases.isolation",
    "bursts": "cases.bursts",
    "cgroups": "cases.cgroups",
    "k2-auto": "cases.k2_auto",
    "defaults": "cases.tabs_defaults",
    "filesystems": "cases.filesystems",
    "etcd": "cases.etcd",
    "protection": "cases.protection",
    "act": "cases.act",
    "desktop": "cases.desktop",
    "vm": "cases.vm",
    "drives": "cases.drives",
    "scale": "cases.all_scale",
}
# The folders of the code that a stored result measures.
SCHEDULERS = ("mq-k2", "mq-mqfq", "mq-octofas", "mq-tabs", "lib")
MEASURED = {
    "fairness": ("mq-mqfq", "lib"),
    "latency": ("mq-k2", "lib"),
    "full": ("mq-k2", "lib"),
    "cost": SCHEDULERS,
    "throughput": SCHEDULERS,
    "tabs": ("mq-tabs", "lib"),
    "octofas": ("mq-octofas", "lib"),
    "timeline": ("mq-octofas", "mq-tabs", "lib"),
    "postgres": ("mq-tabs", "lib"),
    "octokv": ("tools/octokv", "mq-mqfq", "lib"),
    "balancer": ("tools/octokv",),
    "turns": ("tools/octokv", "mq-octofas"),
    "peers": ("tools/octokv",),
    "auto": ("mq-mqfq", "lib"),
    "shallow": ("mq-mqfq", "lib"),
    "time": ("mq-mqfq", "lib"),
    "isolation": ("mq-mqfq", "mq-k2", "lib"),
    "bursts": ("mq-mqfq", "mq-k2", "lib"),
    "cgroups": ("mq-mqfq", "lib"),
    "k2-auto": ("mq-k2", "lib"),
    "defaults": ("mq-tabs", "lib"),
    "filesystems": ("mq-mqfq", "lib"),
    "etcd": ("mq-mqfq", "lib"),
    "protection": ("mq-mqfq", "mq-k2", "lib"),
    "act": ("mq-mqfq", "mq-k2", "lib"),
    "desktop": ("mq-mqfq", "lib"),
    "vm": ("mq-mqfq", "lib"),
    "drives": ("mq-mqfq", "mq-k2", "lib"),
    "scale": SCHEDULERS,
    "demo": ("mq-mqfq", "lib"),
    "demo-latency": ("mq-k2", "lib"),
}
# The two parts of `make demo`, by the name in "drawn_by" of their results.
PARTS = {"neighbour": "demo.neighbour", "tail": "demo.tail"}


def drawn_by(result):
    """The name under which this catalog knows the module that draws @result."""
    return result.get("drawn_by", result.get("benchmark"))


def names():
    """All names that a result can be drawn by."""
    return [*BENCHMARKS, *PARTS]


def module(name):
    """The module of that name."""
    return importlib.import_module({**BENCHMARKS, **PARTS}[name])
