# SPDX-License-Identifier: GPL-2.0
"""octokv: two users of octokvd on an NVMe-oF device, one with 2 clients and one with 16.

The device is ssdsim with one queue that takes SERVICE_US for each command, as a busy target core
does. It is behind the kernel's NVMe target and its NVMe host over TCP. octokvd tags each request
with its user (class best effort, the user's number as hint), and mq-mqfq with flow=ioprio tells the
users apart by it. The weights come from octokvd's users file (--weights).

Figures: slowdown of each user, the mean latency of its requests over that when it is alone under
none, in the same run (Equation 1 of the OctoFAS paper); F, the smaller slowdown over the larger
(Equation 2), 1 if fair; requests per second; p99.9. With unequal weights the ratio of both users'
requests per second matters, and F does not.
"""
from kit import lab, report, style

ONE_LINE = "two users of octokvd on an NVMe-oF device, 2 clients against 16"

CPUS = 2
SERVICE_US = 2000
DRIVE = {"kind": "nvme-tcp",
         "params": {"queues": 1, "queue_service_ns": SERVICE_US * 1000, "size_mb": 512},
         "sysfs": {"queue/scheduler": "none"}}
CLIENTS = {"few": 2, "many": 16}
MQFQ = {"flow": "ioprio", "slots": 2, "throttle_kb": 0}
# Name: scheduler, tunables, weights of few and many.
WAYS = {"none": ("none", {}, (100, 100)), "mq-mqfq": ("mq-mqfq", MQFQ, (100, 100)),
        "mq-mqfq, weights 3:1": ("mq-mqfq", MQFQ, (300, 100))}
WORKLOADS = {"gets": "readrandom", "puts": "fillrandom"}
RECORDS, VALUE_BYTES, SECONDS = 100, 16384, 4


def _step(case, way, tenants=tuple(CLIENTS)):
    scheduler, tunables, weights = WAYS[way]
    users = {name: {"clients": clients, "weight": weight}
             for (name, clients), weight in zip(CLIENTS.items(), weights)}
    return {"label": f"{case}, {way}, {'+'.join(tenants)}", "case": case, "device": DRIVE,
            "name": way, "scheduler": scheduler, "tunables": tunables, "measure": "octokv",
            "build": lab.OCTOKV, "workload": WORKLOADS[case], "tenants": tenants,
            "records": RECORDS, "value_bytes": VALUE_BYTES, "seconds": SECONDS, "users": users}


def plans(quick):
    """A plan for each kind of request: each user alone, then both."""
    return [[_step(case, "none", (name,)) for name in CLIENTS] + [_step(case, way) for way in WAYS]
            for case in (("gets",) if quick else WORKLOADS)]


def _times(answer, case):
    return answer["times"]["get" if case == "gets" else "set"]


def rows(plan, answers):
    """The rows of one plan."""
    alone_us, out = {}, []
    for step, answer in zip(plan, answers):
        case, way = step["case"], step["name"]
        times = {name: _times(answer[name], case) for name in step["tenants"]}
        if len(times) == 1:
            alone_us.update({name: found["mean_us"] for name, found in times.items()})
            continue
        slowdown = {name: times[name]["mean_us"] / alone_us[name] for name in CLIENTS}
        fairness = min(slowdown.values()) / max(slowdown.values())
        out.append(report.row(case, way, "F", [fairness], "1", digits=3))
        for name in CLIENTS:
            rate, tail_ms = answer[name]["requests_per_s"], times[name]["p99.9_us"] / 1000
            out += [report.row(case, way, f"slowdown {name}", [slowdown[name]], "1", digits=2),
                    report.row(case, way, f"requests {name}", [rate], "1/s", digits=0),
                    report.row(case, way, f"p99.9 {name}", [tail_ms], "ms")]
    return out


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    lab.build_octokvd()
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo)
    parameters = {"device": f"nvme-tcp to nvmet over ssdsim, one queue of {SERVICE_US} us service",
                  "cpus": CPUS, "clients": CLIENTS, "records_per_user": RECORDS,
                  "value_bytes": VALUE_BYTES, "runtime_s": SECONDS, "tunables": MQFQ,
                  "jobs": "octokv-bench"}
    return report.result("octokv", ran, parameters, [entry for plan, answers in zip(todo, results)
                                                     for entry in rows(plan, answers)])


METRICS = {"F": "{:.2f}", "slowdown few": "{:.2f}", "slowdown many": "{:.2f}",
           "requests few": "{:.0f}", "requests many": "{:.0f}", "p99.9 few": "{:.1f}",
           "p99.9 many": "{:.1f}"}


def table(result):
    """The figures as text."""
    lines = [[f"{case}, {name}", *figures] for case in report.unique(result, "case")
             for name, *figures in report.by_metric(result, case, METRICS)]
    return report.table(["", *METRICS], lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    parts = []
    for case in report.unique(result, "case"):
        fair = [report.value(result, case, name, "F") for name in ("none", "mq-mqfq")]
        parts.append(f"{case} {fair[0]:.2f} under none, {fair[1]:.2f} under mq-mqfq")
    return "Fairness F of two users of octokvd on one NVMe-oF device: " + "; ".join(parts)


def draw(result, plt):
    """Slowdown of both users, a panel for each kind of request."""
    cases, names = report.unique(result, "case"), report.unique(result, "scheduler")
    colors = dict(zip(CLIENTS, style.TENANTS))
    figure, axes = style.panels(plt, 1, len(cases), 4.8, 2.9)
    for axis, case in zip(axes[0], cases):
        style.bars(axis, names, colors,
                   lambda name, user: report.value(result, case, name, f"slowdown {user}"),
                   "{:.1f}")
        style.guide(axis, 1, across=True)
        words = [name.replace(", ", "\n") + f"\nF {report.value(result, case, name, 'F'):.2f}"
                 for name in names]
        axis.set_xticks(range(len(names)), words)
        axis.set_title(f"{case}: slowdown against being alone", loc="left")
    legend = style.patches({f"user with {CLIENTS[name]} clients": color
                            for name, color in colors.items()})
    footer = style.conditions(result, f"Values of {result['parameters']['value_bytes']} bytes.")
    return style.finish(figure, finding(result), footer, legend)
