# SPDX-License-Identifier: GPL-2.0
"""The model that io.cost has of a drive: measured as the kernel's own tool does.

The kernel's source has a program for it, among its tools for cgroups. It measures six rates of the
bare drive, without scheduler and merging: bandwidth of sequential reads and writes of 128 MiB, and
4 KiB requests per second, sequential and random, 64 outstanding in each job. Its jobs run 120 s;
ours run RUNTIME_S of virtual time, which has no noise. A rate of writes on a drive that collects
garbage is that of a short time in both.
"""
import json
import subprocess

from devices import StepError, set_scheduler, write

RUNTIME_S = 1
# With one job the CPU is what is measured.
JOBS = 4
# Coefficient: fio's pattern, block size, outstanding requests.
RUNS = {"rbps": ("read", "128m", 1), "rseqiops": ("read", "4k", 64),
        "rrandiops": ("randread", "4k", 64), "wbps": ("write", "128m", 1),
        "wseqiops": ("write", "4k", 64), "wrandiops": ("randwrite", "4k", 64)}


def _bytes_per_s(disk, pattern, block, depth):
    argv = ["fio", "--name=coefficient", f"--filename=/dev/{disk}", "--direct=1",
            "--ioengine=libaio", f"--readwrite={pattern}", f"--blocksize={block}",
            f"--iodepth={depth}", f"--runtime={RUNTIME_S}", "--time_based", f"--numjobs={JOBS}",
            "--output-format=json"]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise StepError(f"io.cost's model: fio ended with status {done.returncode}")
    jobs = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
    return sum(job["read"]["bw_bytes"] + job["write"]["bw_bytes"] for job in jobs)


class Models:
    """The models that were measured in this guest, a drive each."""

    def __init__(self, devices):
        self._devices, self._known = devices, {}

    def get(self, spec):
        """The model of the drive of @spec; measured on a new one, which is then removed."""
        key = json.dumps(spec, sort_keys=True)
        if key not in self._known:
            disk = self._devices.get(spec, True)
            set_scheduler(disk, "none", {})
            write(f"/sys/block/{disk}/queue/nomerges", 1)
            rates = {name: _bytes_per_s(disk, *run) for name, run in RUNS.items()}
            self._known[key] = {name: rate if name.endswith("bps") else round(rate / 4096)
                                for name, rate in rates.items()}
            self._devices.drop()
        return self._known[key]
