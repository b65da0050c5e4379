# SPDX-License-Identifier: GPL-2.0
"""Virtual machines that share the disk under test: the part of QEMU that does a machine's disk I/O.

A machine is a QEMU process without a CPU, in a cgroup of its own. Its drive is a region of the
disk, opened direct with io_uring. An iothread serves it by NBD on a Unix socket. The machine's load
is fio's nbd engine at that socket, outside the cgroups. So the requests reach the scheduler from
the iothread, in the machine's cgroup, as those of a virtio-blk device with an iothread do. There is
no guest kernel and no virtio ring.
"""
import contextlib
import json
import os
import signal
import socket
import subprocess
import time

import cgroups
import devices

FOLDER = "/tmp/mqfair-vm"
START_S = 60


class _Machine:
    """One QEMU, and the fio that is its load."""

    def __init__(self, name):
        self.name, self.qemu, self.fio = name, None, None
        self.path = os.path.join(FOLDER, name)

    def start(self, disk, offset, size):
        """QEMU with @size bytes of @disk from @offset, which answers at the socket NAME.nbd."""
        region = {"driver": "raw", "node-name": "drive", "offset": offset, "size": size,
                  "file": {"driver": "host_device", "filename": f"/dev/{disk}", "aio": "io_uring",
                           "cache": {"direct": True}, "locking": "off"}}
        with open(f"{self.path}.log", "w", encoding="utf-8") as log:
            self.qemu = subprocess.Popen(
                ["qemu-system-x86_64", "-machine", "none", "-nodefaults", "-display", "none",
                 "-name", f"{self.name},debug-threads=on", "-object", "iothread,id=io",
                 "-blockdev", json.dumps(region),
                 "-qmp", f"unix:{self.path}.qmp,server=on,wait=off"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=cgroups.join(self.name))
        self._tell(
            {"execute": "qmp_capabilities"},
            {"execute": "nbd-server-start", "arguments": {
                "addr": {"type": "unix", "data": {"path": f"{self.path}.nbd"}}}},
            {"execute": "block-export-add", "arguments": {
                "type": "nbd", "id": "export", "node-name": "drive", "name": "", "writable": True,
                "iothread": "io"}})

    def _connect(self, qmp):
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline and self.qemu.poll() is None:
            try:
                qmp.connect(f"{self.path}.qmp")
                return
            except OSError:
                time.sleep(0.1)
        raise devices.StepError(f"the QEMU of {self.name} does not answer: "
                                f"{_last_line(f'{self.path}.log')}")

    def _tell(self, *commands):
        """Each of @commands, and its answer."""
        with socket.socket(socket.AF_UNIX) as qmp:
            self._connect(qmp)
            with qmp.makefile("rw") as both:
                both.readline()         # the greeting
                for command in commands:
                    both.write(json.dumps(command) + "\n")
                    both.flush()
                    answer = next(line for line in map(json.loads, both) if "event" not in line)
                    if "error" in answer:
                        raise devices.StepError(f"{command['execute']} of {self.name}: "
                                                f"{answer['error']['desc']}")

    def load(self, options, seed):
        """fio with @options; it writes the latency of each request."""
        log = f"{self.path}_lat.log"
        if os.path.exists(log):
            os.unlink(log)              # fio would append to it
        with open(f"{self.path}.fio", "w", encoding="utf-8") as said:
            self.fio = subprocess.Popen(
                ["fio", f"--name={self.name}", "--ioengine=nbd", "--thread",
                 f"--uri=nbd+unix:///?socket={self.path}.nbd", f"--randseed={seed}",
                 "--norandommap", "--time_based", "--runtime=1000", f"--write_lat_log={self.name}",
                 "--log_unix_epoch=1", "--per_job_logs=0",
                 *(f"--{key}={value}" for key, value in options.items())],
                cwd=FOLDER, stdin=subprocess.DEVNULL, stdout=said, stderr=said)

    def check(self):
        """Complain if QEMU or fio has ended."""
        for process, log in ((self.qemu, "log"), (self.fio, "fio")):
            if process.poll() is not None:
                raise devices.StepError(f"a process of {self.name} ended too early: "
                                        f"{_last_line(f'{self.path}.{log}')}")

    def latencies(self, from_ms, to_ms):
        """The ns of each request that ended in this time; fio has ended."""
        with open(f"{self.path}_lat.log", encoding="utf-8") as handle:
            entries = [line.split(",")[:2] for line in handle]
        return [int(ns) for at, ns in entries if from_ms <= int(at) < to_ms]

    def end_load(self):
        if self.fio:
            self.fio.send_signal(signal.SIGINT)
            self.fio.wait()

    def end(self):
        if self.qemu:
            self.qemu.kill()
            self.qemu.wait()
        for kind in ("qmp", "nbd"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.path}.{kind}")


def _last_line(path):
    with open(path, encoding="utf-8") as handle:
        return (handle.read().strip().splitlines() or ["it said nothing"])[-1]


@contextlib.contextmanager
def _machines(names, disk):
    """A machine of each name, with an equal part of @disk each, until the context ends."""
    os.makedirs(FOLDER, exist_ok=True)
    size = int(devices.read(f"/sys/block/{disk}/size")) * 512 // len(names)
    machines = [_Machine(name) for name in names]
    try:
        for number, machine in enumerate(machines):
            machine.start(disk, number * size, size)
        yield machines
    finally:
        for machine in machines:
            machine.end_load()
        for machine in machines:
            machine.end()


def run(step, disk):
    """{"bytes": {machine: in the window}, "latencies_ns": the same, "busy_s": of the CPUs}"""
    with _machines(list(step["machines"]), disk) as machines:
        for number, machine in enumerate(machines):
            machine.load(step["machines"][machine.name], 100 * devices.SEED + number)
        time.sleep(step["ramp_s"])
        busy_s, from_ms = devices.busy_s(), time.time() * 1000
        before = {machine.name: cgroups.io_bytes(machine.name, disk) for machine in machines}
        time.sleep(step["seconds"])
        busy_s, to_ms = devices.busy_s() - busy_s, time.time() * 1000
        moved = {name: cgroups.io_bytes(name, disk) - count for name, count in before.items()}
        for machine in machines:
            machine.check()
            machine.end_load()
        return {"bytes": moved, "busy_s": busy_s,
                "latencies_ns": {machine.name: machine.latencies(from_ms, to_ms)
                                 for machine in machines}}
