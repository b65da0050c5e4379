#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An ext4 and a swap file on the disk under test, and what two cgroups do with them at once.

As a module, run() measures a step: "what" is fsync, page_in or buffered, and "beside" says whether
the second cgroup is at work. As a program, it is one of the loads, in the cgroup of its caller:

  filesystems.py fsyncs PATH SECONDS       writes 4 KiB at random and calls fsync, one after another
  filesystems.py page_ins PATH SECONDS     touches pages of a mapped file that is not in memory
  filesystems.py creates DIRECTORY GAP_S   makes a file in one directory after the other
  filesystems.py touches MIB               writes to pages of its own memory, at random, for ever
  filesystems.py writes PATH MIB           overwrites a file through the page cache, for ever

The first two print the latencies in ns, as JSON, on stdout.

The file system has many small block groups, and each directory is in some group. To make a file in
a directory that has not been used since the mount, the group's bitmaps and inodes are read, while
the journal's transaction waits. So each step mounts the file system once more.
"""
import contextlib
import json
import mmap
import os
import random
import subprocess
import sys
import time

MOUNT = "/mnt/filesystems"
FILE_SYSTEM_MIB, FILE_MIB, SWAP_MIB, WRITTEN_MIB, DIRECTORIES = 640, 64, 128, 192, 256
# Behind the file system, where direct readers read.
FREE_MIB = 640
PAGE = 4096


# ---- loads ----

def _say(latencies):
    print(json.dumps(latencies))


def fsyncs(path, seconds):
    """Latency of each fsync."""
    latencies, end, block = [], time.monotonic() + float(seconds), os.urandom(PAGE)
    handle = os.open(path, os.O_WRONLY)
    pages = os.fstat(handle).st_size // PAGE
    while time.monotonic() < end:
        os.pwrite(handle, block, random.randrange(pages) * PAGE)
        before = time.monotonic_ns()
        os.fsync(handle)
        latencies.append(time.monotonic_ns() - before)
    _say(latencies)


def page_ins(path, seconds):
    """Latency of each first touch of a page."""
    latencies, end = [], time.monotonic() + float(seconds)
    with open(path, "rb") as handle:
        pages = mmap.mmap(handle.fileno(), 0, prot=mmap.PROT_READ)
        pages.madvise(mmap.MADV_RANDOM)
        for number in random.sample(range(len(pages) // PAGE), len(pages) // PAGE):
            if time.monotonic() > end:
                break
            before = time.monotonic_ns()
            pages[number * PAGE]            # pylint: disable=pointless-statement
            latencies.append(time.monotonic_ns() - before)
    _say(latencies)


def creates(directory, gap_s):
    """A new file in each directory, in random order."""
    for number in random.sample(range(DIRECTORIES), DIRECTORIES):
        with open(f"{directory}/{number}/{time.time_ns()}", "w", encoding="ascii"):
            pass
        time.sleep(float(gap_s))


def touches(mib):
    """More memory than the cgroup may have."""
    memory = mmap.mmap(-1, int(mib) << 20)
    pages = len(memory) // PAGE
    while True:
        memory[random.randrange(pages) * PAGE] = random.randrange(256)


def writes(path, mib):
    """A file, again and again."""
    block = os.urandom(1 << 20)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    while True:
        for number in range(int(mib)):
            os.pwrite(handle, block, number << 20)


LOADS = {load.__name__: load for load in (fsyncs, page_ins, creates, touches, writes)}


# ---- measuring ----

def _guest():
    # For the loads, which need none of it, a program starts faster without these.
    import cgroups as groups                # pylint: disable=import-outside-toplevel
    import devices                          # pylint: disable=import-outside-toplevel
    return groups, devices


def _prepare(disk):
    """The file system, its files and its directories; once for a disk."""
    _, devices = _guest()
    devices.call("mkfs.ext4", "-q", "-F", "-b", str(PAGE), "-g", "1024", "-N", "16384", "-O",
                 "^flex_bg,^metadata_csum,^uninit_bg,^resize_inode", "-E",
                 "nodiscard,lazy_itable_init=0,lazy_journal_init=0", f"/dev/{disk}",
                 f"{FILE_SYSTEM_MIB}m")
    devices.call("mount", "-t", "ext4", f"/dev/{disk}", MOUNT)
    for number in range(DIRECTORIES):
        os.mkdir(f"{MOUNT}/{number}")
    for name, mib in (("file", FILE_MIB), ("written", WRITTEN_MIB), ("swap", SWAP_MIB)):
        devices.call("dd", "if=/dev/zero", f"of={MOUNT}/{name}", "bs=1M", f"count={mib}")
    os.chmod(f"{MOUNT}/swap", 0o600)
    devices.call("mkswap", f"{MOUNT}/swap")
    devices.call("umount", MOUNT)


@contextlib.contextmanager
def _mounted(disk, swap):
    """Nothing of the file system is in memory when the context begins."""
    _, devices = _guest()
    os.makedirs(MOUNT, exist_ok=True)
    kind = subprocess.run(["blkid", "-o", "value", "-s", "TYPE", "-p", f"/dev/{disk}"],
                          stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    if kind != "ext4":
        _prepare(disk)
    devices.call("mount", "-t", "ext4", f"/dev/{disk}", MOUNT)
    try:
        if swap:
            devices.write("/proc/sys/vm/page-cluster", 0)
            devices.call("swapon", f"{MOUNT}/swap")
        yield
    finally:
        if swap:
            devices.call("swapoff", f"{MOUNT}/swap")
        devices.call("umount", MOUNT)


class _Loads:
    """Loads that run in cgroups, until the context ends."""

    def __init__(self):
        self._groups, self._devices = _guest()
        self._started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for load in self._started:
            load.kill()
        for load in self._started:
            load.wait()

    def _start(self, group, argv):
        # pylint: disable=subprocess-popen-preexec-fn
        load = subprocess.Popen(argv, preexec_fn=self._groups.join(group), stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
        self._started.append(load)
        return load

    def start(self, group, name, *arguments):
        """One of LOADS."""
        return self._start(group, [sys.executable, __file__, name, *map(str, arguments)])

    def read(self, group, disk, depth, block="16k"):
        """A direct reader of what is behind the file system."""
        return self._start(group, [
            "fio", "--name=reads", f"--filename=/dev/{disk}", "--readonly", "--invalidate=0",
            "--direct=1", "--ioengine=libaio", "--rw=randread", f"--bs={block}",
            f"--iodepth={depth}", f"--offset={FREE_MIB}m", "--norandommap", "--time_based",
            "--runtime=1000", "--thread", f"--randseed={self._devices.SEED}"])

    def latencies(self, load):
        """What fsyncs or page_ins has found, when it has ended."""
        text = load.communicate()[0]
        if load.returncode != 0:
            raise self._devices.StepError(f"a load ended with status {load.returncode}")
        return {"latencies_ns": json.loads(text)}


def _fsync(step, disk, loads):
    loads.read("heavy", disk, step["depth"])
    if step["beside"]:
        loads.read("light", disk, step["depth"])
    time.sleep(step["ramp_s"])
    if step["beside"]:
        loads.start("light", "creates", MOUNT, step["seconds"] / DIRECTORIES)
    return loads.latencies(loads.start("heavy", "fsyncs", f"{MOUNT}/file", step["seconds"]))


def _page_in(step, _disk, loads):
    if step["beside"]:
        loads.start("swapper", "touches", step["touched_mib"])
    time.sleep(step["ramp_s"])
    return loads.latencies(loads.start("reader", "page_ins", f"{MOUNT}/file", step["seconds"]))


def _buffered(step, disk, loads):
    loads.start("writer", "writes", f"{MOUNT}/written", WRITTEN_MIB)
    if step["beside"]:
        loads.read("reader", disk, step["depth"], "64k")
    time.sleep(step["ramp_s"])
    groups, _ = _guest()
    before = {group: groups.io_bytes(group, disk) for group in step["cgroups"]["weights"]}
    time.sleep(step["seconds"])
    return {group: groups.io_bytes(group, disk) - count for group, count in before.items()}


MEASURES = {"fsync": _fsync, "page_in": _page_in, "buffered": _buffered}


def run(step, disk):
    """{"latencies_ns": [...]}, or with "buffered" {cgroup: bytes}."""
    groups, devices = _guest()
    devices.write(f"{groups.ROOT}/cgroup.subtree_control", "+memory")
    for group, mib in step.get("memory_mib", {}).items():
        devices.write(f"{groups.ROOT}/{group}/memory.max", mib << 20)
    with _mounted(disk, step["what"] == "page_in"), _Loads() as loads:
        return MEASURES[step["what"]](step, disk, loads)


if __name__ == "__main__":
    LOADS[sys.argv[1]](*sys.argv[2:])
