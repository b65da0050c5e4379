# SPDX-License-Identifier: GPL-2.0
"""The devices that a benchmark step can ask for, made and removed in the guest.

A device is described by a dictionary: kind, params (module parameters) and sysfs (attributes of the
disk, written after it has appeared). Kinds:

  null_blk    completes requests without work: a load on it has only the cost of the block layer
  ssdsim      the simulated SSD
  nvme-tcp    ssdsim behind the kernel's NVMe target and its NVMe host, connected by TCP on the
              loopback interface
"""
import contextlib
import os
import subprocess
import time

NVMET = "/sys/kernel/config/nvmet"
NQN = "nqn.2014-08.org.nvmexpress:mqfair"
APPEAR_S = 20
# Of the guest and of every fio in it.
SEED = int(os.environ.get("MQFAIR_SEED", 1))


class StepError(Exception):
    """A step failed; the text is one sentence."""


def call(*argv):
    """Run @argv; raise StepError with its last line of output if it fails."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or [""]
        raise StepError(f"{' '.join(argv)}: status {done.returncode}: {lines[-1]}")


def write(path, value):
    """Write an attribute; raise StepError with its path if the kernel refuses."""
    try:
        with open(path, "w", encoding="ascii") as handle:
            handle.write(str(value))
    except OSError as error:
        raise StepError(f"{value!r} to {path}: {error.strerror}") from error


def read(path):
    """The text of an attribute."""
    with open(path, encoding="ascii") as handle:
        return handle.read().strip()


def busy_s():
    """How long the guest's CPUs have been busy, all together, a CPU that waits for its turn too."""
    with open("/proc/stat", encoding="ascii") as handle:
        user, nice, system, _, _, irq, softirq, *_ = map(int, handle.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def make_ext4(disk, mib=None):
    """A new ext4 on the first @mib of @disk, or all of it."""
    size = [f"{mib}m"] if mib else []
    call("mkfs.ext4", "-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0",
         f"/dev/{disk}", *size)


@contextlib.contextmanager
def mounted(disk, mount):
    """The ext4 on @disk at @mount until the context ends; nothing of it is in memory before."""
    os.makedirs(mount, exist_ok=True)
    call("mount", "-t", "ext4", f"/dev/{disk}", mount)
    try:
        yield
    finally:
        call("umount", mount)


def _wait_for(find, what):
    deadline = time.monotonic() + APPEAR_S
    while time.monotonic() < deadline:
        found = find()
        if found:
            return found
        time.sleep(0.05)
    raise StepError(f"waited {APPEAR_S} s for {what}")


def _nvme_disk():
    folder = "/sys/class/nvme"
    for controller in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        with open(f"{folder}/{controller}/subsysnqn", encoding="ascii") as handle:
            if handle.read().strip() != NQN:
                continue
        for entry in sorted(os.listdir("/sys/block")):
            if entry.startswith(controller) and os.path.exists(f"/dev/{entry}"):
                return entry
    return None


def _connect_nvme(backing):
    # Without this the disk is a multipath head, although it has one path only, and heads have no
    # scheduler.
    call("modprobe", "nvme-core", "multipath=N")
    for name in ("nvmet-tcp", "nvme-tcp"):
        call("modprobe", name)
    subsystem, port = f"{NVMET}/subsystems/{NQN}", f"{NVMET}/ports/1"
    os.mkdir(subsystem)
    write(f"{subsystem}/attr_allow_any_host", 1)
    os.mkdir(f"{subsystem}/namespaces/1")
    write(f"{subsystem}/namespaces/1/device_path", backing)
    write(f"{subsystem}/namespaces/1/enable", 1)
    os.mkdir(port)
    for name, value in (("adrfam", "ipv4"), ("trtype", "tcp"), ("traddr", "127.0.0.1"),
                        ("trsvcid", "4420")):
        write(f"{port}/addr_{name}", value)
    os.symlink(subsystem, f"{port}/subsystems/{NQN}")
    call("nvme", "connect", "-t", "tcp", "-a", "127.0.0.1", "-s", "4420", "-n", NQN)
    return _wait_for(_nvme_disk, "the NVMe namespace")


def _disconnect_nvme():
    if not os.path.isdir(NVMET):
        return
    subprocess.run(["nvme", "disconnect", "-n", NQN], stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, check=False)
    subsystem, port = f"{NVMET}/subsystems/{NQN}", f"{NVMET}/ports/1"
    for remove, path in ((os.unlink, f"{port}/subsystems/{NQN}"), (os.rmdir, port),
                         (os.rmdir, f"{subsystem}/namespaces/1"), (os.rmdir, subsystem)):
        try:
            remove(path)
        except FileNotFoundError:
            pass


class Devices:
    """Holds the device of the current step, and makes another when a step needs a different one."""

    def __init__(self):
        self._spec = None
        self.disk = None        # name below /sys/block

    def get(self, spec, fresh):
        """The disk that @spec describes; a new one if @fresh."""
        if fresh or spec != self._spec:
            self.drop()
            self.disk = self._make(spec)
        return self.disk

    def _make(self, spec):
        null = spec["kind"] == "null_blk"
        disk = "nullb0" if null else "ssdsim0"
        self._spec = spec       # from here on drop() has something to undo
        call("modprobe", "null_blk" if null else "ssdsim",
             *(f"{key}={value}" for key, value in sorted(spec.get("params", {}).items())))
        _wait_for(lambda: os.path.exists(f"/dev/{disk}"), f"/dev/{disk}")
        for name, value in spec.get("sysfs", {}).items():
            write(f"/sys/block/{disk}/{name}", value)
        return _connect_nvme(f"/dev/{disk}") if spec["kind"] == "nvme-tcp" else disk

    def drop(self):
        """Remove the device and its module."""
        if self._spec is None:
            return
        kind, self._spec = self._spec["kind"], None
        if kind == "nvme-tcp":
            _disconnect_nvme()
        _unload("null_blk" if kind == "null_blk" else "ssdsim")


def _unload(module):
    # A kernel worker closes the files of an io_uring after its owner has ended.
    _wait_for(lambda: read(f"/sys/module/{module}/refcnt") == "0",
              f"the last user of {module} to end")
    call("modprobe", "-r", module)


def _forget_settings():
    # What an earlier step set is kept, per disk, in mqfair_lib, which goes with its last user.
    library = "/sys/module/mqfair_lib"
    if os.path.isdir(library):
        call("modprobe", "-r", *os.listdir(f"{library}/holders"), "mqfair_lib")


def set_scheduler(disk, scheduler, tunables):
    """Choose @scheduler for @disk, then write its @tunables."""
    module = {"kyber": "kyber-iosched"}.get(scheduler, scheduler)
    write(f"/sys/block/{disk}/queue/scheduler", "none")
    _forget_settings()
    if scheduler != "none":
        # mq-deadline may be built in, which modprobe accepts.
        call("modprobe", module)
    write(f"/sys/block/{disk}/queue/scheduler", scheduler)
    set_tunables(disk, tunables)


def set_tunables(disk, tunables):
    """Write @tunables of the scheduler that @disk has."""
    for name, value in tunables.items():
        write(f"/sys/block/{disk}/queue/iosched/{name}", value)
