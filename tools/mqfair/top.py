# SPDX-License-Identifier: GPL-2.0
"""Watch who gets how much of a drive under mq-mqfq.

One line per flow that had requests since the last look: its weight, the part of the bytes that it is due among those flows and the part that
it got, its rate, requests that wait or are at the drive, how far its next tag is ahead of virtual time, and for how much of
the time hardware queues waited because it was ahead.
"""
import os
import sys
import time

from device import Device, DeviceError, read

ONE_LINE = "watch shares against weights, flow by flow"
CGROUPS = "/sys/fs/cgroup"


def arguments(parser):
    """The options of this command."""
    parser.add_argument("--interval", type=float, default=1.0, metavar="S", help="seconds between two looks (default 1.0)")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="end after N looks (default: never)")


def flows(text):
    """{(kind, number): {column: value}} from the text of the debugfs file."""
    lines = text.splitlines()
    names = lines[0].split()[2:]
    out = {}
    for line in lines[1:]:
        kind, number, *values = line.split()
        out[kind, int(number)] = dict(zip(names, map(int, values)))
    return out


def cgroup_names():
    """{inode: path}: that is how the scheduler numbers cgroups."""
    return {os.stat(folder).st_ino: os.path.relpath(folder, CGROUPS) for folder, _, _ in os.walk(CGROUPS)}


def process_name(number):
    """The command of a process, if it is still there."""
    try:
        return f"{number} {read(f'/proc/{number}/comm')}"
    except DeviceError:
        return str(number)


def ioprio_name(number):
    """class/level, and the hint if there is one."""
    name = f"{('none', 'realtime', 'best-effort', 'idle')[number >> 13 & 3]}/{number & 7}"
    return name + (f" hint {number >> 3 & 1023}" if number >> 3 & 1023 else "")


def flow_name(key, names):
    """What people call a flow."""
    kind, number = key
    if kind == "cgroup":
        return "/" if names.get(number) == "." else names.get(number, f"cgroup {number} (gone)")
    return process_name(number) if kind == "process" else f"ioprio {ioprio_name(number)}"


def _since(before, now, name):
    return now[name] - (before[name] if before and now[name] >= before[name] else 0)


def table(before, after, elapsed_s, names):
    """The lines of one look."""
    live = {key: _since(before.get(key), now, "service_bytes") for key, now in after.items()}
    live = {key: got for key, got in live.items() if got or after[key]["requests"]}
    weight = sum(after[key]["weight"] for key in live)
    total = sum(live.values()) or 1
    out = [f"{'flow':32} {'weight':>6} {'due':>6} {'got':>6} {'MB/s':>9} {'requests':>8} {'ahead KiB':>10} {'throttled':>9}"]
    for key, got in sorted(live.items(), key=lambda item: -item[1]):
        now = after[key]
        throttled = _since(before.get(key), now, "throttled_ns") / elapsed_s / 1e9
        out.append(f"{flow_name(key, names)[:32]:32} {now['weight']:6} {now['weight'] / weight:6.1%} {got / total:6.1%} "
                   f"{got / elapsed_s / 1e6:9.1f} {now['requests']:8} {now['ahead'] / 1024:10.0f} {throttled:9.1%}")
    return out


def run(args):
    """Look, sleep, print."""
    device = Device(args.device)
    if args.interval <= 0:
        raise DeviceError("--interval must be more than 0")
    if device.scheduler() != "mq-mqfq":
        raise DeviceError(f"the scheduler of {device.name} is {device.scheduler()}; this is for mq-mqfq: "
                          f"echo mq-mqfq > {device.queue('scheduler')}")
    before, looks = flows(read(device.debug("flows"))), 0
    at = time.monotonic()
    while not args.count or looks < args.count:
        time.sleep(args.interval)
        after, now = flows(read(device.debug("flows"))), time.monotonic()
        lines = table(before, after, now - at, cgroup_names())
        if sys.stdout.isatty():
            print("\033[H\033[J", end="")
        print(f"{device.name}: {len(after)} flows known, {len(lines) - 1} live\n" + "\n".join(lines), flush=True)
        before, at, looks = after, now, looks + 1
