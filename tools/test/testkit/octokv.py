# SPDX-License-Identifier: GPL-2.0
"""The key-value daemon: unit tests, the fuzzer's seeds, and the daemon with real clients.

All under the address and undefined-behaviour sanitizers; what goes from reactor to reactor under
the thread sanitizer as well. TLS is tested in guests, since the host's kernel may not have it, and
so are the units, as the host may have a systemd.
"""
import os
import re

from .host import ENTER, SOME_MUTANTS
from .report import CHECKOUT, LAB, Group
# The folder of labkit is in the path since .host.
from labkit.root import ADD_PACKAGES, base_root, derived_root, enter_argv
from labkit.say import LabError

BUILD = os.path.join(CHECKOUT, "results", "octokv")
FUZZ_S, FUZZ_LONG_S = 5, 600
# Cases of tools/octokv/test/daemon/run that have work for several reactors.
THREADED = ["redis_py", "moves", "spread", "strangers", "outage", "reload", "turns",
            "transactions", "renames", "bgsave", "metrics", "metrics_moves", "slowlog", "clients",
            "settings", "fair_moves"]
# Those that need TLS of the kernel: stock kernels have it as a module.
TLS_KERNELS = ["6.12", "7.2"]
TLS_CASES = ["tls_starts", "tls", "tls_ends", "tls_clients", "tls_reload", "tls_strangers",
             "tls_cluster", "tls_cluster_strangers", "tls_takeover"]
# Those that run the units in a systemd, where there is no other.
UNIT_CASES = ["unit", "unit_takeover"]
# Of these, the long run alone has those that take a minute or more of a guest for little else.
LONG_CASES = ["tls_cluster_strangers", "tls_takeover", "unit_takeover"]
# Slots that move in the cluster's longest case.
SLOTS, SLOTS_LONG = 500, 2000
# Those that take a RAID1 of the kernel.
RAID_CASES = ["mirror"]
GO_PACKAGES = "golang-go golang-github-mna-redisc-dev"


def make(*targets):
    return [*ENTER, "nice", "make", "-s", "-C", "tools/octokv", *targets]


def unit(report):
    """The unit tests: a line `ok NAME: text` each."""
    report.begin("unit tests")
    status, out, err = report.command(make("check"))
    found = re.findall(r"^ok (\S+): (.*)$", out, re.M)
    for name, text in found:
        report.ok(f"unit/{name}", text, seconds=0)
    if status != 0 or not found:
        report.fail("unit", f"make check: status {status}", detail=out + err)


def mutants(report, half):
    """Each mutant is a case; @half is server or store.

    The lines are `ok: HALF mutant: NAME: what noticed` and `not ok: HALF mutant: NAME: why`.
    """
    report.begin("mutants")
    every = "1" if report.long else SOME_MUTANTS
    status, out, err = report.command(make(f"{half}-mutants", f"EVERY={every}"), timeout_s=1800)
    found = re.findall(rf"^(ok|not ok): {half} mutant: (.*?): (.*)$", out, re.M)
    for verdict, name, text in found:
        report.case("ok" if verdict == "ok" else "FAIL", f"mutant/{name}", text, seconds=0)
    if not found or (status != 0 and all(verdict == "ok" for verdict, *_ in found)):
        report.fail("mutants", f"status {status}", detail=out + err)


def fuzz(report, target):
    """libFuzzer over the seeds, and a little further."""
    report.begin(target)
    seconds = FUZZ_LONG_S if report.long else FUZZ_S
    argv = make(target, f"FUZZ_SECONDS={seconds}")
    status, out, err = report.command(argv, timeout_s=4 * seconds + 300)
    runs = re.findall(r"stat::number_of_executed_units: (\d+)", out + err)
    if status == 0 and runs:
        report.ok(target, f"{runs[0]} inputs in {seconds} s")
    else:
        report.fail(target, f"status {status}; the input is in results/octokv", detail=out + err)


def daemon(report, kind, cases, build=BUILD):
    """tools/octokv/test/daemon/run: a line `ok NAME SECONDS text` or `not ok ...` each."""
    report.begin(f"daemon, {kind}")
    environment = ["env", f"OCTOKVD={build}/octokvd-{kind}", f"ROUNDS={30 if report.long else 4}",
                   f"SLOTS={SLOTS_LONG if report.long else SLOTS}"]
    argv = [*ENTER, *environment, "tools/octokv/test/daemon/run", build, *cases]
    judge(report, kind, *report.command(argv, timeout_s=1800))


def in_guest(report, kernel, build, cases):
    """The same on a stock kernel. Its files are in memory there."""
    kind = f"{build}-{kernel}"
    report.begin(f"daemon, {kind}")
    argv = [LAB, "run", "--backend", "vm", "--kernel", kernel, "--mem", "4G", "--timeout", "1500",
            "--", "sh", "-c",
            'modprobe tls && "$@"', "sh", "env", f"OCTOKVD=results/octokv/octokvd-{build}",
            "tools/octokv/test/daemon/run", "/tmp", *cases]
    judge(report, kind, *report.command(argv, timeout_s=1800))


def judge(report, kind, status, out, err):
    found = re.findall(r"^(ok|not ok) (\S+) ([\d.]+) (.*)$", out, re.M)
    for verdict, name, seconds, text in found:
        report.case("ok" if verdict == "ok" else "FAIL", f"{kind}/{name}", text,
                    seconds=float(seconds), detail=err)
    if not found or (status != 0 and all(verdict == "ok" for verdict, *_ in found)):
        report.fail(f"{kind}", f"test/daemon/run: status {status}", detail=out + err)


def named(report):
    """The cases that were named: NAME, or KIND/NAME as the lines of results have it."""
    wanted = {}
    for part in report.parts:
        kind, _, name = part.rpartition("/")
        needs_guest = name in TLS_CASES + UNIT_CASES + RAID_CASES
        usual = [f"asan-{kernel}" for kernel in TLS_KERNELS] if needs_guest else ["asan"]
        for kind in [kind] if kind else usual:
            wanted.setdefault(kind, []).append(name)
    for kind, names in wanted.items():
        build, _, kernel = kind.partition("-")
        if build not in ("asan", "tsan"):
            report.fail(kind, "cases that can be named are NAME, asan/NAME, tsan/NAME, "
                              "asan-KERNEL/NAME and tsan-KERNEL/NAME")
        elif kernel:
            in_guest(report, kernel, build, names)
        else:
            daemon(report, build, names)


def octokv(report):
    """All of it, or the cases of the daemon that are named."""
    report.begin("build")
    status, out, err = report.command(make("all", "daemon-test"))
    report.expect("build", None if status == 0 else f"status {status}", detail=out + err)
    if status != 0:
        return
    if report.parts:
        named(report)
        return
    unit(report)
    mutants(report, "server")
    fuzz(report, "fuzz")
    fuzz(report, "fuzz-files")
    daemon(report, "asan", [])
    daemon(report, "tsan", THREADED)
    in_guests = [name for name in TLS_CASES + UNIT_CASES if report.long or name not in LONG_CASES]
    for kernel in TLS_KERNELS if report.long else TLS_KERNELS[-1:]:
        in_guest(report, kernel, "asan", in_guests)
    if report.long:
        in_guest(report, TLS_KERNELS[-1], "tsan", TLS_CASES)
        in_guest(report, TLS_KERNELS[-1], "asan", RAID_CASES)


def octokv_go(report):
    """The cluster with a client in Go, whose packages are in a root of their own.

    The folder is another one than that of the group octokv, which may be built at the same time.
    """
    base = base_root()
    report.begin("packages")
    try:
        root = derived_root(base, "with-go", ADD_PACKAGES, GO_PACKAGES)
    except LabError as error:
        report.skip("packages", str(error))
        return
    report.begin("build")
    argv = ["nice", "make", "-s", "-C", "tools/octokv", "BUILD=../../results/octokv-go", "go-test"]
    status, out, err = report.command(enter_argv(root, argv, [CHECKOUT], CHECKOUT))
    report.expect("build", None if status == 0 else f"status {status}", detail=out + err)
    if status == 0:
        daemon(report, "asan", ["cluster_redisc"], f"{BUILD}-go")


GROUPS = [
    Group("octokv", "octokvd: unit tests, fuzzing, and the daemon with real clients and wrong use",
          octokv),
    Group("octokv-go", "octokvd's cluster with redisc, a client in Go, while slots move",
          octokv_go, long=True),
]
