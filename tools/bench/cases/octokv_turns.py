# SPDX-License-Identifier: GPL-2.0
"""turns: two users of octokvd on one reactor that is the bottleneck, with and without turns.

A guest under virtual time has 10^9 instructions a second for all its processors together. One
reactor takes most of what a request needs, and waits for nobody: the drive is ssdsim with its
default profile, much faster than that.

"2 + 16": one user has 2 clients, the other one 16, each with PIPELINE requests under way.
"9 + 9": both have as many; turns should cost nothing then. Off is the control (--fair off); on is
the intra level of OctoFAS; auto is its monitor, with windows of WINDOW_MS.

Figures: slowdown of each user, the mean latency of its requests over that when it is alone with
off (Equation 1 of the OctoFAS paper); F, the smaller slowdown over the larger (Equation 2);
requests per second of each and of both, after SETTLE_S seconds of the same load; p99.9; processor
time of the reactor for a request.
"""
from kit import lab, report, style

ONE_LINE = "two users of octokvd on a busy reactor, 2 clients against 16, by --fair"

CPUS = 2
PARAMS = {"queues": CPUS, "size_mb": 4096}
REFERENCE = "off"
WAYS = (REFERENCE, "on", "auto")
USERS = ("few", "many")
CASES = {"2 + 16": (2, 16), "9 + 9": (9, 9)}
WORKLOADS = {"gets": ("readrandom", "get"), "puts": ("fillrandom", "set")}
RECORDS, VALUE_BYTES, PIPELINE, WINDOW_MS = 1000, 4096, 4, 100
SETTLE_S, SECONDS = 3, 5


def _step(case, load, way, tenants=USERS):
    users = {name: {"clients": clients, "weight": 100}
             for name, clients in zip(USERS, CASES[case])}
    options = ("--cores", "1", "--fair", way, "--balance-window", str(WINDOW_MS))
    return {"label": f"{load}, {case}, {way}, {'+'.join(tenants)}", "case": f"{load}, {case}",
            "load": load, "name": way,
            "device": {"kind": "ssdsim", "params": PARAMS, "sysfs": {}}, "scheduler": "none",
            "measure": "octokv", "build": lab.OCTOKV, "workload": WORKLOADS[load][0],
            "tenants": tenants, "users": users, "records": RECORDS, "value_bytes": VALUE_BYTES,
            "pipeline": PIPELINE,
            "settle_s": SETTLE_S, "seconds": SECONDS, "options": options}


def plans(quick):
    """A plan for each kind of request and case: each user alone, then both, each way."""
    return [[_step(case, load, REFERENCE, (name,)) for name in USERS]
            + [_step(case, load, way) for way in WAYS]
            for load in (("gets",) if quick else WORKLOADS)
            for case in (("2 + 16",) if quick else CASES)]


def _figures(plan, answers):
    """{way: {metric: value}} of one plan."""
    what = WORKLOADS[plan[0]["load"]][1]
    alone_us, out = {}, {}
    for step, answer in zip(plan, answers):
        times = {name: answer[name]["times"][what] for name in step["tenants"]}
        if len(times) == 1:
            alone_us.update({name: found["mean_us"] for name, found in times.items()})
            continue
        slowdown = {name: times[name]["mean_us"] / alone_us[name] for name in USERS}
        rates = {name: answer[name]["requests_per_s"] for name in USERS}
        busy_us = 10000 * answer["reactors"][0]["busy_pct"]
        figures = {"F": min(slowdown.values()) / max(slowdown.values()),
                   "rate": sum(rates.values()), "reactor us": busy_us / sum(rates.values())}
        for name in USERS:
            figures.update({f"slowdown {name}": slowdown[name], f"requests {name}": rates[name],
                            f"p99.9 {name}": times[name]["p99.9_us"] / 1000})
        out[step["name"]] = figures
    return out


UNITS = {"F": ("1", 3), "rate": ("1/s", 0), "reactor us": ("us", 2), "slowdown": ("1", 2),
         "requests": ("1/s", 0), "p99.9": ("ms", 1)}


def rows(plans_, results):
    """The rows of all plans."""
    return [report.row(plan[0]["case"], way, metric, [value],
                       *UNITS.get(metric) or UNITS[metric.split()[0]])
            for plan, answers in zip(plans_, results)
            for way, figures in _figures(plan, answers).items()
            for metric, value in figures.items()]


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    lab.build_octokvd()
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo)
    parameters = {"device": "ssdsim, default profile", "cpus": CPUS, "reactors": 1,
                  "clients": CASES, "pipeline": PIPELINE, "value_bytes": VALUE_BYTES,
                  "window_ms": WINDOW_MS, "settle_s": SETTLE_S, "runtime_s": SECONDS,
                  "jobs": "octokv-bench"}
    return report.result("turns", ran, parameters, rows(todo, results))


def change_pct(result, case, way, metric="rate"):
    """The figure with @way, in percent more than with off."""
    base = report.value(result, case, REFERENCE, metric)
    return 100 * report.value(result, case, way, metric) / base - 100


METRICS = {"F": "{:.2f}", "rate": "{:.0f}", "slowdown few": "{:.2f}", "slowdown many": "{:.2f}",
           "requests few": "{:.0f}", "requests many": "{:.0f}", "p99.9 few": "{:.1f}",
           "p99.9 many": "{:.1f}", "reactor us": "{:.1f}"}


def table(result):
    """The figures as text."""
    lines = [[f"{case}, {way}", *figures, f"{change_pct(result, case, way):+.1f}%"]
             for case in report.unique(result, "case")
             for way, *figures in report.by_metric(result, case, METRICS)]
    return report.table(["", *METRICS, "rate vs off"], lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    parts = []
    for case in (case for case in report.unique(result, "case") if case.endswith("2 + 16")):
        fair = [report.value(result, case, way, "F") for way in WAYS]
        parts.append(f"{case.split(',')[0]} {fair[0]:.2f} off, {fair[1]:.2f} on, {fair[2]:.2f} "
                     f"auto, at {change_pct(result, case, 'auto'):+.1f}% requests")
    return "Fairness F of two users of octokvd on one busy reactor: " + "; ".join(parts)


def draw(result, plt):
    """Slowdown of both users, a panel for each case."""
    cases, colors = report.unique(result, "case"), dict(zip(USERS, style.TENANTS))
    figure, axes = style.panels(plt, 1, len(cases), 3.4, 2.9)
    for axis, case in zip(axes[0], cases):
        style.bars(axis, WAYS, colors,
                   lambda way, user, case=case: report.value(result, case, way,
                                                             f"slowdown {user}"), "{:.1f}")
        style.guide(axis, 1, across=True)
        words = [f"{way}\nF {report.value(result, case, way, 'F'):.2f}\n"
                 f"{report.value(result, case, way, 'rate'):.0f}/s" for way in WAYS]
        axis.set_xticks(range(len(WAYS)), words)
        axis.set_title(f"{case}: slowdown", loc="left")
    legend = style.patches({f"user with {name} clients": color for name, color in colors.items()})
    footer = style.conditions(result, f"Values of {result['parameters']['value_bytes']} bytes.")
    return style.finish(figure, finding(result), footer, legend)
