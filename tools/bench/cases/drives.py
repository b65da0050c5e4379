# SPDX-License-Identifier: GPL-2.0
"""drives: what mq-mqfq and mq-k2 promise, on larger drives with more hardware queues.

Three drives: ssdsim's default profile with 4 hardware queues, a PCIe 4 drive with 16, a PCIe 5
drive with 64, and as many CPUs. The newer two are whole drives from data sheets, all of whose times
are longer by one factor (stretch), since no guest could ask them for more. 45 and 64 requests have
to be outstanding to have all of their reads, and a read of depth 1 takes 1.4 and 1.9 ms.

 - shares: cgroups with 4 KiB beside 64 KiB, with weights 1:10, and 16 with rising weights. Each
   has four tasks on CPUs of their own, and all together 512 requests outstanding. Figures: Jain's
   index of bandwidth over weight, and total bandwidth.
 - tail: a real-time task of depth 1 beside four best-effort ones of depth 128. Figures: its 99.9th
   percentile, and the bandwidth of all.

mq-mqfq and mq-k2 are as they come.
"""
from kit import fio, lab, report, rivals, style
from kit.say import BenchError
from kit.tenants import jain, load, tenant

ONE_LINE = "shares and tail on drives with 4, 16 and 64 hardware queues"

# Name: hardware queues and CPUs, parameters.
DRIVES = {"default, 4 queues": (4, {}),
          "PCIe 4, 16 queues": (16, {"profile": "pcie4", "stretch": 32}),
          "PCIe 5, 64 queues": (64, {"profile": "pcie5", "stretch": 64})}
RAMP_S, SECONDS = 1, 1
FAIR = ("none", "bfq, tuned", "io.cost, tuned", "mq-mqfq")
TAIL = ("none", "kyber", "mq-k2")
QUICK = ("none", "mq-mqfq", "mq-k2")
OUTSTANDING, TASKS = 512, 4


def _tenants(sizes_and_weights):
    depth = OUTSTANDING // TASKS // len(sizes_and_weights)
    return [tenant(f"t{number + 1}", weight=weight, bs=size, iodepth=depth, numjobs=TASKS)
            for number, (size, weight) in enumerate(sizes_and_weights)]


SHARES = {"4k:64k": _tenants([("4k", 100), ("64k", 100)]),
          "weights 1:10": _tenants([("4k", 100), ("4k", 1000)]),
          "16 rising": _tenants([("4k", 100 * (number + 1)) for number in range(16)])}
TAIL_CASE = "real-time reads"
# The real-time task ends all after so many requests: 20 s under none.
SAMPLES = 1200
TAIL_JOB = f"""[global]
filename=${{DEV}}
direct=1
rw=randread
bs=4k
norandommap
clat_percentiles=0
lat_percentiles=1
percentile_list=50:90:99:99.9

[rt]
ioengine=psync
prioclass=1
prio=0
number_ios={SAMPLES}
exitall

[be]
ioengine=libaio
time_based
runtime=10m
iodepth=128
numjobs=4
prioclass=2
prio=4
"""


def _step(drive, case, name, what):
    queues, parameters = DRIVES[drive]
    who = {"name": name, "scheduler": name}
    if "tenants" in what:
        who = rivals.way(name, dict(what["tenants"]))
    return {"label": f"{drive}, {case}, {name}", "case": f"{case}, {drive}",
            "device": {"kind": "ssdsim", "params": {"queues": queues, "nodata": 1, "size_mb": 4096,
                                                    **parameters},
                       "sysfs": {"ssdsim/fill": 50}}, **what, **who}


def plan(drive, quick):
    """All steps on @drive."""
    out = [_step(drive, case, name, load(tenants, RAMP_S, SECONDS))
           for case, tenants in SHARES.items() for name in FAIR if not quick or name in QUICK]
    return out + [_step(drive, TAIL_CASE, name, {"measure": "fio", "job_text": TAIL_JOB})
                  for name in TAIL if not quick or name in QUICK]


def rows(step, answer):
    """The figures of one step."""
    def row(metric, value, unit, digits):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    if "tenants" not in step:
        if fio.nr_ios(answer, "rt") < SAMPLES:
            raise BenchError(f"{step['label']}: only {fio.nr_ios(answer, 'rt')} real-time requests")
        return [row("rt_p99.9", fio.latency_us(answer, "rt")["p99.9"] / 1000, "ms", 2),
                row("bandwidth", fio.bandwidth_mb_s(answer), "MB/s", 1)]
    got = [(answer[name], weight) for name, weight in step["tenants"]]
    return [row("jain", jain([amount / weight for amount, weight in got]), "1", 4),
            row("bandwidth", sum(amount for amount, _ in got) / SECONDS / 1e6, "MB/s", 1)]


def run(args):
    """Measure; the result dictionary."""
    drives = list(DRIVES)[:2] if args.quick else list(DRIVES)
    plans = [plan(drive, args.quick) for drive in drives]
    ran, results = lab.measure([(lab.virtual(args.kernel, DRIVES[drive][0]), steps)
                                for drive, steps in zip(drives, plans)], may_lose=True)
    parameters = {"device": "ssdsim: default, pcie4 with stretch 32, pcie5 with stretch 64; 4 GiB, "
                            "half filled",
                  "cpus": "as many as hardware queues", "runtime_s": SECONDS,
                  "outstanding": OUTSTANDING}
    return report.result("drives", ran, parameters, [entry for step, answer in
                                                     lab.flat(plans, results)
                                                     for entry in rows(step, answer)])


def table(result):
    """The figures as text."""
    def lines(metric, words, form, cases):
        names = [name for name in dict.fromkeys((*FAIR, *TAIL))
                 if report.values(result, name, metric, cases)]
        return report.by_scheduler(result, metric, words, form, names, cases)

    shares, tails = (report.cases_with(result, metric) for metric in ("jain", "rt_p99.9"))
    return "\n\n".join((lines("jain", "Jain's index of bandwidth / weight", "{:.3f}", shares),
                        lines("bandwidth", "total bandwidth, MB/s", "{:.0f}", shares),
                        lines("rt_p99.9", "real-time p99.9, ms", "{:.2f}", tails),
                        lines("bandwidth", "total bandwidth beside it, MB/s", "{:.0f}", tails)))


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    least = {name: min(report.values(result, name, "jain")) for name in ("none", "mq-mqfq")}
    tails = [(report.value(result, case, "none", "rt_p99.9")
              / report.value(result, case, "mq-k2", "rt_p99.9"))
             for case in report.cases_with(result, "rt_p99.9")]
    return (f"On drives with 4 to 64 hardware queues the least Jain's index is "
            f"{least['mq-mqfq']:.3f} under mq-mqfq, {least['none']:.3f} under none; mq-k2's p99.9 "
            f"is {min(tails):.3g} to {max(tails):.3g} times shorter than none's")


def draw(result, plt):
    """A line per case: Jain's index, and the tail; beside each, the bandwidth of none's."""
    shares, tails = (report.cases_with(result, metric) for metric in ("jain", "rt_p99.9"))
    figure, axes = style.panels(plt, 2, 2, 5.2, 0.8 + 0.3 * len(shares))
    for line, (cases, metric, words) in zip(axes, (
            (shares, "jain", "Jain's index of bandwidth over weight"),
            (tails, "rt_p99.9", "real-time p99.9, ms"))):
        for place, case in enumerate(cases):
            base = report.value(result, case, "none", "bandwidth")
            for name in report.unique(result, "scheduler"):
                value = report.value(result, case, name, metric)
                if value is None:
                    continue
                look = {"color": style.SCHEDULERS[name], "marker": "o", "markersize": 5}
                line[0].plot([value], [place], **look)
                line[1].plot([100 * report.value(result, case, name, "bandwidth") / base], [place],
                             **look)
        for axis in line:
            style.names_down(axis, cases, shown=axis is line[0])
            axis.set_xlim(0)
        line[0].set_xlabel(words)
        line[1].set_xlabel("total bandwidth, % of that under none")
    names = {name: style.SCHEDULERS[name] for name in report.unique(result, "scheduler")}
    return style.finish(figure, finding(result), style.conditions(result), style.marks(names))
