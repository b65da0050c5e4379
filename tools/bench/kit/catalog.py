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
    "peers": "cases.octokv_peers",
    "auto": "cases.mqfq_auto",
    "shallow": "cases.mqfq_shallow",
    "k2-auto": "cases.k2_auto",
    "defaults": "cases.tabs_defaults",
    "filesystems": "cases.filesystems",
    "scale": "cases.all_scale",
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
