# SPDX-License-Identifier: GPL-2.0
"""Watch requests on their way through a scheduler, for some seconds.

  latency    time in the scheduler and time at the drive, as histograms by I/O priority class and
             kind of request
  inflight   how many requests the drive holds, over time and as a histogram
  waits      mq-mqfq: how long hardware queues are throttled or without a slot, and which queue
             woke which

latency and waits need root and the package bpftrace, and add some microseconds to every request
while they run. inflight reads a file of the kernel every 10 ms, and costs requests nothing.
"""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from device import Device, DeviceError, read

ONE_LINE = "histograms of where requests spend their time, and of how many the drive holds"
KINDS = ("latency", "inflight", "waits")
SAMPLE_S, LINE_SAMPLES = 0.01, 10
BAR = 40


def before_device(parser):
    """The arguments before the disk."""
    parser.add_argument("kind", choices=KINDS, help="what to watch")


def arguments(parser):
    """The options of this command."""
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S",
                        help="for how long (default 5)")
    parser.add_argument("--json", action="store_true", help="an object per line")


def script(kind):
    """The bpftrace program: installed beside us, or in the checkout."""
    here = os.path.dirname(os.path.realpath(__file__))
    return next(path for path in (f"{here}/trace/{kind}.bt", f"{here}/../trace/{kind}.bt")
                if os.path.exists(path))


def inflight(device, seconds, as_json):
    """Sample the number of requests at the drive; a line per LINE_SAMPLES, then a histogram."""
    seen, started = [], time.monotonic()
    while time.monotonic() - started < seconds:
        seen.append(sum(map(int, read(f"/sys/block/{device.name}/inflight").split())))
        if len(seen) % LINE_SAMPLES == 0:
            part = seen[-LINE_SAMPLES:]
            line = {"ms": round((time.monotonic() - started) * 1000), "least": min(part),
                    "mean": sum(part) / len(part), "most": max(part)}
            words = "{ms:8} ms  {least:5} to {most:<5} mean {mean:.1f}".format(**line)
            print(json.dumps(line) if as_json else words, flush=True)
        time.sleep(SAMPLE_S)
    counts = collections.Counter(seen)
    if as_json:
        print(json.dumps({"in_flight": sorted(counts.items())}))
        return
    print(f"\nrequests that {device.name} holds, and how often of {len(seen)} times:")
    for number, times in sorted(counts.items()):
        print(f"  {number:5} {times:6} {'#' * max(1, round(BAR * times / max(counts.values())))}")


def number_of(device):
    """The kernel's number of a disk: major << 20 | minor."""
    major, minor = map(int, read(f"/sys/block/{device.name}/dev").split(":"))
    return major << 20 | minor


def run(args):
    """Sample, or let bpftrace watch; 1 if bpftrace failed."""
    device = Device(args.device)
    if args.seconds <= 0:
        raise DeviceError("--seconds must be more than 0")
    if args.kind == "waits" and device.scheduler() != "mq-mqfq":
        raise DeviceError(f"the scheduler of {device.name} is {device.scheduler()}; waits is for "
                          "mq-mqfq")
    if args.kind == "inflight":
        inflight(device, args.seconds, args.json)
        return 0
    if not shutil.which("bpftrace"):
        raise DeviceError("there is no bpftrace: install the package bpftrace")
    if os.geteuid() != 0:
        raise DeviceError("tracing needs root")
    argv = ["bpftrace", *(["-f", "json"] if args.json else []), script(args.kind),
            str(number_of(device))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as child:
        try:
            return watch(child, device, args)
        finally:
            child.kill()        # no effect if it has ended


def watch(child, device, args):
    """Let bpftrace attach, wait, and end it so that it prints."""
    said = []
    # "Attaching N probes" comes after compiling, which takes seconds and does not count.
    for line in child.stdout:
        said.append(line.strip())
        if re.search("[Aa]ttach", line):
            break
    else:
        raise DeviceError(f"bpftrace: {said[-1] if said else 'no output'}")
    print(f"mqfair: watching {device.name} for {args.seconds:g} s", file=sys.stderr, flush=True)
    time.sleep(args.seconds)
    child.send_signal(signal.SIGINT)
    print("\n".join([*(said if args.json else ()), child.stdout.read().strip()]))
    return child.wait()
