# SPDX-License-Identifier: GPL-2.0
"""Groups that run in guests: the list on every kernel, KUnit, ssdsim, broken builds, other series.

A guest is booted once per kernel and runs tools/test/guest, which reports its progress in lines
that start with "@".
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from . import ktap, plan
from .report import CHECKOUT, LAB, Group, end

sys.path.insert(0, os.path.join(CHECKOUT, "tools", "lab"))
from labkit import cache, guest      # noqa: E402
from labkit.root import base_root, enter_argv       # noqa: E402

SPLAT_STATUS, TIMEOUT_STATUS = guest.SPLAT, guest.TIMED_OUT
BOOT_S, LIST_S, LIST_LONG_S = 300, 2700, 7200
# Reasons of tools/test/guest after which a test is not tried again.
FINAL = ("the kernel reported", "not done after")


class Listing:
    """Follows one run of tools/test/guest and reports its cases."""

    def __init__(self, report, prefix=""):
        self.report, self.prefix = report, prefix
        self.planned, self.done, self.about, self.failed, self.hung = [], set(), {}, 0, ""
        self.detail = []
        # Failed by wrong output: not by a hang, or a report of the kernel.
        self.wrong = []

    def read(self, line):
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "@plan":
            self.planned = rest.split()
            self.report.planned += len(self.planned)
        elif word == "@note":
            self.report.note(self.prefix + rest)
        elif word == "@start":
            name, _, self.about[name] = rest.partition(" ")
            self.report.begin(name)
        elif word == "@detail":
            self.detail.append(rest)
        elif word == "@hang":
            self.hung = f"; the guest ended because {rest} cannot be killed"
        elif word == "@done":
            name, verdict, seconds, *reason = rest.split(" ", 3)
            self.done.add(name)
            self.failed += verdict == "FAIL"
            if verdict == "FAIL" and not "".join(reason).startswith(FINAL):
                self.wrong.append(name)
            text = ": ".join(filter(None, [self.about.get(name, ""), *reason]))
            self.report.case(verdict, self.prefix + name, text, seconds=float(seconds),
                             detail="\n".join(self.detail))
            self.detail = []

    def finish(self, status, log_tail):
        """The guest has ended: a test that did not run has failed, and so has a broken guest."""
        why = {SPLAT_STATUS: "the kernel reported a fault",
               TIMEOUT_STATUS: "the guest's time was up",
               None: "the lab did not end"}.get(status, f"the lab ended with status {status}")
        missing = [name for name in self.planned if name not in self.done]
        for name in missing:
            self.report.fail(self.prefix + name, f"did not run to its end: {why}{self.hung}",
                             seconds=0)
        if not self.planned:
            self.report.fail(self.prefix + "boot", why, detail=log_tail)
        elif status != 0 and not self.failed and not missing:
            self.report.fail(self.prefix + "guest", why, detail=log_tail)


def run_list(report, lab, options, arguments, prefix="", limit_s=LIST_S, cwd=CHECKOUT):
    """Run tools/test/guest with @arguments in a guest; returns the Listing."""
    listing = Listing(report, prefix)
    argv = [lab, "run", *options, "--timeout", str(limit_s), "--",
            "tools/test/guest", "--splat", guest.SPLAT_RE.pattern, *arguments]
    report.begin("boot")
    with open(report.log_path, "ab") as log:
        log.write(f"$ {' '.join(options)} {' '.join(arguments)}\n".encode())
        log.flush()
        at = log.tell()
        child = report.start(argv, stdout=subprocess.PIPE, stderr=log, text=True, errors="replace",
                             cwd=cwd)
        watchdog = threading.Timer(limit_s + BOOT_S, end, [child])
        watchdog.start()
        for line in child.stdout:
            listing.read(line)
        status = child.wait()
        watchdog.cancel()
    report.children.discard(child)
    with open(report.log_path, encoding="utf-8", errors="replace") as log:
        log.seek(at)
        tail = log.read()[-4000:]
    for name in re.findall(r"^==== (\S+)$", tail, re.M)[-1:]:
        report.note(f"{prefix}{name}: its output is in results/test/{report.name}.log")
    listing.finish(status, tail)
    return listing


def say_shared(report, planned):
    """Note what the short run leaves to other kernels and schedulers."""
    if planned.other_schedulers:
        report.note(f"{planned.other_schedulers} more are not run here: the short run has each "
                    "test of every scheduler with one scheduler per kernel; --long has all")
    if planned.other_kernel:
        report.note(f"{planned.other_kernel} tests are not run here: the short run has them on "
                    "another kernel; --long runs all tests on all kernels")


def guest_list(*options, only="", share=None):
    """A group's function: the list on one kernel; @share: the short run's part of it."""
    def run(report):
        planned = plan.plan(report.long, share, only, report.parts)
        if not planned.runs:
            report.fail("plan", f"there is no such test: {' '.join(report.parts)}")
            return
        say_shared(report, planned)
        arguments = ["--long" if report.long else "--second-try", *planned.runs]
        limit_s = LIST_LONG_S if report.long else LIST_S
        guest_options = ["--cpus", "4", *options]
        wrong = run_list(report, LAB, guest_options, arguments, limit_s=limit_s).wrong
        if wrong and not report.long:
            report.when_alone = lambda again: run_list(again, LAB, guest_options, wrong)
    return run


def kunit(report):
    """The KUnit suites, by loading their module in User-Mode Linux."""
    report.begin("boot")
    script = "modprobe mqfair_kunit || exit 1; cat /sys/kernel/debug/kunit/*/results"
    status, out, err = report.command([LAB, "run", "--timeout", "300", "--", "sh", "-c", script])
    cases = ktap.cases(out)
    for name, verdict, reason in cases:
        report.case(verdict, name, reason, seconds=0)
    if not cases or status != 0:
        report.fail("module", f"lab run ended with status {status}", detail=err + out)


def ssdsim(report):
    """ssdsim's own tests; under virtual time a load is measured against its closed forms."""
    folder = "tools/ssdsim/test"
    if not os.path.isdir(os.path.join(CHECKOUT, folder)):
        report.skip("all", f"{folder} is not in this tree")
        return
    vm = ["--backend", "vm", "--kernel", "7.2", "--virtual-time"]
    programs = sorted(os.path.basename(path) for path in glob.glob(f"{CHECKOUT}/{folder}/*")
                      if "." not in os.path.basename(path) and os.access(path, os.X_OK))
    unknown = [part for part in report.parts if part not in programs]
    for name in unknown:
        report.fail(name, f"{folder} has no such test")
    timed = ["closed_forms"]
    for options, names in (([], [name for name in programs if name not in timed]), (vm, timed)):
        names = [name for name in names if not report.parts or name in report.parts]
        if names:
            arguments = ["--second-try", "--scripts", folder, *names]
            run_list(report, LAB, ["--cpus", "4", *options], arguments, limit_s=2 * LIST_S)


# ---- mutants: builds that are broken on purpose, and the test that must notice ----

# name, file, pattern, replacement, test, whether the normal run has it
MUTANTS = [
    ("a completion wakes nobody", "mq-k2/k2_policy.h", r"return left \+ 1 == [^;]*;",
     "return (void)left, false;", "k2/lost_wakeup", True),
    ("the bound is one too high", "mq-k2/k2_policy.[ch]", r"READ_ONCE\(p->max_inflight\)",
     "(READ_ONCE(p->max_inflight) + 1)", "k2/max_inflight", True),
    ("the least urgent goes first", "mq-k2/k2_policy.c", r"__ffs\(p->nonempty\)",
     "__fls(p->nonempty)", "k2/strict_priority", False),
    ("last in, first out", "mq-k2/k2_policy.c", r"list_add_tail\(", "list_add(",
     "k2/strict_priority", False),
    ("be_max_delay_ms does nothing", "mq-k2/k2_policy.c", r"if \(k2_policy_be_overdue\(",
     "if (0 && k2_policy_be_overdue(", "k2/starvation", False),
    ("a requeued request keeps its slot", "mq-k2/k2.c",
     r"(requeued\[kr->queue\]\);\n\tif \(slot_is_held\(rq\) && )k2_policy_release\(&k2->policy\)",
     r"\g<1>0", "every/requeue_and_fail/mq-k2", False),
    ("a polled request keeps its slot", "lib/blk/slot.h", r"return rq->mq_hctx->type != [^;]*;",
     "return (void)rq, true;", "every/unpolled/mq-k2", False),
    ("a completion is not counted", "mq-k2/k2.c",
     r"\tthis_cpu_inc\(k2->cpu_counters->completed[^;]*;\n", "", "every/kill_tasks/mq-k2", False),
    ("a store takes what is too large", "lib/blk/tunable.h", r" \|\| \*value > max", "",
     "every/tunables_refuse/mq-k2", False),
    ("merges are not counted", "mq-k2/k2.c", r"\tk2->merged\[kr->queue\]\+\+;\n", "",
     "every/merge/mq-k2", False),
    ("mq-mqfq: a wait that ends runs no queue", "mq-mqfq/mqfq_slots.c",
     r"\tmq->policy->ops->run\([^;]*;\n", "", "mqfq/lost_wakeup", False),
    ("mq-mqfq: a polled request keeps its slot", "lib/blk/slot.h",
     r"return rq->mq_hctx->type != [^;]*;", "return (void)rq, true;", "every/unpolled/mq-mqfq",
     False),
    ("mq-mqfq: nobody is throttled", "mq-mqfq/mqfq_policy.c",
     r"return mqfq_may_go_ahead\(mq, e\);", "return mqfq_may_go_ahead(mq, e) || true;",
     "mqfq/share_by_weight", False),
    ("mq-mqfq: a throttled queue is forgotten", "mq-mqfq/mqfq_slots.c",
     r"(void mqfq_end_throttle\([^}]*?\n\n)", r"\g<1>\treturn;\n",
     "mqfq/lost_wakeup", False),
    ("mq-tabs: what is held is never overdue", "mq-tabs/tabs_policy.c",
     r"return now_ns > since_ns && [^;]*;",
     "return (void)now_ns, (void)since_ns, (void)max_ns, (void)spare_ns, false;",
     "tabs/max_delay", False),
    ("mq-tabs: what may go wakes nobody", "mq-tabs/tabs.c",
     r"\thctx_wake\(td->hctx[^;]*;\n", "\t(void)td;\n",
     "tabs/lost_wakeup", False),
    ("mq-tabs: the former scheduler's way to run queues stays", "mq-tabs/tabs.c",
     r"\thctx_run_each\([^;]*;\n", "", "every/nvme_reset_after_switch/mq-tabs", False),
    ("no alias to load it by", "mq-k2/k2.c", r'MODULE_ALIAS\("mq-k2-iosched"\);\n', "",
     "every/load_by_name/mq-k2", False),
]


def sources():
    """The names of the checkout's files."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=CHECKOUT,
                            stdout=subprocess.PIPE, text=True, check=False).stdout.split("\0")
    return [name for name in listed if os.path.isfile(os.path.join(CHECKOUT, name))]


def edited(names, pattern, old, new):
    """{name: text} of those files that @pattern names and that replacing @old changes."""
    changed = {}
    for name in names:
        if re.fullmatch(pattern.replace(".[ch]", r"\.[ch]"), name):
            with open(os.path.join(CHECKOUT, name), encoding="utf-8") as handle:
                text = handle.read()
            altered = re.sub(old, new, text)
            if altered != text:
                changed[name] = altered
    return changed


def copy_sources(target, names, changed=()):
    """Copy the files @names of the checkout to @target, with the texts in {name: text} @changed."""
    for name in names:
        copy = os.path.join(target, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy2(os.path.join(CHECKOUT, name), copy)
    for name in changed:
        with open(os.path.join(target, name), "w", encoding="utf-8") as handle:
            handle.write(changed[name])


class Unheard:
    """Stands in for a report: the verdicts on a broken build are not the result."""

    def __init__(self, report):
        self.log_path, self.children, self.start = report.log_path, report.children, report.start
        self.name, self.planned, self.verdicts = report.name, 0, []

    def begin(self, _what):
        pass

    def note(self, _text):
        pass

    def case(self, verdict, name, text="", seconds=0, detail=""):
        del name, seconds, detail
        self.verdicts.append((verdict, text))

    def fail(self, name, text, seconds=0, detail=""):
        """The guest did not boot or ended early; this is not the verdict of a test."""
        del detail
        self.case("ended", name, text, seconds)


def mutants(report):
    """Broken builds of the schedulers in User-Mode Linux: the named test has to fail, each time.

    The short run builds few of them, but sees whether each edit still finds its place.
    """
    names = sources()
    for name, pattern, old, new, test, quick in MUTANTS:
        if report.parts and not any(plan.is_part(test, part) for part in report.parts):
            continue
        report.begin(name)
        changed = edited(names, pattern, old, new)
        if not changed:
            report.fail(test, f"{name}: the edit found nothing to change in {pattern}")
        elif quick or report.long or report.parts:
            try_mutant(report, name, names, changed, test)


def try_mutant(report, name, names, changed, test):
    """Run @test on a build in which the files in @changed are broken; it has to fail."""
    folder = tempfile.mkdtemp(prefix="mutant-", dir=cache.cache_dir())
    try:
        copy_sources(folder, names, changed)
        heard = Unheard(report)
        run_list(heard, os.path.join(folder, "tools/lab/lab"), ["--cpus", "4"],
                 plan.plan(named=[test]).runs, limit_s=400, cwd=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    failures = [text for verdict, text in heard.verdicts if verdict == "FAIL"]
    if failures:
        report.ok(test, f"{name}: noticed ({failures[0][:120]})")
    else:
        report.fail(test, f"{name}: not noticed by {test} ({heard.verdicts})")


# ---- the other kernel series in the archive ----

SERIES_SCRIPT = r"""
work=$(mktemp -d)
mkdir -p "$work/lists/partial" "$work/cache"
apt-get -qq -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" \
	-o APT::Sandbox::User=root update >&2
apt-cache -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" pkgnames linux-headers- |
	sed -n 's/^linux-headers-\([0-9]*\.[0-9]*\)\.[0-9.]*+deb13\(\.[0-9]*\)\?-amd64$/\1/p' |
	sort -uV
rm -rf "$work"
"""
SMOKE = ["every/load_unload", "every/load_twice", "every/load_by_name", "every/switch_under_load",
         "every/tunables_refuse"]
# Where locks sleep and requests are completed in threads.
STRESS = ["every/mixed_load", "every/tunables_under_load", "every/debugfs_while_switching",
          "every/unload_while_used", "every/kill_tasks", "every/remove_null_blk",
          "every/remove_ssdsim", "every/requeue_and_fail", "every/hw_queues_null_blk",
          "k2/lost_wakeup", "mqfq/lost_wakeup", "mqfq/remove_while_throttled", "tabs/lost_wakeup",
          "octofas/switch_while_moving"]


def smoke(report, name, named=()):
    """Build for the kernel @name; on it a few tests and those of @named, if a guest can boot it."""
    report.begin(f"{name} build")
    status, out, err = report.command([LAB, "build", "--kernel", name])
    report.expect(f"{name}-build", None if status == 0 else f"status {status}", detail=out + err)
    vm = ["--backend", "vm", "--kernel", name]
    argv = [LAB, "run", *vm, "--timeout", "300", "--", "uname", "-r"]
    status, out, err = report.command(argv)
    if status != 0 and "no guest can boot it" in " ".join(err.split()):
        report.skip(f"{name}-smoke", err.strip().splitlines()[-1].removeprefix("lab: "))
    else:
        run_list(report, LAB, [*vm, "--cpus", "4"], plan.plan(named=[*SMOKE, *named]).runs,
                 prefix=f"{name}/")


def numbers(name):
    """A series as a tuple of numbers; empty if @name is no series."""
    return tuple(map(int, name.split("."))) if re.fullmatch(r"\d+\.\d+", name) else ()


def series(report):
    """Every series in the archive that is newer than the tested ones: build, load, smoke test."""
    report.begin("list of series")
    argv = enter_argv(base_root(), ["sh", "-c", SERIES_SCRIPT], [], "/", network=True)
    status, out, err = report.command(argv, timeout_s=300)
    tested = max(map(numbers, (*SHARES, *LONG_SHARES)))
    names = [name for name in out.split() if numbers(name) > tested]
    if status != 0 or "6.12" not in out.split():
        report.fail("list", "cannot list the kernel series of the archive", detail=err)
        return
    if not names:
        report.skip("list", f"the archive has no series newer than {'.'.join(map(str, tested))}")
    for name in names:
        smoke(report, name)


def flavours(report):
    """Debian's other flavours of 6.12: build, load, smoke test; stress where locks sleep."""
    for name in report.parts or ("6.12-cloud", "6.12-rt"):
        smoke(report, name, STRESS if name.endswith("-rt") else ())


def lines_of(report, program, limit_s=3600):
    """A program below tools/ that prints a line for each check; its parts are its arguments.

    The line is `ok NAME`, `FAIL NAME: why` or `skip NAME: why`.
    """
    report.begin(program)
    argv = [os.path.join(CHECKOUT, "tools", program), *report.parts]
    status, out, err = report.command(argv, timeout_s=limit_s)
    for line in out.splitlines():
        verdict, _, rest = line.partition(" ")
        if verdict in ("ok", "FAIL", "skip"):
            report.case("SKIP" if verdict == "skip" else verdict, "check", rest, seconds=0)
    if status != 0 and not report.counts["FAIL"]:
        report.fail(program, f"status {status}", detail=out + err)


def packages(report):
    """The Debian packages: install, boot, a kernel arrives, remove."""
    lines_of(report, "package/test_packages")


def recipes(report):
    """The tarball, and the recipes for Debian, Arch Linux and RPM."""
    lines_of(report, "package/test_recipes")


def upstream(report):
    """Our patches for the kernel: they apply, please checkpatch, and save what we say."""
    lines_of(report, "check/upstream", limit_s=3 * 3600)


# Tests in which modules, devices, hardware queues and CPUs come and go.
LIFE = (r"^every/(?:load_|unload_|switch_|nr_requests|cpu_hotplug|hw_queues_|remove_|"
        r"nvme_tcp_reset|single_tag)")
# In the short run, User-Mode Linux has the whole list. With KASAN and lockdep it has the tests that
# look for races and use after free. Each stock kernel of the short run has half of the list,
# because emulation is slow. The turns differ, so that a test of every scheduler runs with three of
# the four.
DEBUG_SHARE = plan.Share(turn=0, slow=True)
SHARE_6_12 = plan.Share(turn=1, stock="6.12")
SHARE_7_2 = plan.Share(turn=2, stock="7.2")
# The newest series is in the long run only, with every test and every scheduler. Named by itself it
# runs every test that is not of the long run, each with one scheduler.
SHARE_7_3 = plan.Share(turn=3)
UML_SHARE = plan.Share(turn=3, thorough=True)

SHARES = {"6.12": SHARE_6_12, "7.2": SHARE_7_2, "uml": UML_SHARE, "uml-debug": DEBUG_SHARE}
LONG_SHARES = {"7.3": SHARE_7_3}
HALVES = {"debug-life": LIFE, "debug": ""}
TABLE = os.path.join(CHECKOUT, "Documentation", "design", "tests.inc")


def tests_table(report):
    """The manual's table of tests and kernels is what the heads of the tests say."""
    report.begin("table")
    with open(TABLE, encoding="utf-8") as handle:
        same = handle.read() == plan.table({**SHARES, **LONG_SHARES}, HALVES)
    report.expect("table", None if same else "tests.inc is old: run tools/test/run --table")


def vm_group(name, about, kernel, long=False, kernels=(), **selection):
    """The list on @kernel in QEMU."""
    run = guest_list("--backend", "vm", "--kernel", kernel, **selection)
    return Group(name, about, run, long=long, kernels=kernels)


def debug_group(name, about, only):
    """Half of the list on the debug kernel: it is long, so two guests run it side by side."""
    return vm_group(name, f"the list on 7.2 with KASAN and lockdep in QEMU: {about}", "debug",
                    long=True, kernels=("debug",), only=only, share=DEBUG_SHARE)


GROUPS = [
    vm_group("7.2", "the list on stock 7.2", "7.2", share=SHARE_7_2),
    Group("uml", "the list on User-Mode Linux 7.2", guest_list(share=UML_SHARE), kernels=("uml",)),
    vm_group("6.12", "the list on stock 6.12", "6.12", share=SHARE_6_12),
    Group("uml-debug", "the list on User-Mode Linux 7.2 with KASAN and lockdep",
          guest_list("--kernel", "debug", share=DEBUG_SHARE), kernels=("uml-debug",)),
    Group("kunit", "the KUnit suites in User-Mode Linux", kunit, kernels=("uml",)),
    Group("ssdsim", "ssdsim on User-Mode Linux, and against its closed forms in virtual time",
          ssdsim, kernels=("uml",)),
    Group("mutants", "broken builds of the schedulers that the tests must notice", mutants,
          kernels=("uml",)),
    debug_group("debug", "drivers, file systems, policies", f"^(?!{LIFE[1:]})"),
    debug_group("debug-life", "removals, switches, hardware queues", LIFE),
    vm_group("kcsan", "the list on 7.2 with the concurrency sanitizer and kmemleak", "kcsan",
             long=True, kernels=("kcsan",)),
    Group("packages", "the Debian packages: upgrade, install, boot, a kernel arrives, remove",
          packages, long=True),
    Group("recipes", "tarball and recipes for Debian, Arch and RPM: build twice, lint, install",
          recipes, long=True),
    Group("flavours", "Debian's cloud and real-time flavours of 6.12: build, smoke, stress",
          flavours, long=True),
    vm_group("7.3", "the list on stock 7.3", "7.3", long=True, share=SHARE_7_3),
    Group("series", "kernel series of the archive that no other group tests", series, long=True),
    Group("uml-upstream", "the list on User-Mode Linux 7.2 with our patches for the kernel",
          guest_list("--kernel", "upstream", share=UML_SHARE), long=True,
          kernels=("uml-upstream",)),
    Group("upstream", "our patches for the kernel: they apply, and save what we say", upstream,
          long=True),
]
