# SPDX-License-Identifier: GPL-2.0
"""Loads that change from phase to phase, bandwidth in windows, and when it has settled.

For mq-tabs a reader runs all the time. A FUA writer starts after PHASE_MS; a second one starts and
ends again; then the first one ends. Each has 128 requests of 16 KiB in flight.
"""
from . import fio, fua
from .say import BenchError

WINDOW_MS = 50
PHASE_MS = 1500
# A window is the average of few requests. A phase has settled when SETTLED windows in a row are
# within BAND of its final bandwidth.
SETTLED, BAND = 3, 0.2
COMMON = ("[global]\nfilename=${DEV}\ndirect=1\nbs=16k\nnorandommap\nrandrepeat=1\ntime_based\n"
          f"log_avg_msec={WINDOW_MS}\nlog_unix_epoch=1\nper_job_logs=0\ncgroup_nodelete=1\n")
# Tenant: the phases in which it begins and ends.
WRITERS = {"writer 1": (1, 4), "writer 2": (2, 3)}
NR_PHASES = {"mq-tabs": 5, "mq-octofas": 2}


def section(case, name, first, last, more):
    """A job from phase @first to phase @last.

    A job of the last phase runs on a little, so that the last window is whole.
    """
    after_ms = 4 * WINDOW_MS if last == NR_PHASES[case] else 0
    runtime_ms = (last - first) * PHASE_MS + after_ms
    return (f"\n[{name}]\nwrite_bw_log={name}\nstartdelay={first * PHASE_MS}ms\n"
            f"runtime={runtime_ms}ms\n{more}")


def fua_job():
    """The reader, and the writers that come and go."""
    deep = "ioengine=libaio\niodepth=128\n"
    reader = section("mq-tabs", "reader", 0, NR_PHASES["mq-tabs"], f"{deep}rw=randread\n")
    writers = (section("mq-tabs", name, *when, f"{deep}rw=randwrite\nsync=dsync\n")
               for name, when in WRITERS.items())
    return COMMON + reader + "".join(writers)


def fua_step(scheduler):
    """The load of mq-tabs under @scheduler."""
    tenants = ["reader", *WRITERS]
    return {"label": f"reads and FUA writes, {scheduler}", "case": "mq-tabs", "device": fua.DRIVE,
            "name": scheduler, "scheduler": scheduler, "tunables": fua.tunables_of(scheduler),
            "measure": "fio", "job_text": fua_job(), "series": tenants,
            "tenants": {name: [name] for name in tenants}}


def curves(step, jobs):
    """{tenant: [MB/s in each window since the first job began]}"""
    series = {name: fio.job(jobs, name).get("series") for name in step["series"]}
    missing = [name for name, found in series.items() if not found]
    if missing:
        raise BenchError(f"fio gave no bandwidth over time for {', '.join(missing)}")
    # Some jobs take longer to begin than others: time counts from the one that begins first.
    begins = {name: WRITERS.get(name, (0, 0))[0] * PHASE_MS for name in series}
    zero = min(found[0][0] - begins[name] for name, found in series.items()) // WINDOW_MS
    nr = NR_PHASES[step["case"]] * PHASE_MS // WINDOW_MS
    out = {tenant: [0.0] * nr for tenant in step["tenants"]}
    for tenant, names in step["tenants"].items():
        for name in names:
            for at, value in series[name]:
                if at // WINDOW_MS - zero < nr:
                    out[tenant][at // WINDOW_MS - zero] += value * 1024 / 1e6
    return out


def settle_ms(values):
    """Time until SETTLED windows in a row are within BAND of the mean of @values' second half.

    If none are, the length of the phase.
    """
    half = values[len(values) // 2:]
    final, row = sum(half) / len(half), 0
    for number, value in enumerate(values):
        row = row + 1 if abs(value - final) <= BAND * final else 0
        if row == SETTLED:
            return (number - SETTLED + 1) * WINDOW_MS
    return len(values) * WINDOW_MS
