# SPDX-License-Identifier: GPL-2.0
"""balancer: octokvd with two reactors of which one has all connections, by policy of the balancer.

A guest under virtual time has 10^9 instructions a second for all its processors together, as one
slow core. The reactors have to be the bottleneck. So each has a fifth of that (a cgroup's cpu.max,
in short periods), and clients, TCP and the drive's driver have the rest: two slow cores, and a fast
client. T_OL and T_LB, 40 and 10% of a core, are 8 and 2% here.

"all on one": reactor 0 takes all connections (--network-cores 1). Partitions are even among the
reactors at first, so only the storage stage of half of the requests can move; a move adds a message
between the reactors. "even": both reactors take equally many connections; the balancer should lose
nothing then. Off is the control.

Figures: requests per second after SETTLE_S seconds of the same load; p99.9; how busy each reactor
was, in percent of its slow core; partitions moved.
"""
from kit import lab, report, style

ONE_LINE = "octokvd with all connections on one of two reactors, balancer off, rr and ps"

CPUS = 2
PARAMS = {"queues": CPUS, "size_mb": 4096}
REACTOR_PCT = 20
OVERLOAD_PCT, GAP_PCT = 40 * REACTOR_PCT // 100, 10 * REACTOR_PCT // 100
REFERENCE = "off"
# Name: cores that take connections, policies.
CASES = {"all on one": (1, (REFERENCE, "rr", "ps")), "even": (2, (REFERENCE, "ps"))}
WORKLOADS = {"gets": ("readrandom", "get"), "puts": ("fillrandom", "set")}
RECORDS, VALUE_BYTES, CLIENTS, SETTLE_S, SECONDS = 1000, 4096, 64, 5, 5


def _step(case, load, how):
    network, _ = CASES[case]
    options = ("--cores", "2", "--network-cores", str(network), "--balance", how,
               "--balance-overload", str(OVERLOAD_PCT), "--balance-gap", str(GAP_PCT))
    return {"label": f"{load}, {case}, {how}", "case": f"{load}, {case}", "load": load,
            "name": how, "device": {"kind": "ssdsim", "params": PARAMS, "sysfs": {}},
            "scheduler": "none", "measure": "octokv", "build": lab.OCTOKV,
            "workload": WORKLOADS[load][0], "tenants": ("one",),
            "users": {"one": {"clients": CLIENTS, "weight": 100}}, "records": RECORDS,
            "value_bytes": VALUE_BYTES, "settle_s": SETTLE_S, "seconds": SECONDS,
            "reactor_pct": REACTOR_PCT, "options": options}


def plans(quick):
    """A plan for each kind of request: each case, each way."""
    return [[_step(case, load, how) for case, (_, ways) in CASES.items() for how in ways]
            for load in (("gets",) if quick else WORKLOADS)]


def rows(step, answer):
    """The rows of @step."""
    def row(metric, value, unit, **more):
        return report.row(step["case"], step["name"], metric, [value], unit, **more)

    one, reactors = answer["one"], answer["reactors"]
    tail_us = one["times"][WORKLOADS[step["load"]][1]]["p99.9_us"]
    moved = sum(reactor["moved"] for reactor in reactors)
    return [row("rate", one["requests_per_s"], "1/s", digits=0), row("p99.9", tail_us / 1000, "ms"),
            row("moved", moved, "partitions", digits=0),
            *[row(f"busy {number}", 100 * reactor["busy_pct"] / REACTOR_PCT, "%", digits=0)
              for number, reactor in enumerate(reactors)]]


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    lab.build_octokvd()
    ran, results = lab.measure_virtual(args.kernel, CPUS, todo)
    parameters = {"device": "ssdsim, default profile", "cpus": CPUS, "reactors": 2,
                  "reactor_pct": REACTOR_PCT, "clients": CLIENTS, "value_bytes": VALUE_BYTES,
                  "overload_pct": OVERLOAD_PCT, "gap_pct": GAP_PCT, "settle_s": SETTLE_S,
                  "runtime_s": SECONDS, "jobs": "octokv-bench"}
    return report.result("balancer", ran, parameters,
                         [entry for step, answer in lab.flat(todo, results)
                          for entry in rows(step, answer)])


def gain_pct(result, case, how):
    """Requests per second of @how, in percent more than with the balancer off."""
    base = report.value(result, case, REFERENCE, "rate")
    return 100 * report.value(result, case, how, "rate") / base - 100


def table(result):
    """The figures as text."""
    lines = []
    for entry in (entry for entry in result["rows"] if entry["metric"] == "rate"):
        case, how = entry["case"], entry["scheduler"]
        spread = "" if entry["spread"] is None else f"{100 * entry['spread']:.1f}%"
        busy = [f"{report.value(result, case, how, f'busy {number}'):.0f}%" for number in range(2)]
        lines.append([f"{case}, {how}", f"{entry['value']:.0f}",
                      f"{gain_pct(result, case, how):+.1f}%", spread,
                      report.value(result, case, how, "p99.9"), *busy,
                      report.value(result, case, how, "moved")])
    return report.table(["", "per s", "gain", "spread", "p99.9 ms", "busy 0", "busy 1", "moved"],
                        lines)


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    cases = [case for case in report.unique(result, "case") if case.endswith("all on one")]
    gains = " and ".join(f"{gain_pct(result, case, 'ps'):+.0f}% {case.split(',')[0]}"
                         for case in cases)
    return (f"octokvd with all connections on one of two reactors: {gains} per second with the "
            "balancer's policy ps")


def draw(result, plt):
    """Requests per second, a group for each case."""
    cases, ours = report.unique(result, "case"), style.PEERS["octokvd"]
    series = {REFERENCE: style.GUIDE, "rr": style.lighter(ours, 0.5), "ps": ours}
    figure, ((axis,),) = style.panels(plt, 1, 1, 8, 3.3)
    style.bars(axis, cases, series, lambda case, how: report.value(result, case, how, "rate"))
    drawn = iter(axis.containers)
    for case in cases:
        for how in (how for how in series if report.value(result, case, how, "rate")):
            gain = f"{gain_pct(result, case, how):+.0f}%" if how != REFERENCE else ""
            axis.bar_label(next(drawn), [gain], padding=1, **style.VALUE)
    axis.set_ylabel("requests per second")
    parameters = result["parameters"]
    footer = style.conditions(
        result, f"Values of {parameters['value_bytes']} bytes, {parameters['clients']} clients. "
        f"Each reactor has {parameters['reactor_pct']}% of a processor.")
    legend = style.patches({f"--balance {how}": color for how, color in series.items()})
    return style.finish(figure, finding(result), footer, legend)
