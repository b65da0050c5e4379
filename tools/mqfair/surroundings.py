# SPDX-License-Identifier: GPL-2.0
"""What lies around a disk and takes something from its scheduler: checks of `mqfair doctor`.

A scheduler knows the cgroup and the I/O priority of what a task sends to the disk itself. Some
things above a disk send with threads of their own, others hold requests back before a scheduler
sees them. Each check takes doctor's machine and a disk that uses a scheduler of ours, and gives
(text, remedy) for what it finds.
"""
import os
import re
import shlex

from device import printable

# md's levels that write whole stripes, later, with a thread of their own.
STRIPES = ("raid4", "raid5", "raid6")


def _head(disk):
    """The drive to which a path of NVMe multipath (nvme0c1n1) belongs, or @disk itself."""
    return re.sub(r"^(nvme\d+)c\d+(n\d+)$", r"\1\2", disk)


def numbers(machine, disk):
    """"259:0" of @disk and of its partitions."""
    found = [machine.read(path) for path in (f"/sys/block/{disk}/dev",
                                             *machine.find(f"/sys/block/{disk}/{disk}*/dev"))]
    return [number for number in found if number]


def zfs(machine, disk):
    """ZFS on the disk or a partition, as udev has noted."""
    for number in numbers(machine, disk):
        if "ID_FS_TYPE=zfs_member" in machine.read(f"/run/udev/data/b{number}"):
            yield ("has a ZFS pool: ZFS sends with threads of its own, so its I/O has no cgroup "
                   "and no I/O priority, and tenants of the pool cannot be told apart",
                   "give tenants that must be told apart file systems or partitions outside of "
                   "the pool, or limit them within ZFS")
            return


def _above(machine, disk):
    """What is made of the disk or of its partitions: md0, bcache0."""
    return sorted({os.path.basename(path)
                   for pattern in (f"/sys/block/{disk}/holders/*",
                                   f"/sys/block/{disk}/{disk}*/holders/*")
                   for path in machine.find(pattern)})


def stripes(machine, disk):
    """An array of md that writes with its own thread."""
    for name in _above(machine, disk):
        level = machine.read(f"/sys/block/{name}/md/level")
        if level in STRIPES:
            yield (f"is part of {name}, {level}: the array writes with a thread of its own, so "
                   "writes belong to the root cgroup", "expect the weights of cgroups for reads "
                   "only, or use raid1 or raid10")


def bcache(machine, disk):
    """A bcache that writes back later."""
    for name in _above(machine, disk):
        mode = machine.read(f"/sys/block/{name}/bcache/cache_mode")
        if "[writeback]" in mode:
            yield (f"is below {name}, which writes back with a thread of its own: those writes "
                   "belong to the root cgroup",
                   f"echo writethrough > /sys/block/{name}/bcache/cache_mode, or let root_weight "
                   "of mq-mqfq stand for them")


def isolated(machine, scheduler):
    """Isolated CPUs: the kernel runs no hardware queue on them."""
    said = (machine.read(path) for path in ("/sys/devices/system/cpu/isolated",
                                            "/sys/devices/system/cpu/nohz_full",
                                            "/sys/fs/cgroup/cpuset.cpus.isolated"))
    cpus = " ".join(dict.fromkeys(text for text in said if text and text != "(null)"))
    if cpus and scheduler == "mq-k2":
        yield (f"CPUs {cpus} are isolated: the kernel hands each request sent there to a worker on "
               "another CPU, and mq-k2 does not bound how long that takes",
               "run the real-time task on a CPU that is not isolated, or measure what it pays")


def wbt(machine, disk):
    """Writeback throttling whose latency somebody has written: it stays in force."""
    path = f"/sys/block/{disk}/queue/wbt_lat_usec"
    if machine.read(path) not in ("", "0"):
        yield ("has writeback throttling, whose latency was written by hand or by a rule: it holds "
               "buffered writes of all cgroups back together", f"echo 0 > {path}")


def other_controllers(machine, disk):
    """io.cost and io.latency, which hold requests back before the scheduler sees them."""
    top, number = "/sys/fs/cgroup", machine.read(f"/sys/block/{disk}/dev")
    if not number:
        return
    line = re.compile(rf"^{re.escape(number)} (.*)$", re.M)
    qos = line.search(machine.read(f"{top}/io.cost.qos"))
    if qos and "enable=1" in qos[1].split():
        yield ("has io.cost on: it shares the disk by io.weight before the scheduler sees requests",
               f'echo "{number} enable=0" > {top}/io.cost.qos')
    targets, = machine.walk(top, "io.latency")
    held = [path for path in targets if line.search(machine.read(path))]
    if held:
        yield (f"has targets of io.latency in {len(held)} cgroups: others wait for these before "
               "the scheduler sees their requests",
               f'echo "{number} target=0" > {shlex.quote(printable(held[0]))}'
               + (", and the others" if len(held) > 1 else ""))


def check(machine, disk, scheduler):
    """(text, remedy) of all that was found around @disk."""
    yield from wbt(machine, disk)
    for look in (zfs, stripes, bcache, other_controllers):
        yield from look(machine, _head(disk))
    yield from isolated(machine, scheduler)
