# SPDX-License-Identifier: GPL-2.0
"""Cgroups in the guest, with I/O weights or with a part of a processor.

Each scheduler that obeys I/O weights has a file of its own for them, and so has io.cost.
"""
import contextlib
import os

from devices import StepError, read, write

ROOT = "/sys/fs/cgroup"
# Of cpu.max. A thread that has used its share waits for the next period, and so do those that wait
# for it. A slow core has no such pauses, so they are short.
PERIOD_US = 5000
# Scheduler or io.cost: its file, and the range of the weight. The default is 100 in all.
WEIGHT_FILES = {"bfq": ("io.bfq.weight", 1, 1000), "io.cost": ("io.weight", 1, 10000),
                "mq-mqfq": ("io.mqfair.weight", 1, 10000)}


def join(group):
    """What a child process does before its program starts, to be in cgroup @group."""
    def enter():
        with open(f"{ROOT}/{group}/cgroup.procs", "w", encoding="ascii") as handle:
            handle.write("0")
    return enter


def io_bytes(group, disk):
    """Bytes that cgroup @group has read and written so far on @disk."""
    device = read(f"/sys/block/{disk}/dev")
    for line in read(f"{ROOT}/{group}/io.stat").splitlines():
        name, *fields = line.split()
        if name == device:
            found = dict(field.split("=") for field in fields)
            # A device that the cgroup has only opened has a line without fields.
            return int(found.get("rbytes", 0)) + int(found.get("wbytes", 0))
    return 0


def _set_weights(control, weights):
    if control not in WEIGHT_FILES:
        return
    name, low, high = WEIGHT_FILES[control]
    scale = min(1, high / max(weights.values()))        # only their ratios count
    for group, weight in weights.items():
        write(f"{ROOT}/{group}/{name}", max(low, round(weight * scale)))


def _set_targets(disk, targets_us):
    """Write mq-mqfq's latency target of each cgroup of @targets_us."""
    device = read(f"/sys/block/{disk}/dev")
    for group, target_us in targets_us.items():
        write(f"{ROOT}/{group}/io.mqfair.latency", f"{device} target={target_us}")


def _set_limits(disk, weights, model):
    """Hold each cgroup to its share of what @model says that the drive can do."""
    device, total = read(f"/sys/block/{disk}/dev"), sum(weights.values())
    rates = {"rbps": model["rbps"], "wbps": model["wbps"], "riops": model["rrandiops"],
             "wiops": model["wrandiops"]}
    for group, weight in weights.items():
        limits = " ".join(f"{name}={max(1, round(rate * weight / total))}"
                          for name, rate in rates.items())
        write(f"{ROOT}/{group}/io.max", f"{device} {limits}")


def _switch_iocost(disk, on, model=None, qos=""):
    """Switch io.cost on or off, with its automatic parameters or with @model and @qos."""
    device, by = read(f"/sys/block/{disk}/dev"), "user" if model else "auto"
    coefficients = " ".join(f"{key}={value}" for key, value in (model or {}).items())
    write(f"{ROOT}/io.cost.model", f"{device} ctrl={by} {coefficients}")
    write(f"{ROOT}/io.cost.qos", f"{device} enable={int(on)} ctrl={by} {qos}")


@contextlib.contextmanager
def cgroups(disk, control, weights, model=None, qos="", targets_us=None):
    """The cgroups of @weights below the root, until the context ends.

    @control is the scheduler that obeys the weights, io.cost or io.max. io.cost may have a @model
    of the drive, {coefficient: value}, and a text of @qos parameters; io.max needs the model.
    Under mq-mqfq a cgroup may have a target, {cgroup: us}.
    """
    write(f"{ROOT}/cgroup.subtree_control", "+io")
    made = []
    try:
        for group in weights:
            os.mkdir(f"{ROOT}/{group}")
            made.append(group)
        _set_weights(control, weights)
        _set_targets(disk, targets_us or {})
        if control == "io.cost":
            _switch_iocost(disk, True, model, qos)
        elif control == "io.max":
            _set_limits(disk, weights, model)
        yield
    finally:
        try:
            if control == "io.cost":
                _switch_iocost(disk, False)
            for group in made:
                os.rmdir(f"{ROOT}/{group}")
        except OSError as error:
            raise StepError(f"{error.filename}: {error.strerror}") from error


@contextlib.contextmanager
def slow_threads(pid, tids, pct):
    """Give each thread of @tids of process @pid @pct percent of a CPU, until the context ends.

    Each thread is in a cgroup of its own.
    """
    process = f"{ROOT}/slow"
    groups = [f"{process}/{tid}" for tid in tids]
    write(f"{ROOT}/cgroup.subtree_control", "+cpu")
    os.mkdir(process)
    write(f"{process}/cgroup.procs", pid)
    for group, tid in zip(groups, tids):
        os.mkdir(group)
        write(f"{group}/cgroup.type", "threaded")
        write(f"{process}/cgroup.subtree_control", "+cpu")
        write(f"{group}/cpu.max", f"{pct * PERIOD_US // 100} {PERIOD_US}")
        write(f"{group}/cgroup.threads", tid)
    try:
        yield
    finally:
        # The process may have ended.
        with contextlib.suppress(StepError):
            write(f"{ROOT}/cgroup.procs", pid)
        for group in (*groups, process):
            os.rmdir(group)
