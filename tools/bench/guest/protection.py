# SPDX-License-Identifier: GPL-2.0
"""A service that reads from the disk under test, beside a hog of memory (protection.c).

Both are cgroups with the memory controller. The hog may have less memory than it uses, and the
kernel swaps to the disk, and writes the hog's file back, on the hog's account. The service's memory
is protected.
"""
import contextlib
import os
import subprocess

import cgroups
import devices

MOUNT = "/mnt/protection"
FILE_SYSTEM_MIB, FILE_MIB, SWAP_MIB = 512, 128, 256
SERVICE, HOG = "service", "hog"


@contextlib.contextmanager
def _swap(disk):
    """An ext4 with the hog's file, and a swap file that is in use, until the context ends."""
    devices.make_ext4(disk, FILE_SYSTEM_MIB)
    with devices.mounted(disk, MOUNT):
        devices.call("dd", "if=/dev/zero", f"of={MOUNT}/file", "bs=1M", f"count={FILE_MIB}")
        swap = os.open(f"{MOUNT}/swap", os.O_WRONLY | os.O_CREAT, 0o600)
        os.posix_fallocate(swap, 0, SWAP_MIB << 20)
        os.close(swap)
        devices.call("mkswap", f"{MOUNT}/swap")
    # Pages of the file that were still in memory would be on the account of those who made it.
    with devices.mounted(disk, MOUNT):
        devices.call("swapon", f"{MOUNT}/swap")
        try:
            yield
        finally:
            devices.call("swapoff", f"{MOUNT}/swap")


def _start(group, io_class, argv):
    return subprocess.Popen(["ionice", "-c", io_class, *map(str, argv)],
                            preexec_fn=cgroups.join(group), stdout=subprocess.PIPE, text=True)


def _argv(step, disk, program, group):
    times = (step["ramp_s"], step["seconds"], devices.SEED)
    if group == SERVICE:
        return [program, "serve", f"/dev/{disk}", FILE_SYSTEM_MIB, step["per_s"], step["reads"],
                *times]
    return [program, "hog", step["touchers"], step["touched_mib"], step["writers"],
            f"{MOUNT}/file", FILE_MIB, *times]


def run(step, disk, program):
    """{"latencies_ns": of the service, "pages": that the hog got through}, of those who run."""
    devices.write(f"{cgroups.ROOT}/cgroup.subtree_control", "+memory")
    for group, limit, mib in ((SERVICE, "min", step["service_mib"]), (HOG, "max", step["hog_mib"])):
        devices.write(f"{cgroups.ROOT}/{group}/memory.{limit}", mib << 20)
    started, found = {}, {}
    with _swap(disk):
        try:
            for group in step["run"]:
                started[group] = _start(group, step["classes"][group],
                                        _argv(step, disk, program, group))
            if SERVICE in started:
                found["latencies_ns"] = [int(line) for line in started[SERVICE].stdout]
            if HOG in started:
                found["pages"] = int(started[HOG].stdout.readline() or -1)
        finally:
            for process in started.values():
                process.kill()
                process.wait()
    if not found.get("latencies_ns", [0]) or found.get("pages", 0) < 0:
        raise devices.StepError("the service or the hog has ended too early")
    return found
