# SPDX-License-Identifier: GPL-2.0
"""Measure what a scheduler must know of a drive, and print the lines that set it.

For mq-mqfq this is how many requests the drive can work on at once. calibrate reads at random
places without a scheduler, with requests of 4, 16 and 64 KiB and a rising number of them in flight.
The smallest number in flight that reaches 97% of the best rate, for 4 KiB, is the drive's
parallelism: set mq-mqfq's "slots" to it (MQFQ, ATC 2019, section 3.4). With fewer slots the drive
is partly idle. With more, requests wait inside the drive, where no scheduler orders them.

While mq-mqfq shares time, it learns what requests take of the drive's time. --cost measures that
beforehand: reads, writes and FUA writes of 4, 16, 64 and 256 KiB at random places, each kind alone
with 128 in flight. A drive that is busy with one kind takes, for each request, one second over the
requests per second.

For mq-tabs (--tabs) these are the drive's maximum read bandwidth and its maximum FUA-write
bandwidth, each measured alone: 16 KiB at random places, 128 in flight, as in the TABS paper
(HotStorage 2022, section 4).

calibrate only reads, except with --write-cost, --cost and --tabs. These write at random places over
the whole device and destroy its data: they ask first, and refuse a device in use.
"""
import json
import os
import sys

from device import Device, DeviceError, read

ONE_LINE = "measure what a scheduler must know of a drive; print the lines that set it"

DEPTHS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SIZES_KB = (4, 16, 64)
KNEE = 0.97
# The sweep ends when the rate has not grown by FLAT_RATIO over FLAT steps.
FLAT, FLAT_RATIO = 3, 1.01
BAR = 40
JOBS_MAX = 4
TABS_SIZE_KB = 16
# In flight where the drive shall be busy.
BUSY_DEPTH = 128
# Writes fill the drive's cache at first; the rate after that counts.
WRITE_SECONDS = 4
# What mq-mqfq takes as a cost (mq-mqfq/mqfq_cost.h).
COST_SIZES_KB = (4, 16, 64, 256)
COST_NS_MIN, COST_NS_MAX = 100, 20_000_000
# operation, fio's pattern, options, seconds per point over those of a read
READS = ("read", "randread", (), 1)
WRITES = ("write", "randwrite", (), WRITE_SECONDS)
FUA_WRITES = ("fua", "randwrite", ("--sync=dsync",), WRITE_SECONDS)


def arguments(parser):
    """The options of this command."""
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S",
                        help="per point (default 1.0; at most 39 points)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--write-cost", action="store_true",
                      help="also measure write_cost_pct; DESTROYS THE DATA ON THE DEVICE, asks "
                           "first")
    what.add_argument("--cost", action="store_true",
                      help="measure cost_read_ns, cost_write_ns and cost_fua_ns; DESTROYS THE DATA "
                           "ON THE DEVICE, asks first")
    what.add_argument("--tabs", action="store_true",
                      help="measure max_read_kbps and max_fua_write_kbps; DESTROYS THE DATA ON THE "
                           "DEVICE, asks first")
    parser.add_argument("--json", action="store_true",
                        help="curves, settings and the lines that set them, as JSON")


def _fio(device, pattern, size_kb, depth, seconds, *options):
    """Requests per second of one point."""
    # As many jobs as there are CPUs, up to JOBS_MAX, all with the same part of the depth.
    jobs = next(number for number in range(min(depth, JOBS_MAX, os.cpu_count() or 1), 0, -1)
                if depth % number == 0)
    argv = ["--name=point", f"--filename={device.node}", f"--rw={pattern}", f"--bs={size_kb}k",
            "--direct=1", "--ioengine=libaio", f"--iodepth={depth // jobs}", f"--numjobs={jobs}",
            "--thread", "--group_reporting", "--norandommap", "--time_based",
            # Whole numbers: fio takes 0.5s for 0, and reads the whole drive.
            f"--ramp_time={round(seconds * 250)}ms", f"--runtime={round(seconds * 1000)}ms",
            *options]
    if pattern == "randread":
        argv.append("--readonly")
    job = device.fio_jobs(*argv)[0]
    rate = job["read" if pattern == "randread" else "write"]["iops"]
    if not rate:
        raise DeviceError(f"{device.name} completed no request of {size_kb} KiB in {seconds:g} s")
    return rate


def knee(points):
    """The smallest depth of [(depth, rate)] that reaches KNEE of the best rate."""
    best = max(rate for _, rate in points)
    return next(depth for depth, rate in points if rate >= KNEE * best)


def _sweep(device, size_kb, seconds):
    """[(depth, rate)] for requests of @size_kb."""
    print(f"{size_kb} KiB random reads, requests per second by requests in flight", file=sys.stderr,
          flush=True)
    points = []
    for depth in DEPTHS:
        points.append((depth, _fio(device, "randread", size_kb, depth, seconds)))
        print(f"  {depth:4} {points[-1][1]:10.0f}", file=sys.stderr, flush=True)
        if len(points) > FLAT and points[-1][1] < FLAT_RATIO * points[-1 - FLAT][1]:
            break
    return points


def _show_curve(size_kb, points):
    """Print the curve as bars, and mark the knee."""
    best, found = max(rate for _, rate in points), knee(points)
    print(f"\n{size_kb} KiB random reads, requests per second by requests in flight")
    for depth, rate in points:
        mark = f"  <- {KNEE:.0%} of the best" if depth == found else ""
        print(f"  {depth:4} {rate:10.0f} {'#' * round(BAR * rate / best)}{mark}")


def _write_cost(device, args, read_rate, depth):
    """The cost of a written byte in percent of the cost of a read one."""
    rate = _fio(device, "randwrite", 4, depth, args.seconds * 4)
    return round(100 * read_rate / rate)


def _has_fua(device):
    return read(device.queue("write_cache")) == "write back" and read(device.queue("fua")) == "1"


def _measure_cost(device, args):
    """What requests take of the drive's time, in ns, by size, as mq-mqfq's tunables have it."""
    kinds = [READS, WRITES] + ([FUA_WRITES] if _has_fua(device) else [])
    settings = {"cost": "time"}
    heads = "".join(f"{size_kb:8} KiB" for size_kb in COST_SIZES_KB)
    with device.claimed(destroys=True), device.without_scheduler():
        print(f"  ns    {heads}", file=sys.stderr)
        for name, pattern, options, times in kinds:
            print(f"  {name:6}", end="", file=sys.stderr, flush=True)
            costs = []
            for size_kb in COST_SIZES_KB:
                rate = _fio(device, pattern, size_kb, BUSY_DEPTH, args.seconds * times, *options)
                costs.append(min(max(round(1e9 / rate), COST_NS_MIN), COST_NS_MAX))
                print(f"{costs[-1]:12}", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
            settings[f"cost_{name}_ns"] = " ".join(map(str, costs))
    return settings


def _measure_tabs(device, args):
    """The maxima of mq-tabs, in KiB per second."""
    if not _has_fua(device):
        raise DeviceError(f"{device.name} has no volatile write cache, or no FUA: mq-tabs has "
                          "nothing to schedule there")
    rates = {}
    with device.claimed(destroys=True), device.without_scheduler():
        for name, pattern, times, options in (
                ("max_read_kbps", "randread", 1, ()),
                ("max_fua_write_kbps", "randwrite", WRITE_SECONDS, ("--sync=dsync",))):
            rate = _fio(device, pattern, TABS_SIZE_KB, BUSY_DEPTH, args.seconds * times, *options)
            rates[name] = round(TABS_SIZE_KB * rate)
            print(f"  {name:20}{rates[name]:10}", file=sys.stderr, flush=True)
    return rates


def _measure(device, args):
    """({size: curve}, {tunable: value}) for mq-mqfq."""
    with device.claimed(destroys=args.write_cost), device.without_scheduler():
        curves = {size_kb: _sweep(device, size_kb, args.seconds) for size_kb in SIZES_KB}
        settings = {"slots": knee(curves[SIZES_KB[0]])}
        if args.write_cost:
            pct = _write_cost(device, args, max(rate for _, rate in curves[SIZES_KB[0]]),
                              settings["slots"])
            settings["write_cost_pct"] = min(pct, 10000)
    return curves, settings


def run(args):
    """Measure and print."""
    device = Device(args.device)
    if args.seconds <= 0:
        raise DeviceError("--seconds must be more than 0")
    if args.cost:
        curves, settings = {}, _measure_cost(device, args)
    elif args.tabs:
        curves, settings = {}, _measure_tabs(device, args)
    else:
        curves, settings = _measure(device, args)
    scheduler = "mq-tabs" if args.tabs else "mq-mqfq"
    lines = [f"echo {value} > {device.queue(f'iosched/{name}')}"
             for name, value in settings.items()]
    if args.json:
        print(json.dumps({"device": device.name, "scheduler": scheduler,
                          "curves": {size_kb: dict(points) for size_kb, points in curves.items()},
                          "knees": {size_kb: knee(points) for size_kb, points in curves.items()},
                          "settings": settings, "lines": lines}, indent=1))
        return
    for size_kb, points in curves.items():
        _show_curve(size_kb, points)
    if curves:
        others = "".join(f", {knee(curves[size])} of {size} KiB" for size in SIZES_KB[1:])
        print(f"\n{device.name} can work on about {settings['slots']} requests of {SIZES_KB[0]} "
              f"KiB at once{others}.")
    print(f"\nFor {scheduler}:\n")
    for line in lines:
        print(f"  {line}")
