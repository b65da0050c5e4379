# SPDX-License-Identifier: GPL-2.0
"""The group "lab": what other scripts expect of tools/lab/lab, and how it fails."""
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from .report import CHECKOUT, LAB, Group

sys.path.insert(0, os.path.join(CHECKOUT, "tools", "lab"))
from labkit import cache       # noqa: E402

VM = ["--backend", "vm", "--kernel", "7.2"]


def lab_run(report, options, command, **more):
    return report.command([LAB, "run", *options, "--", *command], **more)


def sentence(err):
    """What is wrong with @err, if its last line is not one sentence from the lab; or None."""
    lines = [line for line in err.splitlines() if line.strip()]
    if not lines or not lines[-1].startswith("lab: ") or len(lines[-1]) < 30:
        return f"no sentence at the end: {lines[-1] if lines else 'nothing was said'}"
    return "a traceback" if "Traceback" in err else None


def refused(report, name, status, err):
    report.expect(name, "status 0" if status == 0 else "did not end" if status is None
                  else sentence(err), detail=err)


def streams(backend):
    """One boot: 1 MiB of random bytes on stdout, the rest on stderr, status 37, arguments."""
    def case(report):
        report.begin(f"streams-{'vm' if backend else 'uml'}")
        name = f"results/test/written.{os.getpid()}"
        script = ('head -c 1048576 /dev/urandom > /tmp/r; cat /tmp/r; '
                  '{ sha256sum < /tmp/r; pwd; id -u; printf "<%s>" "$@"; echo; '
                  'for p in /sys /sys/kernel/debug /sys/kernel/config /sys/fs/cgroup; do '
                  'stat -f -c %T $p; done; '
                  'modprobe mq-k2 && modprobe ssdsim && [ -b /dev/ssdsim0 ] && echo ready; } >&2; '
                  f'echo here > ../../{name}; exit 37')
        status, out, err = lab_run(report, backend,
                                   ["sh", "-c", script, "-", "a b", "c'd", '"', "$HOME", ""],
                                   text=False, cwd=os.path.join(CHECKOUT, "tools", "test"))
        said = err.decode(errors="replace")
        path = os.path.join(CHECKOUT, name)
        wrong = [text for text, bad in (
            (f"status {status}, expected 37", status != 37),
            (f"{len(out)} bytes on stdout, or not those that were written",
             hashlib.sha256(out).hexdigest() not in said),
            ("not started in the folder of the caller",
             os.path.join(CHECKOUT, "tools", "test") + "\n" not in said),
            ("arguments changed", "<a b><c'd><\"><$HOME><>" not in said),
            ("sysfs, debugfs, configfs, cgroup2 are not all mounted",
             "sysfs\ndebugfs\nconfigfs\ncgroup2fs\n" not in said),
            ("modprobe mq-k2 and ssdsim give no /dev/ssdsim0", "ready" not in said),
            ("the checkout is not writable", not os.path.exists(path)),
        ) if bad]
        report.expect(report.now, "; ".join(wrong), detail=said)
        if os.path.exists(path):
            os.unlink(path)
    return case


def timeout(report):
    report.begin("timeout")
    started = time.monotonic()
    status, _, err = lab_run(report, ["--timeout", "8"], ["sleep", "600"], timeout_s=200)
    took = time.monotonic() - started
    report.expect("timeout", None if status == 124
                  else f"status {status} after {took:.0f} s, expected 124", detail=err)


def splats(report):
    """A kernel report fails the run, unless the caller allows it; a race only if it is ours."""
    warning = ["WARNING: provoked by a test"]
    race = ["=====", "BUG: KCSAN: data-race in one / other", " one+0x1/0x2"]
    ours = [" one+0x1/0x2 [mq_k2]"]
    for name, options, lines, wanted in (("splat", [], warning, 70),
                                         ("splat-allowed", ["--allow-splat"], warning, 3),
                                         ("splat-race", [], race + ours + race[:1], 70),
                                         ("splat-others-race", [], race + race[:1], 3)):
        report.begin(name)
        status, _, err = lab_run(report, options,
                                 ["sh", "-c", 'for line; do echo "$line" > /dev/kmsg; done; exit 3',
                                  "sh", *lines])
        report.expect(name, None if status == wanted else f"status {status}, expected {wanted}",
                      detail=err)
    report.begin("splat-log")
    path = os.path.join(CHECKOUT, "results/lab/dmesg.txt")
    with open(path, encoding="utf-8", errors="replace") as log:
        report.expect("splat-log", None if log.read() else "results/lab/dmesg.txt is empty")


def wrong_use(report):
    cases = [("unknown-kernel", ["--backend", "vm", "--kernel", "no"]),
             ("uml-other-kernel", ["--kernel", "6.12"]), ("no-boot", ["--mem", "8M"])]
    if report.long:     # the archive is asked, which takes a minute
        cases.append(("unknown-series", ["--backend", "vm", "--kernel", "5.10"]))
    for name, options in cases:
        report.begin(name)
        status, _, err = lab_run(report, options, ["true"], timeout_s=300)
        refused(report, name, status, err)
    report.begin("unknown-backend")
    status, _, err = lab_run(report, ["--backend", "bochs"], ["true"])
    report.expect("unknown-backend", None if status and "bochs" in err.splitlines()[-1]
                  else f"status {status}", detail=err)


def two_at_once(report):
    report.begin("two-at-once")
    argv = [LAB, "run", "--timeout", "120", "--", "sh", "-c", 'sleep 3; echo "number $0"']
    children = [report.start([*argv, str(i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True) for i in range(2)]
    said = [child.communicate(timeout=300)[0] for child in children]
    report.children.difference_update(children)
    report.expect("two-at-once", None if said == ["number 0\n", "number 1\n"] else f"got {said}")


def leftovers(before):
    """The artifacts made since @before, and the content of tmp/."""
    folder = cache.cache_dir()
    tmp = os.path.join(folder, "tmp")
    half = sorted(os.listdir(tmp)) if os.path.isdir(tmp) else []
    return sorted(set(os.listdir(folder)) - before), half


def unheld(folder):
    """Whether no living process holds scratch folder @folder."""
    try:
        with cache.locked_folder(folder, fcntl.LOCK_NB):
            return True
    except (FileNotFoundError, BlockingIOError):
        return False


def interrupted(report):
    """A module build that is killed half way leaves nothing, and the next one makes it."""
    folder = tempfile.mkdtemp(prefix="interrupted-", dir=cache.cache_dir())
    try:
        copy_checkout(folder)
        marker = os.path.join(folder, "mq-k2", "k2_policy.h")
        with open(marker, "a", encoding="utf-8") as handle:
            handle.write(f"/* {time.time_ns()} */\n")
        before = set(os.listdir(cache.cache_dir()))
        argv = [os.path.join(folder, "tools/lab/lab"), "build", "--kernel", "uml"]
        for name, sig in (("interrupted", signal.SIGINT), ("killed", signal.SIGKILL)):
            report.begin(name)
            child = report.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            time.sleep(4)
            ended = child.poll() is not None
            os.killpg(child.pid, sig)
            _, err = child.communicate(timeout=60)
            report.children.discard(child)
            made, half = leftovers(before)
            made = [entry for entry in made
                    if entry.startswith("modules-uml") or entry.startswith("kernel-")]
            if ended:
                wrong = "the build was done before it could be interrupted"
            elif made:
                wrong = f"left {made}"
            elif sig == signal.SIGINT:
                wrong = f"left tmp/{half}" if "modules-uml" in half else sentence(err)
            else:
                wrong = None
            report.expect(name, wrong, detail=err)
        report.begin("built-again")
        status, out, err = report.command(argv, timeout_s=600)
        built = out.strip()
        kept = [entry for entry in leftovers(before)[1] if entry.startswith("source-")
                and unheld(os.path.join(cache.cache_dir(), "tmp", entry))]
        missing = not os.path.exists(os.path.join(built, "updates", "mq-k2.ko"))
        report.expect("built-again", f"status {status}" if status or missing else
                      f"left tmp/{kept}" if kept else None, detail=err)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def copy_checkout(target):
    from .guests import broken_copy
    broken_copy(target, "(?!)", "", "")


def bad_cache(report):
    """Caches that cannot be filled: the disk is full, no permission, or no network."""
    folder = tempfile.mkdtemp(prefix="mqfair-test-", dir=os.path.dirname(cache.cache_dir()))
    try:
        mount = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        offline = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
        env = {**os.environ, "XDG_CACHE_HOME": folder}
        report.begin("disk-full")
        script = ('mount -t tmpfs -o size=64m none "$0" && "$1" setup root; status=$?; '
                  'ls "$0/mqfair" "$0/mqfair/tmp"; exit $status')
        status, out, err = report.command([*mount, "sh", "-c", script, folder, LAB], env=env)
        refused(report, "disk-full", status,
                "\n".join(line for line in err.splitlines() if not line.startswith("ls: ")))
        report.expect("disk-full-leaves-nothing",
                      "left " + out if re.search(r"^root", out, re.M) else None)
        report.begin("no-network")
        status, _, err = report.command([*offline, LAB, "setup", "root"], env=env, timeout_s=300)
        refused(report, "no-network", status, err)
        left = [name for name in os.listdir(os.path.join(folder, "mqfair"))
                if name.startswith("root-")]
        report.expect("no-network-leaves-nothing", f"left {left}" if left else None)
        report.begin("no-cache")
        status, _, err = report.command([LAB, "setup", "root"],
                                        env={**os.environ, "XDG_CACHE_HOME": "/proc/nowhere"})
        refused(report, "no-cache", status, err)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


CASES = [streams([]), streams(VM), timeout, splats, wrong_use, two_at_once, interrupted, bad_cache]


def contract(report):
    for case in CASES:
        case(report)


GROUPS = [Group("lab", "what scripts expect of the lab, and how it fails", contract,
                kernels=("uml",))]
