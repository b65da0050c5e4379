# SPDX-License-Identifier: GPL-2.0
"""The group "lab": what other scripts expect of tools/lab/lab, and how it fails."""
import fcntl
import hashlib
import json
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
from labkit import cache, coherence     # noqa: E402
from labkit.say import LabError         # noqa: E402

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
    from .guests import copy_sources, sources
    copy_sources(target, sources())


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


def known_transfers(report):
    """The plugin that counts cache lines, on a machine whose transfers are known."""
    report.begin("coherence-known")
    status, _, err = report.command([LAB, "enter", "--", "qemu-system-x86_64", "--version"])
    if status != 0:
        report.skip("coherence-known", "the lab's root has no qemu-system-x86_64", detail=err)
        return False
    status, out, err = report.command([LAB, "enter", "--", "tools/lab/coherence/test/known"])
    wrong = [line for line in out.splitlines() if not line.startswith("ok ")]
    report.expect("coherence-known",
                  "; ".join(wrong) or (f"status {status}" if status else None), detail=err)
    if report.long:
        report.begin("coherence-mutants")
        status, out, err = report.command([LAB, "enter", "--", "tools/test/mutants",
                                           "tools/lab/coherence/test/mutants.table"],
                                          timeout_s=1800)
        wrong = [line for line in out.splitlines() if line.startswith("not ok")]
        report.expect("coherence-mutants", "; ".join(wrong) or
                      (f"status {status}" if status else None), detail=err)
    return True


def counted_guest(report):
    """A window around a command: the module's transfers are there, and a repeat has the same."""
    report.begin("coherence-guest")
    os.makedirs(os.path.join(CHECKOUT, "results"), exist_ok=True)
    path = os.path.join(CHECKOUT, f"results/counted.{os.getpid()}.json")
    script = ("modprobe null_blk submit_queues=2 irqmode=2 && modprobe mq-k2 && "
              "echo mq-k2 > /sys/block/nullb0/queue/scheduler && "
              "tools/lab/coherence/window.py reads --cause mq-k2 -- sh -c '"
              "for cpu in 0 1; do taskset -c $cpu dd if=/dev/nullb0 of=/dev/null bs=4k count=200 "
              "iflag=direct 2>/dev/null & done; wait'")
    texts = []
    for _ in range(2):
        status, _, err = lab_run(report, ["--backend", "vm", "--kernel", "6.12", "--virtual-time",
                                          "--coherence", path], ["sh", "-c", script])
        if status != 0:
            break
        with open(path, encoding="utf-8") as handle:
            texts.append(handle.read())
        os.unlink(path)
    wrong = f"status {status}"
    if status == 0:
        windows = json.loads(texts[0])["windows"]
        window = windows[0] if windows else {"name": "none"}
        dispatched = window.get("calls", {}).get("k2_dispatch_request [mq_k2]", 0)
        wrong = "; ".join(text for text, bad in (
            (f"windows {[found['name'] for found in windows]}", len(windows) != 1),
            (f"{dispatched} dispatches of 400 requests", dispatched < 400),
            ("no transfer is mq-k2's", not window.get("caused")),
            ("all transfers are mq-k2's", window.get("caused") == window.get("transfers")),
            (f"{window.get('cpus')} CPUs", window.get("cpus") != 2),
            ("a repeat has other counts", texts[0] != texts[1]),
            ("no line has a named site", not any(site["module"] == "mq_k2"
                                                 for line in window.get("lines", ())
                                                 for site in line["sites"])),
        ) if bad)
    report.expect("coherence-guest", wrong, detail=err)


def coherence_refusals(report):
    """Wrong use of --coherence, and logs without an end: a sentence each."""
    path = os.path.join(CHECKOUT, "results", "counted.json")
    virtual = ["--backend", "vm", "--kernel", "6.12", "--virtual-time"]
    for name, options in (("real-time", ["--coherence", path]),
                          ("cpus", [*virtual, "--cpus", "300", "--coherence", path]),
                          ("folder", [*virtual, "--coherence", "/nowhere/counted.json"])):
        report.begin(f"coherence-{name}")
        status, _, err = lab_run(report, options, ["true"], timeout_s=300)
        refused(report, f"coherence-{name}", status, err)
    for name, log, console, word in (
            ("never-closed", "open reads\n", "", "never closed"),
            ("cut-short", "window reads\ncpus 2 slice 100\n", "", "cut short"),
            ("other-level", "", "coherence: the plugin is built for level 4\n", "level 4"),
            ("not-loaded", "", "qemu: Could not load plugin x: version\n", "load plugin")):
        report.begin(f"coherence-{name}")
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "coherence", "symbols"))
            for where, text in (("coherence/log", log), ("console", console)):
                with open(os.path.join(folder, where), "w", encoding="ascii") as handle:
                    handle.write(text)
            try:
                coherence.finish(coherence.Coherence(path, 100), folder)
                wrong = "nothing was said"
            except LabError as error:
                wrong = None if word in str(error) else str(error)
        report.expect(f"coherence-{name}", wrong)


def window_ranges(report):
    """The code that a window names: a module's pages, and a built-in's functions."""
    report.begin("coherence-ranges")
    path = os.path.join(CHECKOUT, "tools/lab/coherence")
    symbols = ("ffffffff81000000 T a\nffffffff81000100 t dd_one\nffffffff81000180 t __pfx_dd_two\n"
               "ffffffff81000190 t dd_two\nffffffff810001a0 t deadline_three\n"
               "ffffffff810001a0 t alias\nffffffff810001c0 T b\nffffffff810002c0 t dd_cold\n"
               "ffffffff810002d0 T c\nffffffffc0001010 t f\t[mq_k2]\n"
               "ffffffffc0003010 T g\t[mq_k2]\nffffffffc0013010 d g\t[mq_k2]\n")
    script = ("import sys, window; sys.stdout.write(repr([window.ranges(sys.stdin.buffer.read(), "
              "sys.argv[1])]))")
    wrong = []
    for name, wanted in (("mq-deadline", [[0xffffffff81000100, 0xffffffff810001c0],
                                          [0xffffffff810002c0, 0xffffffff810002d0]]),
                         ("mq-k2", [(0xffffffffc0001000, 0xffffffffc0004000)]), ("kyber", [])):
        said = subprocess.run([sys.executable, "-B", "-c", script, name], cwd=path, input=symbols,
                              stdout=subprocess.PIPE, text=True, check=False).stdout
        wrong += [f"{name}: {said}"] if said != repr([wanted]) else []
    report.expect("coherence-ranges", "; ".join(wrong))


def counts(report):
    """Of what counts cache lines."""
    if known_transfers(report):
        counted_guest(report)
    window_ranges(report)
    coherence_refusals(report)


def repeats(report):
    """Under virtual time two runs print the same bytes, however busy the host is.

    What they print has the kernel's times, its interrupts, its scheduler's statistics and all of
    fio's figures. The first run is beside a busy program, the output of the second is taken late,
    and a run with another seed is the control: it has to differ.
    """
    report.begin("virtual-time-repeats")
    script = ("set -e; seq 60000; modprobe ssdsim queues=2; modprobe mq-mqfq; "
              "echo mq-mqfq > /sys/block/ssdsim0/queue/scheduler; "
              "fio --filename=/dev/ssdsim0 --direct=1 --ioengine=libaio --rw=randrw --iodepth=16 "
              "--numjobs=2 --time_based --runtime=1 --output-format=json --name=load; "
              "cat /proc/interrupts /proc/schedstat; head -c 16 /dev/urandom | od -x; dmesg; "
              "cat; pwd")
    options = ["--backend", "vm", "--kernel", "6.12", "--virtual-time"]
    outputs = []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as given, subprocess.Popen(
            ["sh", "-c", "while :; do :; done"]) as busy:
        given.write("input\n")
        given.flush()
        try:
            for reader, more in (("cat", []), ("sleep 30; cat", []), ("cat", ["--seed", "2"])):
                status, out, err = report.command(
                    ["bash", "-c", f'set -o pipefail; "$@" | {{ {reader}; }}', "-", LAB, "run",
                     *options, *more, "--stdin", given.name, "--", "sh", "-c", script],
                    timeout_s=600, cwd=os.path.join(CHECKOUT, "fio-jobs"))
                outputs.append(out)
                if status != 0:
                    report.fail("virtual-time-repeats", f"status {status}", detail=err)
                    return
                busy.kill()
        finally:
            busy.kill()
    first, second, other = outputs
    differ = [pair for pair in zip(first.splitlines(), second.splitlines()) if pair[0] != pair[1]]
    report.expect("virtual-time-repeats", "; ".join(text for text, bad in (
        (f"two runs differ: {differ[:1]}", first != second),
        ("another seed gives the same", first == other),
        ("fio has done nothing", not re.search('"total_ios" : [1-9]', first)),
        ("the input is not the file, or the folder not fio-jobs",
         not first.endswith("input\n/lab/checkout/fio-jobs\n")),
    ) if bad))


def sealed_refusals(report):
    """What a sealed guest cannot have: a sentence each."""
    virtual = ["--backend", "vm", "--kernel", "6.12", "--virtual-time"]
    for name, options, cwd, word in (
            ("kernel", ["--backend", "vm", "--kernel", "debug", "--virtual-time"], CHECKOUT,
             "stock kernel"),
            ("carry", [*virtual, "--carry", "no/such/file"], CHECKOUT, "no such path"),
            ("carry-outside", [*virtual, "--carry", "../shared"], CHECKOUT, "no such path"),
            ("stdin", [*virtual, "--stdin", "no/such/file"], CHECKOUT, "no such file"),
            ("real-time", ["--seed", "2"], CHECKOUT, "go with --virtual-time"),
            ("folder", virtual, "/", "from a folder in")):
        report.begin(f"sealed-{name}")
        status, _, err = lab_run(report, options, ["true"], timeout_s=300, cwd=cwd)
        report.expect(f"sealed-{name}", sentence(err) or
                      (None if status and word in err else f"status {status}, not '{word}'"),
                      detail=err)


CASES = [streams([]), streams(VM), timeout, splats, wrong_use, two_at_once, interrupted, bad_cache,
         counts, repeats, sealed_refusals]


def contract(report):
    for case in CASES:
        case(report)


GROUPS = [Group("lab", "what scripts expect of the lab, and how it fails", contract,
                kernels=("uml",))]
