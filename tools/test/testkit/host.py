# SPDX-License-Identifier: GPL-2.0
"""Groups that run in the lab's root filesystem, by `lab enter`; and LTTng, needing a guest."""
import glob
import os
import re
import shutil
import sys

from . import guests, ktap
from .report import CHECKOUT, LAB, Group

sys.path.insert(0, os.path.join(CHECKOUT, "tools", "lab"))
from labkit import cache, kernel        # noqa: E402
from labkit.root import base_root, enter_argv       # noqa: E402
from labkit.say import run_logged       # noqa: E402

ENTER = [LAB, "enter", "--"]
IN_GUEST = [LAB, "run", "--backend", "vm", "--kernel", "6.12", "--cpus", "2", "--virtual-time",
            "--timeout", "600"]
# All of them take long: the short run tries each eighth.
SOME_MUTANTS = "8"


def stock(series):
    """The headers of a stock kernel, as seen in the lab's root."""
    return kernel.headers_only(series).kdir


def check(report):
    """tools/check/run: each rule is a case."""
    report.begin("rules")
    argv = [*ENTER, "tools/check/run", "--kdir", stock("7.2"), *report.parts]
    status, out, err = report.command(argv)
    lines = out.splitlines()
    for i, line in enumerate(lines):
        verdict, _, rest = line.partition(" ")
        rule, _, reason = rest.strip().partition(" ")
        if verdict == "ok":
            report.ok(rule)
        elif verdict == "skip":
            report.skip(rule, reason.strip("()"))
        elif verdict == "FAIL":
            said = []
            for more in lines[i + 1:]:
                if not more.startswith("      "):
                    break
                said.append(more.strip())
            report.fail(rule, f"{len(said)} lines", detail="\n".join(said))
    if not report.total() or (status != 0) != (report.counts["FAIL"] > 0):
        report.fail("run", f"tools/check/run: status {status}", detail=err or out)
    if not report.parts:
        run_program(report, "selftest", ["env", f"KDIR={stock('7.2')}", "tools/check/selftest"])


def run_program(report, name, argv):
    """A program that is a test of its own: its status is the verdict, 77 means skipped."""
    report.begin(name)
    status, out, err = report.command([*ENTER, *argv], timeout_s=600)
    last = next((line for line in reversed((out + err).splitlines()) if line.strip()), "")
    if status == 77:
        report.skip(name, last)
    elif status == 0:
        report.ok(name, last)
    else:
        report.fail(name, f"status {status}: {last}", detail=out + err)


def hosted(report):
    """The KUnit suites in user space under sanitizers, and the mutants that they must notice."""
    report.begin("suites")
    status, out, err = report.command([*ENTER, "make", "-s", "-C", "kunit/hosted"])
    cases = ktap.cases(out)
    for name, verdict, reason in cases:
        report.case(verdict, name, reason, seconds=0)
    if not cases or (status != 0 and not report.counts["FAIL"]):
        report.fail("run", f"make -C kunit/hosted: status {status}", detail=out + err)
    report.begin("mutants")
    every = "1" if report.long else SOME_MUTANTS
    argv = [*ENTER, "env", f"EVERY={every}", "make", "-s", "-C", "kunit/hosted", "mutants"]
    status, out, err = report.command(argv, timeout_s=2400)
    found = re.findall(r"^(ok|not ok): (.*)$", out, re.M)
    for verdict, text in found:
        report.case("ok" if verdict == "ok" else "FAIL", "mutants", text, seconds=0)
    if not found or (status != 0 and not any(verdict != "ok" for verdict, _ in found)):
        report.fail("mutants", f"make -C kunit/hosted mutants: status {status}", detail=out + err)


def layout(report):
    """Altered layouts stop the build, on each kernel; kernels that we are not for are refused."""
    kdirs = {"6.12": stock("6.12"), "7.2": stock("7.2")}
    if report.long:
        kdirs["uml"] = kernel.get("uml").kdir
    for name, kdir in kdirs.items():
        report.begin(f"mutants for {name}")
        argv = [*ENTER, "tools/check/layout_mutants", kdir]
        status, out, err = report.command(argv, timeout_s=1200)
        last = (out.splitlines() or [""])[-1]
        if status == 0 and re.fullmatch(r"[1-9]\d* passed, 0 failed", last):
            report.ok(name, f"mutants: {last}")
        else:
            failures = "\n".join(re.findall("^FAIL.*", out, re.M))
            report.fail(name, f"status {status}: {last}", detail=failures or out + err)
    run_program(report, "refusals", ["tools/check/refusals", kdirs["7.2"]])
    run_program(report, "other-kernels",
                ["tools/check/other_kernels", *(["--modules"] if report.long else []),
                 kdirs["6.12"], kdirs["7.2"]])
    run_program(report, "in-tree", ["tools/check/in_tree", kernel.source(base_root())])


def tools_unit(report):
    """The tests that the tools bring along; and the manual, in which a warning is an error."""
    for path in ("tools/bench/test_bench", "tools/mqfair/test_device", "tools/mqfair/test_doctor",
                 "tools/mqfair/test_tune", "tools/mqfair/test_report",
                 "tools/mqfair/test_weights", "tools/test/test_run"):
        run_program(report, os.path.basename(path), [path])
    guests.tests_table(report)
    run_program(report, "answers", ["tools/bench/answers", "--check"])
    run_program(report, "documents", ["sphinx-build", "-q", "-W", "--keep-going",
                                      "Documentation", "/tmp/documents"])


def lttng_tracer(kdir):
    """A folder with LTTng's tracer, built for @kdir; kept in the cache."""
    program = os.path.join(CHECKOUT, "tools", "trace", "lttng", "build")
    with open(program, encoding="utf-8") as source:
        text = source.read()
    key = cache.key_of(text, kdir, *glob.glob("usr/src/lttng-modules-*", root_dir=base_root()))

    def make(path):
        argv = [program, kdir, "/tmp/modules", path]
        run_logged("lttng: building the tracer", enter_argv(base_root(), argv, [CHECKOUT], "/"),
                   os.path.join(cache.cache_dir(), "log", "lttng.log"))

    return cache.artifact("lttng", key, make, 300 << 20)


def lttng(report):
    """LTTng's tracer and our probes on Debian 13's stock kernel: build them, record in a guest."""
    folder = "results/test/lttng"
    shutil.rmtree(folder, ignore_errors=True)
    report.begin("tracer")
    tracer = lttng_tracer(stock("6.12"))
    run_program(report, "build", ["tools/trace/lttng/build", stock("6.12"), folder, tracer])
    if report.counts["FAIL"]:
        return
    report.begin("guest")
    argv = [*IN_GUEST, "--carry", folder, "--", "tools/trace/lttng/selftest", folder]
    status, out, err = report.command(argv, timeout_s=900)
    found = re.findall(r"^(ok|FAIL) (.*)$", out, re.M)
    for verdict, text in found:
        report.case(verdict, "guest", text, seconds=0)
    cost = re.search("^cost (.*)$", out, re.M)
    if status != 0 or not cost:
        report.fail("guest", f"status {status}", detail=out + err)
    else:
        report.ok("cost", cost[1])


GROUPS = [
    Group("check", "style and consistency rules", check),
    Group("hosted", "policies in user space under sanitizers, and their mutants", hosted),
    Group("tools-unit", "the tests that benchmarks and tools bring along, and the manual",
          tools_unit),
    Group("lttng", "LTTng records requests on stock 6.12, and what it has recorded can be read",
          lttng),
    Group("layout", "altered layouts and wrong kernels are refused", layout),
]
