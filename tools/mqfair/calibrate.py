# SPDX-License-Identifier: GPL-2.0
"""Measure what a scheduler must know of a drive: for mq-mqfq how many requests it can work on at once, with --tabs for mq-tabs two maxima.

For requests of 4, 16 and 64 KiB and a rising number of them in flight, without a scheduler, it reads at random places and notes the
rate. The smallest number in flight that reaches 97% of the best rate, for 4 KiB, is what the drive can work on in parallel; that is
what mq-mqfq's "slots" wants to be (MQFQ, ATC 2019, section 3.4). With fewer the drive is partly idle, with more the requests wait inside
the drive, where nobody sorts them.

With --tabs it measures instead what the drive reads, and what it writes with FUA, if it does nothing else: 16 KiB at random places, 128 in
flight, as the TABS paper does (HotStorage 2022, section 4).

It only reads, but for --write-cost and --tabs, which write at random places over the whole device: they destroy what is there, say so, and
ask; a device that is in use they refuse.
"""
import json
import os
import sys

from device import Device, DeviceError, read

ONE_LINE = "measure the drive's parallelism, or its maxima for mq-tabs; prints the lines that set them"

DEPTHS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SIZES_KB = (4, 16, 64)
KNEE = 0.97
# The sweep ends when the rate has not grown over so many steps.
FLAT, FLAT_RATIO = 3, 1.01
BAR = 40
JOBS_MAX = 4
TABS_SIZE_KB, TABS_DEPTH = 16, 128
# FUA writes fill the drive's cache at first; what counts is the rate after that.
TABS_WRITE_SECONDS = 4


def arguments(parser):
    """The options of this command."""
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="per point (default 1.0; at most 39 points)")
    parser.add_argument("--write-cost", action="store_true",
                        help="also measure write_cost_pct; DESTROYS THE DATA ON THE DEVICE, asks before it begins")
    parser.add_argument("--tabs", action="store_true",
                        help="measure max_read_kbps and max_fua_write_kbps; DESTROYS THE DATA ON THE DEVICE, asks before it begins")
    parser.add_argument("--json", action="store_true", help="curves, settings and the lines that set them, as JSON")


def _fio(device, pattern, size_kb, depth, seconds, *options):
    """Requests per second of one point."""
    # As many as there are CPUs for, and all with the same part of the depth.
    jobs = next(number for number in range(min(depth, JOBS_MAX, os.cpu_count() or 1), 0, -1) if depth % number == 0)
    argv = ["--name=point", f"--filename={device.node}", f"--rw={pattern}", f"--bs={size_kb}k", "--direct=1", "--ioengine=libaio",
            f"--iodepth={depth // jobs}", f"--numjobs={jobs}", "--thread", "--group_reporting", "--norandommap", "--time_based",
            # Whole numbers: fio takes 0.5s for 0, and reads the whole drive.
            f"--ramp_time={round(seconds * 250)}ms", f"--runtime={round(seconds * 1000)}ms", *options]
    if pattern == "randread":
        argv.append("--readonly")
    job = device.fio_jobs(*argv)[0]
    return job["read" if pattern == "randread" else "write"]["iops"]


def knee(points):
    """The smallest depth of [(depth, rate)] that reaches KNEE of the best rate."""
    best = max(rate for _, rate in points)
    return next(depth for depth, rate in points if rate >= KNEE * best)


def _sweep(device, size_kb, seconds):
    """[(depth, rate)] for requests of @size_kb."""
    print(f"{size_kb} KiB random reads, requests per second by requests in flight", file=sys.stderr, flush=True)
    points = []
    for depth in DEPTHS:
        points.append((depth, _fio(device, "randread", size_kb, depth, seconds)))
        print(f"  {depth:4} {points[-1][1]:10.0f}", file=sys.stderr, flush=True)
        if len(points) > FLAT and points[-1][1] < FLAT_RATIO * points[-1 - FLAT][1]:
            break
    return points


def _show_curve(size_kb, points):
    """Bars, and where the knee is."""
    best, found = max(rate for _, rate in points), knee(points)
    print(f"\n{size_kb} KiB random reads, requests per second by requests in flight")
    for depth, rate in points:
        print(f"  {depth:4} {rate:10.0f} {'#' * round(BAR * rate / best)}{'  <- ' + format(KNEE, '.0%') + ' of the best' if depth == found else ''}")


def _write_cost(device, args, read_rate, depth):
    """What a byte written costs, in percent of one read."""
    rate = _fio(device, "randwrite", 4, depth, args.seconds * 4)
    return round(100 * read_rate / rate)


def _measure_tabs(device, args):
    """The maxima of mq-tabs, in KiB per second."""
    if read(device.queue("write_cache")) != "write back" or read(device.queue("fua")) != "1":
        raise DeviceError(f"{device.name} has no volatile write cache, or no FUA: mq-tabs has nothing to schedule there")
    rates = {}
    with device.claimed(destroys=True), device.without_scheduler():
        for name, pattern, seconds, options in (("max_read_kbps", "randread", args.seconds, ()),
                                                ("max_fua_write_kbps", "randwrite", args.seconds * TABS_WRITE_SECONDS, ("--sync=dsync",))):
            rates[name] = round(TABS_SIZE_KB * _fio(device, pattern, TABS_SIZE_KB, TABS_DEPTH, seconds, *options))
            print(f"  {name:20}{rates[name]:10}", file=sys.stderr, flush=True)
    return rates


def _measure(device, args):
    """({size: curve}, {tunable: value}) for mq-mqfq."""
    with device.claimed(destroys=args.write_cost), device.without_scheduler():
        curves = {size_kb: _sweep(device, size_kb, args.seconds) for size_kb in SIZES_KB}
        settings = {"slots": knee(curves[SIZES_KB[0]])}
        if args.write_cost:
            pct = _write_cost(device, args, max(rate for _, rate in curves[SIZES_KB[0]]), settings["slots"])
            settings["write_cost_pct"] = min(pct, 10000)
    return curves, settings


def run(args):
    """Measure and print."""
    device = Device(args.device)
    if args.seconds <= 0:
        raise DeviceError("--seconds must be more than 0")
    curves, settings = ({}, _measure_tabs(device, args)) if args.tabs else _measure(device, args)
    scheduler = "mq-tabs" if args.tabs else "mq-mqfq"
    lines = [f"echo {value} > {device.queue(f'iosched/{name}')}" for name, value in settings.items()]
    if args.json:
        print(json.dumps({"device": device.name, "scheduler": scheduler, "curves": {size_kb: dict(points) for size_kb, points in curves.items()},
                          "knees": {size_kb: knee(points) for size_kb, points in curves.items()}, "settings": settings, "lines": lines}, indent=1))
        return
    for size_kb, points in curves.items():
        _show_curve(size_kb, points)
    if curves:
        print(f"\n{device.name} can work on about {settings['slots']} requests of {SIZES_KB[0]} KiB at once"
              + "".join(f", {knee(points)} of {size} KiB" for size, points in curves.items() if size != SIZES_KB[0]) + ".")
    print(f"\nFor {scheduler}:\n")
    for line in lines:
        print(f"  {line}")
