# SPDX-License-Identifier: GPL-2.0
"""bursts: a tenant that comes beside saturating ones: when it has its share, and its first latency.

The load has the shape of isol-bench's desideratum of reaction to bursts. One, four or sixteen
cgroups read 4 KiB at random with OUTSTANDING requests in all, all the time. The tenant, a cgroup of
the same weight, comes BURSTS times: it keeps DEPTH reads outstanding for ON_MS, and is away for
OFF_MS. guest/bursts.c notes when each request was sent and was back. In the last case the others
write, and only latency is reported: a share in bytes of reads and writes is not one of the drive.

mq-deadline and mq-k2 have classes instead of weights: there the tenant has I/O class real-time, and
may get more than its share.

With n others the tenant's share is the rate R of the drive in the case, by all tenants, over n + 1.
Figures, in ms since the tenant came, the median of its bursts and the worst:

  share      begin of the first of SETTLED windows in a row in which at least 1 - BAND of the share
             was completed. A window is WINDOW_MS long, or so long that the share is SHARE_REQUESTS
             requests, and one begins every STEP_MS. A burst that has none counts with all of it
  delay      the least d such that after t, for all t of the burst, at least share x (t - d) bytes
             were completed. It is the delay of the paper Delta Fair Sharing, measured
  latency    median and 99th percentile of the requests sent in the first FIRST_MS

The bound on mq-mqfq's delay
============================
Let S_i(t) be the bytes that tenant i has completed since m came, all of the same weight. While all
have requests that wait, kunit/sim/sim.h asserts for each f that S_f - S_m is at most

  B = A + T + (D + 1) (L_f + L_m) + P

The tenant f may be ahead by A: by T, or by 64 T if f was alone before. L is the largest request. P
is what both have paid in advance, on each hardware queue that they use: T / 4, and at most 16 KiB
or seven requests; a tenant with one queue pays for each request by itself. The drive is busy, so
the sum of all S_i is R t. With n others

  R t <= (n + 1) S_m + n B,  so  S_m >= R / (n + 1) (t - d)  for  d = n B / R

D counts with the requests that there are, if it is more, T and D with the largest that were in
force, looked at every 0.1 s. "bound" is d.
"""
import math
import re
import statistics

from kit import fio, lab, report, rivals, style
from kit.say import BenchError
from kit.tenants import HEAD

ONE_LINE = "how long a tenant that comes waits for its share, and its first latency"

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048},
         "sysfs": {"ssdsim/fill": 50}}
BLOCK = 4096
OUTSTANDING, DEPTH = 256, 16
RAMP_S = 1.5
BURSTS, ON_MS, OFF_MS = 15, 60, 40
WINDOW_MS, STEP_MS, SETTLED, BAND, SHARE_REQUESTS = 1, 0.1, 3, 0.2, 6
FIRST_MS = 5
# Of mq-mqfq: MQFQ_ALONE_WINDOWS, and lib/flow_local.h.
ALONE_WINDOWS, PAID_PART, PAID_BYTES, PAID_REQUESTS = 64, 4, 16384, 7

# Case: others, what they do, whether it is part of a quick look.
CASES = {"1 reader": (1, "randread", False), "4 readers": (4, "randread", True),
         "16 readers": (16, "randread", False), "4 writers": (4, "randwrite", False)}
OURS = "mq-mqfq"
NAMES = ("none", "mq-deadline", "kyber", "bfq", "bfq, tuned", "io.cost", "io.cost, tuned", "mq-k2",
         OURS)
QUICK_NAMES = ("none", "bfq", OURS)
BY_CLASS = ("mq-deadline", "mq-k2")
# Metric: words, format.
METRICS = {"share": ("share after, ms, median of the bursts", "{:.1f}"),
           "share, worst": ("share after, ms, worst burst", "{:.1f}"),
           "delay": ("delay, ms, median of the bursts", "{:.1f}"),
           "delay, worst": ("delay, ms, worst burst", "{:.1f}"),
           "first p50": (f"median latency of what is sent in the first {FIRST_MS} ms, ms",
                         "{:.2f}"),
           "first p99": (f"p99 latency of what is sent in the first {FIRST_MS} ms, ms", "{:.2f}"),
           "of share": ("bytes in all bursts, % of the share", "{:.0f}"),
           "bandwidth": ("total, MB/s", "{:.1f}")}


# ---- what is measured ----

def job_text(others, pattern):
    """@others cgroups with OUTSTANDING requests in all, on one CPU each, or on all if alone."""
    text = HEAD + f"rw={pattern}\nbs={BLOCK}\ngroup_reporting\n"
    tasks = max(1, CPUS // others)
    for number in range(others):
        cpus = f"0-{CPUS - 1}" if tasks > 1 else number % CPUS
        text += (f"\n[o{number}]\ncgroup=o{number}\nnumjobs={tasks}\n"
                 f"iodepth={OUTSTANDING // others // tasks}\ncpus_allowed={cpus}\n"
                 "cpus_allowed_policy=split\n")
    return text


def _way(name, weights):
    if name in rivals.WAYS:
        return rivals.way(name, weights)
    return {"name": name, "scheduler": name, "tunables": {},
            "cgroups": {"control": name, "weights": weights}}


def steps(quick):
    """All steps, in the order of the result."""
    out = []
    for case, (others, pattern, in_quick) in CASES.items():
        if quick and not in_quick:
            continue
        weights = {"guest": 100, **{f"o{number}": 100 for number in range(others)}}
        out += [{"label": f"{case}, {name}", "case": case, "others": others, "pattern": pattern,
                 "device": DRIVE, "measure": "bursts", "program": lab.BURSTS, "who": "guest",
                 "class": "1" if name in BY_CLASS else "0", "depth": DEPTH, "bursts": BURSTS,
                 "on_ms": ON_MS, "off_ms": OFF_MS, "cpu": 0, "ramp_s": RAMP_S,
                 "job_text": job_text(others, pattern), **_way(name, weights), "fresh": True,
                 **({"watch": "auto"} if name == OURS else {})}
                for name in (QUICK_NAMES if quick else NAMES)]
    return out


# ---- figures ----

def bursts_of(step, requests):
    """[[(ms when sent, ms when back)] of each burst]"""
    out = [[] for _ in range(step["bursts"])]
    for burst, sent_ns, back_ns in requests:
        out[burst].append((sent_ns / 1e6, back_ns / 1e6))
    if not all(out):
        raise BenchError(f"{step['label']}: a burst has no request")
    return out


def window_ms(share_per_ms):
    """The length of a window in which the share is enough requests to tell."""
    return max(WINDOW_MS, math.ceil(SHARE_REQUESTS / share_per_ms))


def share_after_ms(backs, share_per_ms):
    """When a burst whose requests were back at @backs has its share, of @share_per_ms requests."""
    length = window_ms(share_per_ms)
    asked = (1 - BAND) * share_per_ms * length

    def has_share(begin):
        return sum(begin <= at < begin + length for at in backs) >= asked

    for number in range(round((ON_MS - SETTLED * length) / STEP_MS) + 1):
        begin = number * STEP_MS
        if all(has_share(begin + place * length) for place in range(SETTLED)):
            return begin
    return ON_MS


def delay_ms(backs, share_per_ms):
    """The least delay with which a burst has its share from then on.

    It is decided just before a request is back, or at the end of the burst.
    """
    inside = [at for at in sorted(backs) if at < ON_MS]
    return max(at - number / share_per_ms for number, at in enumerate([*inside, ON_MS]))


def bound_ms(step, rate_mb_s, texts):
    """The bound on the delay, from the largest T and D in force in @texts."""
    def largest(what):
        found = re.findall(rf"^{what} \w+ found \d+ in_force (\d+)", "\n".join(texts), re.M)
        if not found:
            raise BenchError(f"{step['label']}: mq-mqfq did not say its {what}")
        return max(map(int, found))

    others, throttle = step["others"], 1024 * largest("throttle_kb")
    slots = min(largest("slots"), OUTSTANDING + DEPTH)
    ahead = throttle * (ALONE_WINDOWS if others == 1 else 1)
    queues = CPUS if others == 1 else 0     # with one queue, nothing is paid in advance
    paid = queues * min(throttle // PAID_PART, PAID_BYTES, PAID_REQUESTS * BLOCK)
    bytes_ahead = ahead + throttle + (slots + 1) * 2 * BLOCK + paid
    return others * bytes_ahead / rate_mb_s / 1000


def rows(step, answer):
    """The figures of one step."""
    def row(metric, value, unit="ms", digits=2):
        return report.row(step["case"], step["name"], metric, [value], unit, digits)

    rate = sum(answer["bytes"].values()) / answer["seconds"] / 1e6
    found = bursts_of(step, answer["requests"])
    first = sorted((back - sent, 1) for burst in found for sent, back in burst if sent < FIRST_MS)
    out = [row("first p50", fio.percentile_of(first, 0.5)),
           row("first p99", fio.percentile_of(first, 0.99)), row("bandwidth", rate, "MB/s", 1)]
    if step["pattern"] != "randread":
        return out
    share_per_ms = 1000 * rate / (step["others"] + 1) / BLOCK
    backs = [[back for _, back in burst] for burst in found]
    for metric, figure in (("share", share_after_ms), ("delay", delay_ms)):
        values = [figure(burst, share_per_ms) for burst in backs]
        out += [row(metric, statistics.median(values)), row(f"{metric}, worst", max(values))]
    inside = sum(at < ON_MS for burst in backs for at in burst)
    out.append(row("of share", 100 * inside / len(backs) / ON_MS / share_per_ms, "%", 1))
    if step["name"] == OURS:
        out.append(row("bound", bound_ms(step, rate, answer["watched"])))
    return out


def run(args):
    """Measure; the result dictionary."""
    lab.build_bursts()
    todo = steps(args.quick)
    # Halves of alike length, and io.cost's model in one guest only.
    plans = [[step for step in todo if step["name"] in names]
             for names in (NAMES[0::2], NAMES[1::2])]
    ran, results = lab.measure_virtual(args.kernel, CPUS, plans, may_lose=True)
    pairs = lab.flat(plans, results)
    pairs.sort(key=lambda pair: todo.index(pair[0]))
    parameters = {"device": "ssdsim, default profile, 2 GiB, half filled, 4 hardware queues",
                  "cpus": CPUS, "block_bytes": BLOCK, "outstanding": OUTSTANDING, "depth": DEPTH,
                  "bursts": BURSTS, "on_ms": ON_MS, "off_ms": OFF_MS, "jobs": "generated"}
    return report.result("bursts", ran, parameters, [entry for step, answer in pairs
                                                     for entry in rows(step, answer)])


def _names(result):
    return [name for name in NAMES if name in report.unique(result, "scheduler")]


def table(result):
    """The figures as text."""
    names = _names(result)
    out = [report.by_scheduler(result, metric, words, form, names,
                               report.cases_with(result, metric))
           for metric, (words, form) in METRICS.items()]
    lines = [[case, *(f"{report.value(result, case, OURS, metric):.1f}"
                      for metric in ("delay", "delay, worst", "bound"))]
             for case in report.cases_with(result, "bound")]
    return "\n\n".join([*out, report.table(["mq-mqfq, ms", "delay", "worst burst", "bound"],
                                           lines)])


# ---- the picture ----

# Metric: title of the panel, format; logarithmic panels say so.
PANELS = {"share": ("share after, ms, median of the bursts", "{:.1f}"),
          "share, worst": ("share after, ms, worst burst", "{:.1f}"),
          "delay, worst": ("delay, ms, worst burst; line: mq-mqfq's bound", "{:.0f}"),
          "first p99": (f"p99 of the first {FIRST_MS} ms, ms (log)", "{:.0f}"),
          "of share": ("bytes of the bursts, % of the share (log)", "{:.0f}")}


def _sooner(result, case, names):
    """Those of @names whose median or worst burst has its share sooner than ours, with both."""
    def both(name):
        return [report.value(result, case, name, metric) for metric in ("share", "share, worst")]

    ours = both(OURS)
    return [f"{name} {median:.1f} ({worst:.1f})" for name in names
            for median, worst in [both(name)] if median < ours[0] or worst < ours[1]]


def finding(result):
    """What the picture shows, in a sentence: ours, none's, and every rival's that is sooner."""
    case = "4 readers"
    median, worst = (
        [report.value(result, case, name, metric) for name in (OURS, "none")]
        for metric in ("share", "share, worst"))
    sooner = ", ".join(_sooner(result, case, [name for name in _names(result)
                                              if name not in ("none", OURS)]))
    bounds = [(report.value(result, where, OURS, "delay, worst"),
               report.value(result, where, OURS, "bound"))
              for where in report.cases_with(result, "bound")]
    kept = sum(delay <= bound for delay, bound in bounds)
    return (f"A tenant that comes beside four readers has its share after {median[0]:.1f} ms "
            f"(worst burst: {worst[0]:.1f}) under mq-mqfq, {median[1]:.1f} ({worst[1]:.1f}) under "
            f"none; sooner in one of the two: {sooner or 'no other'}. mq-mqfq's delay is within "
            f"its bound in {kept} of {len(bounds)} cases")


def draw(result, plt):
    """A panel per figure, a group of bars per case."""
    colors = style.ordered(_names(result))
    figure, axes = style.panels(plt, len(PANELS), 1, 11, 1.8)
    for axis, (metric, (words, form)) in zip(axes[:, 0], PANELS.items()):
        cases = report.cases_with(result, metric)
        style.bars(axis, cases, colors,
                   lambda case, name, metric=metric: report.value(result, case, name, metric),
                   form)
        axis.set_title(words, loc="left")
        if words.endswith("(log)"):
            axis.set_yscale("log")
            style.log_ticks(axis, across=True)
        if metric == "of share":
            style.guide(axis, 100, across=True)
        if metric == "delay, worst":
            for place, case in enumerate(cases):
                bound = report.value(result, case, OURS, "bound")
                axis.plot([place - 0.45, place + 0.45], [bound, bound], color=colors[OURS],
                          linewidth=1)
    footer = style.conditions(
        result, f"A burst of {ON_MS} ms keeps {DEPTH} reads of 4 KiB outstanding; the others have "
        f"{OUTSTANDING} in all. {BURSTS} bursts. A burst that never has its share counts with "
        f"{ON_MS} ms. Under mq-deadline and mq-k2 the tenant has class real-time.")
    return style.finish(figure, finding(result), footer, style.patches(colors))
