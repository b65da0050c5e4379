# SPDX-License-Identifier: GPL-2.0
"""balancer: octokvd with two reactors of which one has all connections, by how it moves work between them.

A guest under virtual time has 10^9 instructions a second for all its processors together, as one slow core. So that reactors are what bounds, each has a fifth of
that (a cgroup's cpu.max), and clients, TCP and the drive's driver have the rest: two slow cores of its own, and a fast client. T_OL and T_LB, 40 and 10% of a core, are 8 and 2% here.

"all on one": reactor 0 takes all connections (--network-cores 1). Partitions are even among the reactors at first, so what can move is the storage stage of half
of the requests; a move makes mail of it. "even": both take connections, as many each; nothing should be lost then. Off is the control.

Figures: requests per second after SETTLE_S seconds of the same load; p99.9; how busy each reactor was, in percent of its slow core; partitions moved.
"""
import time

from kit import lab, report

ONE_LINE = "octokvd with all connections on one of two reactors, balancer off, rr and ps (vm, virtual time)"

CPUS = 2
PARAMS = {"queues": CPUS, "size_mb": 4096}
REACTOR_PCT = 20
OVERLOAD_PCT, GAP_PCT = 40 * REACTOR_PCT // 100, 10 * REACTOR_PCT // 100
REFERENCE = "off"
CASES = {"all on one": (1, (REFERENCE, "rr", "ps")), "even": (2, (REFERENCE, "ps"))}
WORKLOADS = {"gets": ("readrandom", "get"), "puts": ("fillrandom", "set")}
RECORDS, VALUE_BYTES, CLIENTS, SETTLE_S, SECONDS, REPEATS = 1000, 4096, 64, 5, 5, 3


def _step(case, load, how):
    network, _ = CASES[case]
    return {"label": f"{load}, {case}, {how}", "case": f"{load}, {case}", "load": load, "name": how, "device": {"kind": "ssdsim", "params": PARAMS, "sysfs": {}}, "scheduler": "none",
            "measure": "octokv", "build": lab.OCTOKV, "workload": WORKLOADS[load][0], "tenants": ("one",), "users": {"one": {"clients": CLIENTS, "weight": 100}},
            "records": RECORDS, "value_bytes": VALUE_BYTES, "settle_s": SETTLE_S, "seconds": SECONDS, "reactor_pct": REACTOR_PCT,
            "options": ("--cores", "2", "--network-cores", str(network), "--balance", how, "--balance-overload", str(OVERLOAD_PCT), "--balance-gap", str(GAP_PCT))}


def plans(quick):
    """A plan for each repeat and kind of request: each case, each way."""
    return [[_step(case, load, how) for case, (_, ways) in CASES.items() for how in ways]
            for load in (("gets",) if quick else WORKLOADS) for _ in range(1 if quick else REPEATS)]


def rows(found):
    """The rows of @found, pairs of a step and its answer; those of the same step are repeats."""
    out, steps = [], {step["label"]: step for step, _ in found}
    for label, step in steps.items():
        answers = [answer for other, answer in found if other["label"] == label]
        times = [answer["one"]["times"][WORKLOADS[step["load"]][1]] for answer in answers]
        out += [report.row(step["case"], step["name"], "rate", [answer["one"]["requests_per_s"] for answer in answers], "1/s", digits=0),
                report.row(step["case"], step["name"], "p99.9", [time["p99.9_us"] / 1000 for time in times], "ms"),
                report.row(step["case"], step["name"], "moved", [sum(reactor["moved"] for reactor in answer["reactors"]) for answer in answers], "partitions", digits=0)]
        out += [report.row(step["case"], step["name"], f"busy {number}", [100 * answer["reactors"][number]["busy_pct"] / REACTOR_PCT for answer in answers], "%", digits=0)
                for number in range(2)]
    return out


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    todo = plans(args.quick)
    backend, release, results = lab.run_octokvd(args.kernel, CPUS, todo)
    return {"benchmark": "balancer", "backend": backend, "kernel": release,
            "parameters": {"device": "ssdsim, default profile", "cpus": CPUS, "reactors": 2, "reactor_pct": REACTOR_PCT, "clients": CLIENTS, "value_bytes": VALUE_BYTES,
                           "overload_pct": OVERLOAD_PCT, "gap_pct": GAP_PCT, "settle_s": SETTLE_S, "runtime_s": SECONDS, "jobs": "octokv-bench",
                           "wall_s": round(time.monotonic() - started)},
            "rows": rows([pair for plan, answers in zip(todo, results) for pair in zip(plan, answers)])}


def gain_pct(result, case, how):
    """Requests per second of @how, in percent more than with the balancer off."""
    return 100 * report.value(result, case, how, "rate") / report.value(result, case, REFERENCE, "rate") - 100


def table(result):
    """The figures as text."""
    return report.table(["", "per s", "gain", "spread", "p99.9 ms", "busy 0", "busy 1", "moved"],
                        [[f"{case}, {how}", f"{report.value(result, case, how, 'rate'):.0f}", f"{gain_pct(result, case, how):+.1f}%",
                          *(f"{100 * entry['spread']:.1f}%" if entry["spread"] is not None else "" for entry in result["rows"]
                            if (entry["case"], entry["scheduler"], entry["metric"]) == (case, how, "rate")),
                          report.value(result, case, how, "p99.9"), *(f"{report.value(result, case, how, f'busy {number}'):.0f}%" for number in range(2)),
                          report.value(result, case, how, "moved")]
                         for case in report.unique(result, "case") for how in report.unique(result, "scheduler") if report.value(result, case, how, "rate")])


def draw(result, plt):
    """Requests per second, a group for each case."""
    cases, colors = report.unique(result, "case"), {"off": "#8a8a8a", "rr": "#7f9fc6", "ps": "#1f4e8c"}
    figure, axis = plt.subplots(figsize=(8, 4))
    for number, (how, color) in enumerate(colors.items()):
        shown = [(place, case) for place, case in enumerate(cases) if report.value(result, case, how, "rate")]
        bars = axis.bar([place + (number - 1) * 0.27 for place, _ in shown], [report.value(result, case, how, "rate") for _, case in shown], 0.27, color=color,
                        label=how)
        axis.bar_label(bars, [f"{gain_pct(result, case, how):+.0f}%" if how != REFERENCE else "" for _, case in shown], fontsize=8)
    axis.set_xticks(range(len(cases)), cases)
    axis.set_ylabel("requests per second")
    axis.legend(frameon=False, fontsize=8, title="--balance")
    parameters = result["parameters"]
    figure.suptitle("Two reactors of octokvd, all connections on one of them, and even", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.01, f"Device: {parameters['device']}. Values of {parameters['value_bytes']} bytes, {parameters['clients']} clients. Each reactor has "
                f"{parameters['reactor_pct']}% of a processor.\n{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs, "
                f"{parameters['runtime_s']} s per case, median of {max(entry['repeats'] for entry in result['rows'])}.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.1, 1, 0.95))
    return figure
