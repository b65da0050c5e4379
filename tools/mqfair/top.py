# SPDX-License-Identifier: GPL-2.0
"""Watch each flow's share of a drive under mq-mqfq.

There is a line per flow that had requests since the last look:

  weight      its weight
  due         the share of the bytes that its weight among these flows gives it
  got         the share of the bytes that it had
  MB/s        its rate
  requests    its requests that wait or are at the drive
  ahead KiB   how far its next tag is ahead of virtual time
  throttled   the part of the time for which hardware queues waited because it was ahead

If the tunable cost is "time", the shares are of the drive's time. Bytes are those that the drive
moves in that time at present; io.stat has those that a cgroup moved.
"""
import contextlib
import json
import os
import sys
import time

from device import Device, DeviceError, printable, read

ONE_LINE = "watch shares against weights, flow by flow"
CGROUPS = "/sys/fs/cgroup"


def arguments(parser):
    """The options of this command."""
    parser.add_argument("--interval", type=float, default=1.0, metavar="S",
                        help="seconds between two looks (default 1.0)")
    parser.add_argument("--count", type=int, default=0, metavar="N",
                        help="end after N looks (default: never)")
    parser.add_argument("--json", action="store_true", help="an object per look, each on a line")


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
    """{inode: path}: the scheduler identifies cgroups by inode."""
    names = {}
    for folder, _, _ in os.walk(CGROUPS):
        with contextlib.suppress(FileNotFoundError):    # it may be removed meanwhile
            names[os.stat(folder).st_ino] = os.path.relpath(folder, CGROUPS)
    return names


def process_name(number):
    """The number and command of a process; the number alone if it has ended."""
    try:
        return f"{number} {read(f'/proc/{number}/comm')}"
    except DeviceError:
        return str(number)


IDLE = 1 << 16      # the number of that flow: mq-mqfq/mqfq.h


def ioprio_name(number):
    """class/level, and the hint if there is one; all of class idle are one flow beside cgroups."""
    if number == IDLE:
        return "idle"
    name = f"{('none', 'realtime', 'best-effort', 'idle')[number >> 13 & 3]}/{number & 7}"
    return name + (f" hint {number >> 3 & 1023}" if number >> 3 & 1023 else "")


def flow_name(key, names):
    """The name of a flow for people."""
    kind, number = key
    if kind == "cgroup":
        name = names.get(number, f"cgroup {number} (gone)")
        return "/" if name == "." else printable(name)
    return printable(process_name(number)) if kind == "process" else f"ioprio {ioprio_name(number)}"


def _since(before, now, name):
    return now[name] - (before[name] if before and now[name] >= before[name] else 0)


def shares(before, after, elapsed_s, names):
    """The due and the real share of each flow that had requests between two looks."""
    live = {key: _since(before.get(key), now, "service_bytes") for key, now in after.items()}
    live = {key: got for key, got in live.items() if got or after[key]["requests"]}
    weight = sum(after[key]["weight"] for key in live)
    total = sum(live.values()) or 1
    return [{"flow": flow_name(key, names), "kind": key[0], "number": key[1],
             "weight": after[key]["weight"],
             "due_pct": round(100 * after[key]["weight"] / weight, 2),
             "got_pct": round(100 * got / total, 2), "mb_s": round(got / elapsed_s / 1e6, 3),
             "requests": after[key]["requests"], "ahead_kb": round(after[key]["ahead"] / 1024),
             "throttled_pct": round(_since(before.get(key), after[key], "throttled_ns") / elapsed_s
                                    / 1e7, 2)}
            for key, got in sorted(live.items(), key=lambda item: -item[1])]


def _shared(device):
    """What is shared; a module that was loaded before an upgrade may not say it."""
    path = device.queue("iosched/cost")
    return read(path) if os.path.exists(path) else "bytes"


def _target(device):
    """What is known of the strictest target that has load, or None without one."""
    path = device.debug("target")
    # A module that was loaded before an upgrade may not have it.
    if not os.path.exists(path):
        return None
    lines = dict(line.split(" ", 1) for line in read(path).splitlines())
    if lines["in_force"] == "0" and read(device.queue("iosched/target_p999_us")) == "0":
        return None
    return {"p999_us": int(lines["p999_us_wanted"]),
            "verdict": lines.get("target", "not yet known"),
            "slots": int(lines["slots"]), "reached_p999_us": int(lines.get("p999_us", 0))}


def _target_words(target):
    """The same in a line, for people."""
    return (f"target: 99.9% within {target['p999_us']} us {target['verdict']}, "
            f"{target['reached_p999_us']} us with {target['slots']} slots\n")


def table(rows):
    """The lines of one look."""
    return [f"{'flow':32} {'weight':>6} {'due':>6} {'got':>6} {'MB/s':>9} {'requests':>8} "
            f"{'ahead KiB':>10} {'throttled':>9}"] + [
        f"{row['flow'][:32]:32} {row['weight']:6} {row['due_pct']:5.1f}% {row['got_pct']:5.1f}% "
        f"{row['mb_s']:9.1f} {row['requests']:8} {row['ahead_kb']:10} {row['throttled_pct']:8.1f}%"
        for row in rows]


def run(args):
    """Look, sleep, print."""
    device = Device(args.device)
    if args.interval <= 0:
        raise DeviceError("--interval must be more than 0")
    if device.scheduler() != "mq-mqfq":
        raise DeviceError(f"the scheduler of {device.name} is {device.scheduler()}; this is for "
                          f"mq-mqfq: echo mq-mqfq > {device.queue('scheduler')}")
    before, looks = flows(read(device.debug("flows"))), 0
    at = time.monotonic()
    while not args.count or looks < args.count:
        time.sleep(args.interval)
        after, now = flows(read(device.debug("flows"))), time.monotonic()
        rows = shares(before, after, now - at, cgroup_names())
        shared, target = _shared(device), _target(device)
        if args.json:
            print(json.dumps({"device": device.name, "seconds": round(now - at, 3),
                              "shared": shared, "target": target, "known": len(after),
                              "flows": rows}), flush=True)
        else:
            if sys.stdout.isatty():
                print("\033[H\033[J", end="")
            print(f"{device.name}: {len(after)} flows known, {len(rows)} live, {shared} shared\n"
                  + (_target_words(target) if target else "") + "\n".join(table(rows)), flush=True)
        before, at, looks = after, now, looks + 1
