# SPDX-License-Identifier: GPL-2.0
"""What shares do not show: what a modest tenant loses, and how fast shares follow a change.

  slowdown   a tenant that asks for less than its share, alone and then beside an antagonist:
             bandwidth alone over bandwidth beside the antagonist
  settle     a tenant with 64 KiB requests; one with 4 KiB requests joins it and leaves again: time
             until each has half, and until the first has all again. Counted in windows of
             WINDOW_MS, from the change to the first of SETTLED windows in a row within BAND
  shallow    bandwidth of a tenant with one request at a time beside eight deep ones; it cannot
             reach its share
"""
from . import fio, report
from .say import BenchError

WINDOW_MS = 20
SETTLED = 3
BAND = 0.1
COMES_MS, STAYS_MS, GOES_ON_MS = 400, 500, 400

COMMON = ("filename=${DEV}\ndirect=1\nioengine=libaio\nnorandommap\nrandrepeat=1\ntime_based\n"
          "cgroup_nodelete=1\ngroup_reporting=1\nrw=randread\nbs=4k\n")
MODEST = "new_group\ncgroup=victim\niodepth=16\nrate_iops=1500\n"
SLOWDOWN = f"""[global]
{COMMON}ramp_time=200ms
runtime=600ms

[alone]
{MODEST}
[victim]
stonewall
{MODEST}
[antagonist]
new_group
cgroup=antagonist
bs=64k
iodepth=64
numjobs=3
"""
SETTLE = f"""[global]
{COMMON}iodepth=64
log_avg_msec={WINDOW_MS}
log_unix_epoch=1
per_job_logs=0

[first]
new_group
cgroup=first
bs=64k
write_bw_log=first
runtime={COMES_MS + STAYS_MS + GOES_ON_MS}ms

[second]
new_group
cgroup=second
write_bw_log=second
startdelay={COMES_MS}ms
runtime={STAYS_MS}ms
"""
DEEP = [f"deep{i}" for i in range(1, 9)]
SHALLOW = (f"[global]\n{COMMON}ramp_time=300ms\nruntime=700ms\n\n"
           "[shallow]\nnew_group\ncgroup=shallow\niodepth=1\n"
           + "".join(f"\n[{name}]\nnew_group\ncgroup={name}\niodepth=32\n" for name in DEEP))
# Name: words, job, cgroups, jobs whose bandwidth over time is wanted.
CASES = {
    "slowdown": ("a modest tenant beside an antagonist", SLOWDOWN, ("victim", "antagonist"), ()),
    "settle": ("4 KiB come to 64 KiB and go", SETTLE, ("first", "second"), ("first", "second")),
    "shallow": ("one request at a time beside 8 x 32", SHALLOW, ("shallow", *DEEP), ()),
}
# Metric: words, format.
TABLE = {"slowdown": ("slowdown of the modest tenant", "{:.2f}"),
         "settle_coming": ("shares settle after a tenant comes, ms", "{:.0f}"),
         "settle_going": ("and after it has gone, ms", "{:.0f}"),
         "bandwidth shallow": ("depth-1 tenant beside 8 deep ones, MB/s", "{:.2f}")}


def job(name):
    """A step's load: the job's text, its tenants with their weights, the jobs to record."""
    _, text, groups, series = CASES[name]
    return {"job_text": text, "tenants": [(group, 100) for group in groups], "series": list(series)}


def _windows(jobs, name):
    """{number of the window since the clock's zero: KiB/s}"""
    series = fio.job(jobs, name).get("series")
    if not series:
        raise BenchError(f"fio gave no bandwidth over time for job {name}")
    return {round(at / WINDOW_MS): value for at, value in series}


def _settled_ms(windows, is_settled):
    """Time until SETTLED windows of the range @windows in a row are settled; else all of it."""
    row = 0
    for number in windows:
        row = row + 1 if is_settled(number) else 0
        if row == SETTLED:
            return (number - SETTLED + 1 - windows.start) * WINDOW_MS
    return len(windows) * WINDOW_MS


def settle_ms(jobs):
    """Times that shares take to settle after the second tenant has come, and after it has gone.

    A tenant that never gets there counts with all the time it had.
    """
    first, second = _windows(jobs, "first"), _windows(jobs, "second")
    comes, goes, end = min(second), max(second), max(first)
    before = [value for number, value in first.items() if min(first) + 2 < number < comes]
    if not before:
        raise BenchError("the first tenant was never alone")
    alone = sum(before) / len(before)

    def halves(number):
        ours, theirs = first.get(number, 0), second.get(number, 0)
        return ours + theirs > 0 and abs(ours / (ours + theirs) - 0.5) <= BAND / 2

    def whole(number):
        return first.get(number, 0) >= (1 - BAND) * alone
    return _settled_ms(range(comes, goes), halves), _settled_ms(range(goes + 1, end), whole)


def rows(case, name, scheduler, jobs):
    """The rows of reaction @name, which the result calls @case."""
    def row(metric, value, unit, **more):
        return report.row(case, scheduler, metric, [value], unit, **more)

    def bandwidth(job_name):
        return fio.bandwidth_of_mb_s(jobs, job_name)

    if name == "slowdown":
        return [row("slowdown", bandwidth("alone") / bandwidth("victim"), "1", digits=3),
                row("bandwidth victim", bandwidth("victim"), "MB/s"),
                row("bandwidth antagonist", bandwidth("antagonist"), "MB/s")]
    if name == "settle":
        comes, goes = settle_ms(jobs)
        return [row("settle_coming", comes, "ms"), row("settle_going", goes, "ms")]
    return [row("bandwidth shallow", bandwidth("shallow"), "MB/s", digits=2),
            row("mean_latency", fio.mean_us(jobs, "shallow"), "us")]
