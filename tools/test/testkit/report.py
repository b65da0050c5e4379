# SPDX-License-Identifier: GPL-2.0
"""Groups of cases: how they run, and what they print.

A group is a function that gets a Report and calls ok(), fail() and skip() on it. Two groups run at
a time, each in a thread. A group that raises or reports nothing has failed.
"""
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Callable

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(CHECKOUT, "tools", "lab"))
from labkit.say import end_group        # noqa: E402

LAB = os.path.join(CHECKOUT, "tools", "lab", "lab")
LOGS = os.path.join(CHECKOUT, "results", "test")
SIDE_BY_SIDE = 2
PROGRESS_S = 30
DETAIL_LINES, FAILED_COLUMNS = 40, 200
ALONE = "alone, after it had failed twice"


@dataclass(frozen=True)
class Group:
    """A kind of test, or a kernel to test on."""
    name: str
    about: str
    run: Callable               # run(report)
    long: bool = False
    kernels: tuple = ()         # what the lab must have for it


class Report:
    """What one group has found so far."""

    def __init__(self, group, parts, long_run):
        self.name, self.parts, self.long = group.name, parts, long_run
        self.lines, self.counts = [], {"ok": 0, "FAIL": 0, "SKIP": 0}
        self.failed = []
        # What to do with nothing beside it when all groups have ended, and whether that is now.
        self.when_alone, self.is_alone = None, False
        self.now, self.planned, self.started = "", 0, time.monotonic()
        self.mark = self.started
        self.log_path = os.path.join(LOGS, f"{group.name}.log")
        self.children = set()

    def begin(self, what):
        """@what runs from now on, for the line of progress; starts the case's clock."""
        self.now, self.mark = what, time.monotonic()

    def note(self, text):
        self.lines.append(f"      {self.name}: {text}")

    def case(self, verdict, name, text="", seconds=None, detail=""):
        """Add the verdict on one case."""
        seconds = time.monotonic() - self.mark if seconds is None else seconds
        if self.is_alone:
            self.forget_failure(name)
            text = "; ".join(filter(None, [text, ALONE]))
        self.counts[verdict] += 1
        about = f"  {text}" if text else ""
        self.lines.append(f"{verdict:5} {self.name}/{name}{about}  ({seconds:.1f} s)")
        if verdict == "FAIL":
            self.failed.append((name, about))
        if verdict == "FAIL" and detail:
            self.lines += ["      | " + line for line in detail.splitlines()[-DETAIL_LINES:]]
        self.now, self.mark = "", time.monotonic()

    def forget_failure(self, name):
        """The case @name has failed and is judged again."""
        others = [failure for failure in self.failed if failure[0] != name]
        self.counts["FAIL"] -= len(self.failed) - len(others)
        self.failed = others

    def ok(self, name, text="", **more):
        self.case("ok", name, text, **more)

    def fail(self, name, text, **more):
        self.case("FAIL", name, text, **more)

    def skip(self, name, reason, **more):
        self.case("SKIP", name, reason, **more)

    def expect(self, name, complaint, detail=""):
        """Passed if there is no @complaint."""
        if complaint:
            self.fail(name, complaint, detail=detail)
        else:
            self.ok(name)

    def state(self):
        """What runs, and how far it is, for the line of progress."""
        planned = f"/{self.planned}" if self.planned else ""
        now = f" ({self.now}, {time.monotonic() - self.mark:.0f} s)" if self.now else ""
        return f"{self.name} {self.total()}{planned}{now}"

    def total(self):
        return sum(self.counts.values())

    def start(self, argv, **popen):
        """A child in a session of its own: end_children() can end it with everything below it."""
        popen.setdefault("cwd", CHECKOUT)
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True, **popen)
        self.children.add(child)
        return child

    def command(self, argv, timeout_s=900, **popen):
        """Run @argv; returns (status, stdout, stderr), status None after @timeout_s."""
        popen.setdefault("text", True)
        child = self.start(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **popen)
        try:
            out, err = child.communicate(timeout=timeout_s)
            status = child.returncode
        except subprocess.TimeoutExpired:
            end(child)
            out, err = child.communicate()
            status = None
        self.children.discard(child)
        with open(self.log_path, "a", encoding="utf-8", errors="replace") as log:
            log.write(f"$ {' '.join(argv)}\n{show(out)}{show(err)}[status {status}]\n")
        return status, out, err

    def end_children(self):
        for child in list(self.children):
            end(child)


def show(output):
    return output if isinstance(output, str) else f"[{len(output)} bytes]\n"


def end(child):
    """End @child and what it started; first by a signal that lets it clean up."""
    end_group(child, signal.SIGINT, grace_s=15)


class Session:
    """All groups of one call."""

    def __init__(self, chosen, long_run):
        self.waiting = [(group, Report(group, parts, long_run)) for group, parts in chosen]
        self.reports = [report for _, report in self.waiting]
        self.running, self.lock, self.is_over = [], threading.Lock(), False

    def worker(self):
        while True:
            with self.lock:
                if not self.waiting:
                    return
                group, report = self.waiting.pop(0)
            self.run_and_print(group.run, report)

    def run_and_print(self, group, report):
        with self.lock:
            self.running.append(report)
        self.run_group(group, report)
        with self.lock:
            self.running.remove(report)
            self.print_group(report)

    @staticmethod
    def run_group(group, report):
        report.started = report.mark = time.monotonic()
        try:
            group(report)
            if not report.total():
                report.fail("all", "the group reported no case")
        except Exception as error:      # a broken group is a failed one; the others go on
            report.fail(report.now or "all", f"{type(error).__name__}: {error}",
                        detail=traceback.format_exc())

    @staticmethod
    def print_group(report):
        print("\n".join(report.lines))
        counts = report.counts
        print(f"      {report.name}: {counts['ok']} passed, {counts['FAIL']} failed, "
              f"{counts['SKIP']} skipped, "
              f"{time.monotonic() - report.started:.0f} s", flush=True)

    def watch(self, functions):
        """Run each of @functions in a thread, and say how far they are."""
        threads = [threading.Thread(target=function, daemon=True) for function in functions]
        for thread in threads:
            thread.start()
        beat = time.monotonic()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.5)
            if time.monotonic() - beat >= PROGRESS_S:
                beat = time.monotonic()
                self.progress()

    def progress(self):
        with self.lock:
            busy = [report.state() for report in self.running]
            waiting = len(self.waiting)
        failed = sum(report.counts["FAIL"] for report in self.reports)
        print(f"test: {'; '.join(busy)}; {waiting} groups to go, {failed} failures so far",
              file=sys.stderr, flush=True)

    def end(self):
        self.is_over = True
        with self.lock:
            self.waiting.clear()
            running = list(self.running)
        for report in running:
            report.end_children()

    def run_alone(self):
        """What may have failed for want of time is tried again, one group after the other."""
        for report in self.reports:
            if report.when_alone and not self.is_over:
                report.lines, report.is_alone = [], True
                self.run_and_print(report.when_alone, report)

    def failed(self):
        """A line for each case that failed: what is above them may be long."""
        return [f"{report.name}/{name}{about}" for report in self.reports
                for name, about in report.failed]

    def totals(self):
        return [sum(report.counts[verdict] for report in self.reports)
                for verdict in ("ok", "FAIL", "SKIP")]


def setup(chosen):
    """Have the lab make what the groups need, so that it does not count as a test's time."""
    names = sorted({name for group, _ in chosen for name in group.kernels})
    print(f"test: lab setup {' '.join(['root', *names])}", file=sys.stderr, flush=True)
    return subprocess.run([LAB, "setup", "root", *names], cwd=CHECKOUT, check=False,
                          stdin=subprocess.DEVNULL).returncode


def run_all(chosen, long_run):
    """Run the groups; returns the exit status."""
    os.makedirs(LOGS, exist_ok=True)
    started = time.monotonic()
    if setup(chosen) != 0:
        print("FAIL  setup  the lab could not make what the tests need")
        print("0 passed, 1 failed, 0 skipped")
        return 1
    print(f"ok    setup  ({time.monotonic() - started:.1f} s)", flush=True)
    session = Session(chosen, long_run)
    for report in session.reports:
        open(report.log_path, "w", encoding="utf-8").close()
    try:
        session.watch([session.worker] * SIDE_BY_SIDE)
        session.watch([session.run_alone])
    except (KeyboardInterrupt, SystemExit):
        session.end()
        print("test: interrupted", file=sys.stderr)
        return 130
    passed, failed, skipped = session.totals()
    print(f"      {time.monotonic() - started:.0f} s in all; logs in results/test/")
    for line in session.failed():
        print(f"      failed: {line[:FAILED_COLUMNS]}")
    print(f"{passed + 1} passed, {failed} failed, {skipped} skipped")
    return 0 if not failed and passed else 1
