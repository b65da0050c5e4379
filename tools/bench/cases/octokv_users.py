# SPDX-License-Identifier: GPL-2.0
"""octokv: two users of octokvd on an NVMe-oF device, one with 2 clients and one with 16, by the scheduler of that device.

The device is ssdsim with one queue that takes SERVICE_US for each command, as a busy target core does, behind the kernel's NVMe target and its NVMe
host over TCP. octokvd tags each request with its user (class best effort, the user's number as hint), and mq-mqfq with flow=ioprio tells
them apart by it. The weights come from octokvd's users file (--weights).

Figures: slowdown of each user, the mean latency of its requests over that when it is alone under none, in the same run (Equation 1 of the OctoFAS
paper); F, the smaller slowdown over the larger (Equation 2), 1 if fair; requests per second; p99.9. With other weights than equal ones F is not of
interest, and the ratio of both users' requests per second is.
"""
import time

from kit import lab, report

ONE_LINE = "two users of octokvd on an NVMe-oF device, 2 clients against 16 (vm, virtual time)"

CPUS = 2
SERVICE_US = 2000
DRIVE = {"kind": "nvme-tcp", "params": {"queues": 1, "queue_service_ns": SERVICE_US * 1000, "size_mb": 512}, "sysfs": {"queue/scheduler": "none"}}
CLIENTS = {"few": 2, "many": 16}
# Name: scheduler, tunables, weights of few and many.
MQFQ = {"flow": "ioprio", "slots": 2, "throttle_kb": 0}
WAYS = {"none": ("none", {}, (100, 100)), "mq-mqfq": ("mq-mqfq", MQFQ, (100, 100)), "mq-mqfq, weights 3:1": ("mq-mqfq", MQFQ, (300, 100))}
WORKLOADS = {"gets": "readrandom", "puts": "fillrandom"}
RECORDS, VALUE_BYTES, SECONDS = 100, 16384, 4


def _step(case, way, tenants=tuple(CLIENTS)):
    scheduler, tunables, weights = WAYS[way]
    return {"label": f"{case}, {way}, {'+'.join(tenants)}", "case": case, "device": DRIVE, "name": way, "scheduler": scheduler, "tunables": tunables,
            "measure": "octokv", "build": lab.OCTOKV, "workload": WORKLOADS[case], "tenants": tenants, "records": RECORDS, "value_bytes": VALUE_BYTES,
            "seconds": SECONDS, "users": {name: {"clients": clients, "weight": weight} for (name, clients), weight in zip(CLIENTS.items(), weights)}}


def plans(quick):
    """A plan for each kind of request: each user alone, then both."""
    return [[_step(case, "none", (name,)) for name in CLIENTS] + [_step(case, way) for way in WAYS] for case in (("gets",) if quick else WORKLOADS)]


def _times(answer, case):
    return answer["times"]["get" if case == "gets" else "set"]


def rows(plan, answers):
    """The rows of one plan."""
    alone_us = {step["tenants"][0]: _times(answer[step["tenants"][0]], step["case"])["mean_us"]
                for step, answer in zip(plan, answers) if len(step["tenants"]) == 1}
    out = []
    for step, answer in zip(plan, answers):
        if len(step["tenants"]) == 1:
            continue
        slowdown = {name: _times(answer[name], step["case"])["mean_us"] / alone_us[name] for name in CLIENTS}
        out.append(report.row(step["case"], step["name"], "F", [min(slowdown.values()) / max(slowdown.values())], "1", digits=3))
        for name in CLIENTS:
            out += [report.row(step["case"], step["name"], f"slowdown {name}", [slowdown[name]], "1", digits=2),
                    report.row(step["case"], step["name"], f"requests {name}", [answer[name]["requests_per_s"]], "1/s", digits=0),
                    report.row(step["case"], step["name"], f"p99.9 {name}", [_times(answer[name], step["case"])["p99.9_us"] / 1000], "ms")]
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    todo = plans(args.quick)
    backend, release, results = lab.run_octokvd(args.kernel, CPUS, todo)
    return {"benchmark": "octokv", "backend": backend, "kernel": release,
            "parameters": {"device": f"nvme-tcp to nvmet over ssdsim, one queue of {SERVICE_US} us service", "cpus": CPUS, "clients": CLIENTS,
                           "records_per_user": RECORDS, "value_bytes": VALUE_BYTES, "runtime_s": SECONDS, "tunables": MQFQ, "jobs": "octokv-bench",
                           "wall_s": round(time.monotonic() - started)},
            "rows": [entry for plan, answers in zip(todo, results) for entry in rows(plan, answers)]}


METRICS = {"F": "{:.2f}", "slowdown few": "{:.2f}", "slowdown many": "{:.2f}", "requests few": "{:.0f}", "requests many": "{:.0f}", "p99.9 few": "{:.1f}",
           "p99.9 many": "{:.1f}"}


def table(result):
    """The figures as text."""
    return report.table(["", *METRICS], [[f"{case}, {name}", *(form.format(report.value(result, case, name, metric)) for metric, form in METRICS.items())]
                                         for case in report.unique(result, "case") for name in report.unique(result, "scheduler")])


def draw(result, plt):
    """Slowdown of both users, a panel for each kind of request."""
    cases, names = report.unique(result, "case"), report.unique(result, "scheduler")
    figure, axes = plt.subplots(1, len(cases), figsize=(5.5 * len(cases), 4), squeeze=False)
    for axis, case in zip(axes[0], cases):
        for number, (tenant, color) in enumerate(zip(CLIENTS, ("#1f4e8c", "#b0413e"))):
            bars = axis.bar([place + (number - 0.5) * 0.35 for place in range(len(names))],
                            [report.value(result, case, name, f"slowdown {tenant}") for name in names], 0.35, color=color, label=f"{CLIENTS[tenant]} clients")
            axis.bar_label(bars, fmt="%.1f", fontsize=8)
        axis.axhline(1, color="#888888", linewidth=0.7, linestyle=":")
        axis.set_xticks(range(len(names)), [f"{name.replace(', ', chr(10))}\nF {report.value(result, case, name, 'F'):.2f}" for name in names], fontsize=8)
        axis.set_title(f"{case}: slowdown against being alone", fontsize=9)
        axis.legend(frameon=False, fontsize=8)
    parameters = result["parameters"]
    figure.suptitle("Two users of octokvd on one NVMe-oF device", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.01, f"Device: {parameters['device']}. Values of {parameters['value_bytes']} bytes.\n{result['backend']} (one instruction = 1 ns), "
                f"Linux {result['kernel']}, {parameters['cpus']} CPUs, {parameters['runtime_s']} s per case.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.1, 1, 0.95))
    return figure
