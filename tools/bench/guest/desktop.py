#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""A program that is started from the disk under test, beside a copy and a build.

As a module, run() measures a step. As a program, it is one of the loads, for ever:

  desktop.py copy FROM TO             copies a file, again and again
  desktop.py build DIRECTORY SEED     a job of a build: reads some sources, writes an object

The program is Python with IMPORTS, from a directory of the disk that has all that it needs, and in
which it cannot see more (chroot). It has started when it has them, and ends then. Before each start
the kernel forgets all files. Copy and build have less memory than they have files, so that they,
too, read from the disk.
"""
import contextlib
import os
import random
import shutil
import subprocess
import sys
import time

MOUNT = "/mnt/desktop"
FILE_SYSTEM_MIB, COPIED_MIB = 768, 256
MEMORY_MIB = {"copy": 128, "build": 64}
IMPORTS = ("argparse, asyncio, concurrent.futures, csv, ctypes, dataclasses, decimal, difflib, "
           "email.message, fractions, http.client, http.server, json, logging.config, mailbox, "
           "multiprocessing.pool, pathlib, pdb, plistlib, pydoc, shutil, socketserver, statistics, "
           "tarfile, tempfile, tomllib, unittest, urllib.request, xml.dom.minidom, "
           "xml.etree.ElementTree, zipfile")
NR_SOURCES, SOURCE_BYTES, READ_AT_ONCE, OBJECT_BYTES, JOBS = 4000, (2048, 32768), 12, 24576, 4
SETTLE_S, BETWEEN_S = 6, 1


# ---- loads ----

def copy(source, target):
    """All through the page cache."""
    while True:
        shutil.copyfile(source, target)


def build(directory, seed):
    """Sources are read in random order; each job overwrites its own objects."""
    order = random.Random(int(seed))
    for number in range(10**9):
        size = 0
        for source in order.sample(range(NR_SOURCES), READ_AT_ONCE):
            with open(f"{directory}/{source}.c", "rb") as handle:
                size += len(handle.read())
        with open(f"{directory}/{seed}-{number % 100}.o", "wb") as handle:
            handle.write(bytes([size % 256]) * OBJECT_BYTES)


# ---- measuring ----

def _guest():
    # The loads need none of it.
    import cgroups as groups                # pylint: disable=import-outside-toplevel
    import devices                          # pylint: disable=import-outside-toplevel
    return groups, devices


def _files_of_program():
    """What Python with IMPORTS opens: itself, its libraries and its modules."""
    said = subprocess.run(
        [sys.executable, "-c", f"import {IMPORTS}, sys\n"
         "for name, module in list(sys.modules.items()):\n"
         "    for what in ('__file__', '__cached__'):\n"
         "        print(getattr(module, what, None) or '')\n"
         "for line in open('/proc/self/maps'):\n"
         "    print(line.split()[-1])"], stdout=subprocess.PIPE, text=True, check=True).stdout
    found = {path for path in said.split() if os.path.isfile(path)}
    # A library is opened by a shorter name, which leads to it.
    links = {entry.path for folder in {os.path.dirname(path) for path in found if ".so" in path}
             for entry in os.scandir(folder) if os.path.realpath(entry.path) in found}
    return sorted(found | links)


def _install(root):
    """A directory in which Python runs by itself; its path there."""
    for path in _files_of_program():
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy2(path, root + path)
    loader = "/lib64/ld-linux-x86-64.so.2"
    os.makedirs(root + os.path.dirname(loader), exist_ok=True)
    shutil.copy2(loader, root + loader)
    return os.path.realpath(sys.executable)


def _prepare():
    """All files; the path of the program in its directory."""
    _, devices = _guest()
    sizes = random.Random(devices.SEED)
    os.mkdir(f"{MOUNT}/build")
    for number in range(NR_SOURCES):
        with open(f"{MOUNT}/build/{number}.c", "wb") as handle:
            handle.write(bytes(sizes.randrange(*SOURCE_BYTES)))
    devices.call("dd", "if=/dev/zero", f"of={MOUNT}/large", "bs=1M", f"count={COPIED_MIB}")
    return _install(f"{MOUNT}/program")


@contextlib.contextmanager
def _others(groups, devices):
    """The copy and the build, until the context ends."""
    loads = [("copy", "copy", f"{MOUNT}/large", f"{MOUNT}/copy")]
    loads += [("build", "build", f"{MOUNT}/build", str(100 * devices.SEED + number))
              for number in range(JOBS)]
    started = [subprocess.Popen([sys.executable, __file__, *argv], preexec_fn=groups.join(group))
               for group, *argv in loads]
    try:
        yield
        if any(load.poll() is not None for load in started):
            raise devices.StepError("the copy or the build has ended")
    finally:
        for load in started:
            load.kill()
            load.wait()


def _start_s(groups, devices, program):
    """How long one start takes."""
    def enter():
        join()
        os.chroot(f"{MOUNT}/program")
        os.chdir("/")

    join = groups.join("program")
    devices.write("/proc/sys/vm/drop_caches", 3)
    before = time.monotonic()
    done = subprocess.run([program, "-c", f"import {IMPORTS}"], preexec_fn=enter, check=False)
    if done.returncode != 0:
        raise devices.StepError(f"the program ended with status {done.returncode}")
    return time.monotonic() - before


def run(step, disk):
    """{"starts_s": of each start, "bytes": {load: bytes}, "busy_s": of the CPUs, "seconds"}

    All but the first are from the first start to the last.
    """
    groups, devices = _guest()
    devices.write(f"{groups.ROOT}/cgroup.subtree_control", "+memory")
    devices.make_ext4(disk, FILE_SYSTEM_MIB)
    with devices.mounted(disk, MOUNT):
        program = _prepare()
    with devices.mounted(disk, MOUNT):
        for group, mib in MEMORY_MIB.items():
            devices.write(f"{groups.ROOT}/{group}/memory.max", mib << 20)
        with _others(groups, devices) if step["beside"] else contextlib.nullcontext():
            time.sleep(SETTLE_S if step["beside"] else 0)
            before = {group: groups.io_bytes(group, disk) for group in MEMORY_MIB}
            busy_s, since, starts = devices.busy_s(), time.monotonic(), []
            for _ in range(step["starts"]):
                starts.append(_start_s(groups, devices, program))
                time.sleep(BETWEEN_S)
            return {"starts_s": starts, "seconds": time.monotonic() - since,
                    "busy_s": devices.busy_s() - busy_s,
                    "bytes": {group: groups.io_bytes(group, disk) - count
                              for group, count in before.items()}}


if __name__ == "__main__":
    {"copy": copy, "build": build}[sys.argv[1]](*sys.argv[2:])
