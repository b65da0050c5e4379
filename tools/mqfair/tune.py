# SPDX-License-Identifier: GPL-2.0
"""Find the bound for mq-k2 (max_inflight): measure a real-time task beside a load, and choose.

There are two objectives (K2 analysis, section 5), each compared with the same load under none:

  --max-latency-pct A     O1: the bound with the most bandwidth, of those under which the real-time
                          task's 99.9th percentile is at most A percent of none's
  --min-bandwidth-pct B   O2: the bound with the shortest tail, of those that keep at least B
                          percent of none's total bandwidth

Not every bound has to be measured. With a smaller bound, bandwidth does not grow (R2, W3) and the
tail gets shorter. A bound of 1 is an exception (R3, W2) and is measured by itself. So the search
bisects the powers of two from 2 to 64. Waiting sequential requests are merged, so a smaller bound
may have more bandwidth: O1 goes on to smaller bounds until one has less. For writes it matters
how full the drive is (W1): they are measured on the drive as it is, or with --fill after writing
all of it.

The load is one real-time task with one request at a time and --think-us between requests, beside
three tasks with 32 requests each. --op says what the tasks do. "sample" measures the part of reads
and the mean size of the drive's requests in the next five seconds, prints them, and uses them. All
but reads DESTROY THE DATA ON THE DRIVE: they ask first, and refuse a drive in use. So measure a mix
that was sampled on a mounted drive later, or on another drive of its kind, by --op randrw.
Scheduler, tunables and nr_requests are restored at the end.
"""
import json
import sys
import time

from device import Device, DeviceError, read

ONE_LINE = "find mq-k2's bound for a tail latency or a bandwidth, compared with none"

BOUNDS = (1, 2, 4, 8, 16, 32, 64)
OPERATIONS = ("randread", "read", "randwrite", "write", "randrw", "sample")
NEIGHBOURS, DEPTH = 3, 32
SAMPLE_S = 5
SECTOR_BYTES = 512
BAR = 40


def before_device(parser):
    """The arguments before the disk."""
    parser.add_argument("scheduler", choices=("k2",), help="only mq-k2 has a bound to tune")


def arguments(parser):
    """The options of this command."""
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--max-latency-pct", type=float, metavar="A",
                      help="at most A percent of none's tail latency")
    goal.add_argument("--min-bandwidth-pct", type=float, metavar="B",
                      help="at least B percent of none's bandwidth")
    parser.add_argument("--op", choices=OPERATIONS, default="randread",
                        help="what the tasks do (default randread)")
    parser.add_argument("--read-pct", type=int, default=70, metavar="P",
                        help="with randrw: part of reads (default 70)")
    parser.add_argument("--size-kb", type=int, default=4, metavar="K",
                        help="size of a request (default 4)")
    parser.add_argument("--ios", type=int, default=2000, metavar="N",
                        help="requests of the real-time task per point (default 2000)")
    parser.add_argument("--think-us", type=int, default=2000, metavar="US",
                        help="time between two of these (default 2000)")
    parser.add_argument("--fill", action="store_true",
                        help="with writes: write the whole drive first")
    parser.add_argument("--exhaustive", action="store_true", help="measure every bound")
    parser.add_argument("--json", action="store_true", help="points and choice as JSON")


class Goal:
    """An objective, in percent of what none has."""

    def __init__(self, max_latency_pct=None, min_bandwidth_pct=None):
        pct = max_latency_pct if max_latency_pct is not None else min_bandwidth_pct
        if not 0 < pct <= 100:
            raise DeviceError(f"{pct:g} percent: it must be more than 0 and at most 100")
        self.keeps_latency, self.pct = max_latency_pct is not None, pct

    def met(self, point):
        """Whether @point (tail_pct, bandwidth_pct, both of none's) reaches the goal."""
        if self.keeps_latency:
            return point["tail_pct"] <= self.pct
        return point["bandwidth_pct"] >= self.pct

    def rank(self, point):
        """Larger is better, among points that reach the goal."""
        return point["bandwidth_pct"] if self.keeps_latency else -point["tail_pct"]

    def distance(self, point):
        """How far @point is from the goal; smaller is nearer."""
        return point["tail_pct"] if self.keeps_latency else -point["bandwidth_pct"]

    def words(self):
        """The goal in words."""
        if self.keeps_latency:
            return f"at most {self.pct:g}% of none's tail"
        return f"at least {self.pct:g}% of none's bandwidth"


def best(goal, points):
    """The bound of {bound: point} that meets the goal best; None if none does.

    Of two with the same bandwidth that is the one with the shorter tail.
    """
    good = [bound for bound, point in points.items() if goal.met(point)]
    return max(good, default=None,
               key=lambda bound: (goal.rank(points[bound]), -points[bound]["tail_pct"]))


def search(goal, measure, exhaustive=False):
    """Measure the bounds that matter; {bound: point}. Calls @measure(bound) once per bound."""
    points = {}

    def good(bound):
        if bound not in points:
            points[bound] = measure(bound)
        return goal.met(points[bound])

    if exhaustive:
        for bound in BOUNDS:
            good(bound)
        return points
    # O1 wants the largest bound that keeps the tail, O2 the smallest that keeps the bandwidth:
    # bisect the range between a bound that does and one that does not.
    low, high = 1, len(BOUNDS) - 1
    while low < high:
        middle = (low + high + 1) // 2 if goal.keeps_latency else (low + high) // 2
        if good(BOUNDS[middle]):
            low, high = (middle, high) if goal.keeps_latency else (low, middle)
        else:
            low, high = (low, middle - 1) if goal.keeps_latency else (middle + 1, high)
    found = good(BOUNDS[low])
    while goal.keeps_latency and found and low > 1:
        smaller, current = BOUNDS[low - 1], BOUNDS[low]
        if (not good(smaller)
                or points[smaller]["bandwidth_pct"] < points[current]["bandwidth_pct"]):
            break
        low -= 1
    # A bound of 1 has its own rules (R3, W3).
    if BOUNDS[low] == 2 and (not goal.keeps_latency or not found):
        good(1)
    return points


def sample(device):
    """(percent of reads, mean KiB) of the drive's requests now."""
    def look():
        fields = [int(field) for field in read(f"/sys/block/{device.name}/stat").split()]
        return fields[0], fields[2], fields[4], fields[6]
    before = look()
    time.sleep(SAMPLE_S)
    reads, read_sectors, writes, write_sectors = (now - then for now, then in zip(look(), before))
    if not reads + writes:
        raise DeviceError(f"{device.name} did nothing in {SAMPLE_S} s: there is nothing to sample; "
                          "say --op")
    mean_bytes = (read_sectors + write_sectors) * SECTOR_BYTES / (reads + writes)
    return round(100 * reads / (reads + writes)), max(4, round(mean_bytes / 4096) * 4)


def mix(device, args):
    """(fio's options for pattern and part of reads, KiB of a request), by the arguments."""
    if args.op != "sample":
        reads = [f"--rwmixread={args.read_pct}"] if args.op == "randrw" else []
        return [f"--rw={args.op}", *reads], args.size_kb
    read_pct, size_kb = sample(device)
    print(f"{device.name}: {read_pct}% reads, {size_kb} KiB on average: --op randrw --read-pct "
          f"{read_pct} --size-kb {size_kb}", file=sys.stderr)
    if read_pct == 100:
        return ["--rw=randread"], size_kb
    return ["--rw=randrw", f"--rwmixread={read_pct}"], size_kb


def load(device, args):
    """fio's options for the two kinds of task, and whether they write."""
    options, size_kb = mix(device, args)
    writes = options[0] not in ("--rw=randread", "--rw=read")
    both = [f"--filename={device.node}", *options, f"--bs={size_kb}k", "--direct=1",
            "--norandommap", "--thread", *([] if writes else ["--readonly"])]
    argv = ["--name=rt", *both, "--ioengine=psync", "--prioclass=1", "--prio=0",
            f"--thinktime={args.think_us}us", f"--number_ios={args.ios}", "--exitall",
            "--startdelay=200ms", "--clat_percentiles=0", "--lat_percentiles=1",
            "--percentile_list=99.9"]
    argv += ["--name=be", *both, "--ioengine=libaio", f"--iodepth={DEPTH}", "--prioclass=2",
             f"--numjobs={NEIGHBOURS}", "--time_based", "--runtime=1h"]
    if args.op in ("read", "write"):
        argv.append("--offset_increment=20%")
    return argv, writes


def point_of(jobs):
    """{"tail_us", "bandwidth_mb_s"} of one run."""
    kinds = ("read", "write")
    # fio has a percentile per kind of request: the larger one counts.
    tails = [jobs[0][kind]["lat_ns"]["percentile"]["99.900000"] for kind in kinds
             if "percentile" in jobs[0][kind].get("lat_ns", {})]
    return {"tail_us": max(tails) / 1000,
            "bandwidth_mb_s": sum(job[kind]["bw_bytes"] for job in jobs for kind in kinds) / 1e6}


def measure_with(device, argv, none, bound):
    """One point; under none if @bound is None."""
    if bound is None:
        device.choose("none")
    else:
        device.choose("mq-k2", max_inflight=bound)
    point = point_of(device.fio_jobs(*argv))
    base = none or point
    point["tail_pct"] = 100 * point["tail_us"] / base["tail_us"]
    point["bandwidth_pct"] = 100 * point["bandwidth_mb_s"] / base["bandwidth_mb_s"]
    print(f"  {'none' if bound is None else bound:>5} {point['tail_us']:12.0f} "
          f"{point['bandwidth_mb_s']:10.1f}", file=sys.stderr, flush=True)
    return point


def show(points, none, chosen):
    """Print the curve: bandwidth as bars, the tail beside them."""
    top = max(point["bandwidth_mb_s"] for point in [none, *points.values()])
    for name, point in [("none", none), *sorted(points.items(), reverse=True)]:
        bar = "#" * round(BAR * point["bandwidth_mb_s"] / top)
        print(f"  {name:>5} {point['tail_us']:9.0f} us {point['tail_pct']:4.0f}%  "
              f"{point['bandwidth_mb_s']:8.1f} MB/s {point['bandwidth_pct']:4.0f}% "
              f"{bar}{'  <- chosen' if name == chosen else ''}")


def run(args):
    """Measure, choose, print; 1 if no bound reaches the goal."""
    goal = Goal(args.max_latency_pct, args.min_bandwidth_pct)
    device = Device(args.device)
    if not 0 <= args.read_pct <= 100:
        raise DeviceError(f"--read-pct {args.read_pct}: it must be 0 to 100")
    argv, writes = load(device, args)
    with device.claimed(destroys=writes), device.without_scheduler():
        if writes and args.fill:
            print(f"{device.name}: filling", file=sys.stderr)
            device.fio_jobs("--name=fill", f"--filename={device.node}", "--rw=write", "--bs=1M",
                            "--direct=1", "--ioengine=libaio", "--iodepth=8")
        print("  bound  99.9th, us       MB/s", file=sys.stderr)
        none = measure_with(device, argv, None, None)
        points = search(goal, lambda bound: measure_with(device, argv, none, bound),
                        args.exhaustive)
    chosen = best(goal, points)
    line = None if chosen is None else f"echo {chosen} > {device.queue('iosched/max_inflight')}"
    if args.json:
        print(json.dumps({"device": device.name, "none": none, "points": points,
                          "max_inflight": chosen, "line": line}, indent=1))
    else:
        print(f"\nmax_inflight of {device.name}, in percent of none; goal: {goal.words()}\n")
        show(points, none, chosen)
        if line:
            print(f"\nFor mq-k2:\n\n  {line}")
    if chosen is None:
        nearest = min(points, key=lambda bound: goal.distance(points[bound]))
        raise DeviceError(f"no bound gives {goal.words()}; the nearest is {nearest}, with "
                          f"{points[nearest]['tail_pct']:.0f}% of the tail and "
                          f"{points[nearest]['bandwidth_pct']:.0f}% of the bandwidth")
