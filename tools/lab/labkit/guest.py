# SPDX-License-Identifier: GPL-2.0
"""Boot a guest, run one command in it, bring back its output, its status and its kernel log."""
import contextlib
import fcntl
import os
import queue
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

from . import cache, coherence, sealed
from .root import enter_argv
from .say import LabError, say

TIMED_OUT = 124
SPLAT = 70
GUEST_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "guest")
GUEST_INIT = os.path.join(GUEST_DIR, "init")
OWN_REPORTS = os.path.join(GUEST_DIR, "own-reports")
KVM_PROBE_S = 20
PIPE_BYTES = 1 << 20            # the guest may write so much until our thread is scheduled

# The kernel's messages about faults of its own.
SPLAT_RE = re.compile(
    r"WARNING: |\bBUG: |\bBUG\b.*at |Oops|KASAN: |KCSAN: |UBSAN: |possible circular locking|"
    r"inconsistent lock state|suspicious RCU usage|blocked for more than \d+ seconds|"
    r"rcu: INFO: .*(detected stall|self-detected)|general protection fault|Kernel panic|"
    r"soft lockup|hard LOCKUP|unable to handle|refcount_t: |ODEBUG: |list_(add|del) corruption|"
    r"sleeping function called from invalid context|scheduling while atomic")


@dataclass(frozen=True)
class Request:
    """What `lab run` was asked for."""
    backend: str            # uml or vm
    cpus: int
    mem: str
    virtual_time: bool
    timeout_s: int
    allow_splat: bool
    command: list           # argv
    cwd: str
    checkout: str
    counted: coherence.Coherence | None = None
    carried: tuple = ()     # under virtual time: ignored files that the guest sees all the same
    stdin: str = ""         # the command's input, a file
    seed: int = 1           # under virtual time: of all that is random in the guest

    def places(self, run):
        """(run folder, checkout, start folder) as the guest sees them."""
        if not self.virtual_time:
            return run, self.checkout, self.cwd
        start = os.path.relpath(self.cwd, self.checkout)
        if start.startswith(".."):
            raise LabError(f"--virtual-time: call the lab from a folder in {self.checkout}; of the "
                           "host's folders the guest has only the checkout")
        return sealed.RUN, sealed.CHECKOUT, os.path.normpath(os.path.join(sealed.CHECKOUT, start))


def kvm_works(root):
    """Whether /dev/kvm really runs a guest here.

    The probe is one tiny guest, which has KVM_PROBE_S; the answer is kept until the next boot.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        answer = os.path.join(cache.cache_dir(), f"kvm-{handle.read().strip()}")
    if not os.path.exists(answer):
        say("probing /dev/kvm")
        image = next(f"/boot/{name}" for name in sorted(os.listdir(root + "/boot"))
                     if name.startswith("vmlinuz"))
        argv = ["timeout", "-s", "KILL", str(KVM_PROBE_S), "qemu-system-x86_64", "-accel", "kvm",
                "-cpu", "host",
                "-nodefaults", "-display", "none", "-m", "512M", "-no-reboot", "-kernel", image,
                "-append", "panic=-1 console=ttyS0", "-serial", "stdio"]
        # A kernel without a root panics and, with panic=-1, reboots: QEMU ends with status 0 and a
        # panic on the console.
        probe = subprocess.run(enter_argv(root, argv, [], "/"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        works = probe.returncode == 0 and b"Kernel panic" in probe.stdout
        with open(answer, "w", encoding="ascii") as handle:
            handle.write("yes" if works else "no")
        if not works:
            say("/dev/kvm exists but boots no guest; using TCG")
    with open(answer, encoding="ascii") as handle:
        return handle.read() == "yes"


def _uml_argv(kernel, modules, request, run, console_fd, out_fd, err_fd):
    return [kernel.image, f"mem={request.mem}", f"ncpus={request.cpus}", "seccomp=on",
            "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "panic=1",
            f"init={run}/init", f"mqfair.run={run}", "quiet",
            "con=null", f"con0=null,fd:{console_fd}", f"ssl0=null,fd:{out_fd}",
            f"ssl1=null,fd:{err_fd}", "hung_task_panic=0", "rcupdate.rcu_cpu_stall_timeout=180",
            "random.trust_bootloader=on"]


def _initramfs(kernel, kind):
    """The initramfs that mounts the root; @kind: shared or sealed."""
    script = os.path.join(GUEST_DIR, "make-initramfs")
    with open(script, "rb") as handle:
        key = cache.key_of(kernel.identity, os.path.basename(kernel.root), kind, handle.read())

    def make(path):
        with open(path + "/initramfs", "wb") as handle:
            subprocess.run(enter_argv(kernel.root, ["sh", script, kernel.release, kind],
                                      [os.path.dirname(script)], "/"),
                           check=True, stdin=subprocess.DEVNULL, stdout=handle)
    return cache.artifact(f"initramfs-{kind}-{kernel.name}", key, make, 100 << 20) + "/initramfs"


def _shared_argv(kernel, request):
    """QEMU's arguments for a guest in real time, which shares the host's files."""
    argv = ["-machine", "q35", "-m", request.mem]
    if kvm_works(kernel.root):
        argv += ["-accel", "kvm", "-cpu", "host"]
    else:
        # Four levels of page tables. A KASAN kernel with five was seen to report an access by an
        # interrupt that came while it identified the CPU, as wild: it then forgets for a moment how
        # many there are.
        argv += ["-accel", "tcg,thread=multi", "-cpu", "max,la57=off"]
    return argv + ["-fsdev", "local,id=root,path=/,security_model=none,multidevs=remap",
                   "-device", "virtio-9p-pci,fsdev=root,mount_tag=/dev/root",
                   "-device", "virtio-serial-pci"]


def _output_argv(request, console_fd, out_fd, err_fd):
    """QEMU's arguments for the console and for the two streams of the command."""
    argv = ["-chardev", f"file,id=console,path=/proc/self/fd/{console_fd}",
            "-serial", "chardev:console"]
    for name, number in (("stdout", out_fd), ("stderr", err_fd)):
        argv += ["-chardev", f"file,id={name},path=/proc/self/fd/{number}"]
        argv += (["-serial", f"chardev:{name}"] if request.virtual_time else
                 ["-device", f"virtserialport,chardev={name},name={name}"])
    return argv


def _vm_argv(kernel, modules, request, run, console_fd, out_fd, err_fd):
    place = request.places(run)[0]
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-smp", str(request.cpus),
            "-display", "none", "-no-reboot"]
    append = ["console=ttyS0", "quiet", "loglevel=4", "panic=-1", "nokaslr", "mitigations=off",
              "nowatchdog", "rcupdate.rcu_cpu_stall_timeout=180",
              "rcupdate.rcu_exp_cpu_stall_timeout=0", "no_timer_check", f"init={place}/init",
              f"mqfair.run={place}"]
    if request.virtual_time:
        argv = sealed.prefix(kernel.root) + argv
        argv += sealed.argv(kernel, modules, request, run)
        append += ["tsc=reliable", "norandmaps"]
    else:
        argv += _shared_argv(kernel, request)
    argv += _output_argv(request, console_fd, out_fd, err_fd)
    if request.counted:
        argv += coherence.argv(kernel.root, request.counted, run)
    if kernel.initramfs or request.virtual_time:
        argv += ["-initrd", _initramfs(kernel, "sealed" if request.virtual_time else "shared")]
    else:
        append += ["root=/dev/root", "rootfstype=9p", "rw",
                   "rootflags=version=9p2000.L,trans=virtio,access=any,cache=loose,msize=262144"]
    return argv + ["-kernel", kernel.image, "-append", " ".join(append)]


def _prepare(run, kernel, modules, request):
    place, checkout, start = request.places(run)
    # A kernel's command line takes no path with a space in it, and the checkout may have one.
    shutil.copy(GUEST_INIT, run)
    if request.stdin:
        shutil.copy(request.stdin, os.path.join(run, "stdin"))
    with open(os.path.join(run, "env"), "w", encoding="utf-8") as handle:
        handle.write(f"MQFAIR_CWD={shlex.quote(start)}\n"
                     f"MQFAIR_MODULES={'' if request.virtual_time else shlex.quote(modules)}\n"
                     f"MQFAIR_BACKEND={request.backend}\n"
                     f"MQFAIR_CHECKOUT={shlex.quote(checkout)}\n")
    with open(os.path.join(run, "command"), "w", encoding="utf-8") as handle:
        handle.write(f"export MQFAIR_BACKEND={request.backend} MQFAIR_KERNEL={kernel.name} "
                     f"MQFAIR_VIRTUAL_TIME={int(request.virtual_time)} MQFAIR_SEED={request.seed}"
                     f"{f' MQFAIR_COHERENCE={place}/coherence' if request.counted else ''}\n"
                     f"exec {shlex.join(request.command)}\n")


class _Stream:
    """Carries one output stream of the guest to ours: QEMU and UML want a write-only descriptor.

    The guest never waits for our reader: what that does not take yet is kept in memory.
    """

    def __init__(self, target):
        self._target = target
        self._source, self.guest_end = os.pipe()
        with contextlib.suppress(OSError):      # more than an unprivileged user may have
            fcntl.fcntl(self._source, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._kept, self._error = queue.SimpleQueue(), None
        self._threads = [threading.Thread(target=call, daemon=True)
                         for call in (self._read, self._write)]

    def _read(self):
        while data := os.read(self._source, 1 << 16):
            self._kept.put(data)
        self._kept.put(b"")

    def _write(self):
        while data := self._kept.get():
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(self._target, view):]
            except BrokenPipeError:     # our reader has closed; the guest's command goes on
                pass
            except OSError as error:
                self._error = error

    def started(self):
        """Close our copy of the guest's end, and start to carry its output."""
        os.close(self.guest_end)
        for thread in self._threads:
            thread.start()

    def drain(self):
        """The guest has ended: pass on the rest of its output, as fast as it is taken."""
        reader, writer = self._threads
        reader.join(timeout=10)         # a process that outlives the guest may hold its end
        self._kept.put(b"")
        writer.join()
        os.close(self._source)
        if self._error:
            raise LabError(f"the guest's output could not be written: {self._error.strerror}")


def _wait(process, deadline):
    try:
        process.wait(timeout=max(0.1, deadline - time.monotonic()))
        return False
    except subprocess.TimeoutExpired:
        return True
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)     # unshare --kill-child takes the guest along
            process.wait()


def _keep_log(run, checkout):
    """The kernel log of the run, kept where a person finds it; returns its text."""
    text = ""
    for name in ("dmesg", "console"):
        path = os.path.join(run, name)
        if os.path.exists(path) and os.path.getsize(path):
            with open(path, encoding="utf-8", errors="replace") as handle:
                text = handle.read()
            break
    folder = os.path.join(checkout, "results", "lab")
    os.makedirs(folder, exist_ok=True)
    part = os.path.join(folder, f".dmesg.{os.getpid()}")
    with open(part, "w", encoding="utf-8") as handle:
        handle.write(text)
    os.replace(part, os.path.join(folder, "dmesg.txt"))
    return text


def run(kernel, modules, request):
    """Run @request on @kernel; returns the exit status that `lab run` ends with."""
    with cache.scratch("run", "guest-") as run_dir:
        return _run_in(run_dir, kernel, modules, request)


def _run_in(run_dir, kernel, modules, request):
    _prepare(run_dir, kernel, modules, request)
    console = os.open(os.path.join(run_dir, "console"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    build = _uml_argv if request.backend == "uml" else _vm_argv
    out, err = _Stream(1), _Stream(2)
    # The inner limit ends the guest if we are killed and cannot enforce the outer one.
    argv = ["timeout", "-s", "KILL", str(request.timeout_s + 60),
            *build(kernel, modules, request, run_dir, console, out.guest_end, err.guest_end)]
    process = subprocess.Popen(enter_argv(kernel.root, argv, [request.checkout], "/"),
                               stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                               pass_fds=(console, out.guest_end, err.guest_end))
    os.close(console)
    out.started()
    err.started()
    timed_out = _wait(process, time.monotonic() + request.timeout_s)
    log = _keep_log(run_dir, request.checkout)
    out.drain()
    err.drain()
    if request.counted and not timed_out:
        coherence.finish(request.counted, run_dir, kernel.root, modules, request.checkout)
    return _status(run_dir, log, timed_out, request)


def _status(run_dir, log, timed_out, request):
    reports = "" if request.allow_splat else subprocess.run(
        [OWN_REPORTS], input=log, stdout=subprocess.PIPE, text=True, check=True).stdout
    splat = next((line for line in reports.splitlines() if SPLAT_RE.search(line)), None)
    if splat:
        say(f"the kernel reported: {splat.strip()} (whole log: results/lab/dmesg.txt)")
        return SPLAT
    if timed_out:
        say(f"timed out after {request.timeout_s} s; the kernel log so far is in "
            "results/lab/dmesg.txt")
        return TIMED_OUT
    path = os.path.join(run_dir, "status")
    if not os.path.exists(path):
        tail = " | ".join(line.strip() for line in log.splitlines()[-3:])
        raise LabError("the guest did not boot or died before the command ended: "
                       f"{tail or 'it printed nothing'}; see results/lab/dmesg.txt")
    with open(path, encoding="ascii") as handle:
        return int(handle.read())
