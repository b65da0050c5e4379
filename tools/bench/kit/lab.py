# SPDX-License-Identifier: GPL-2.0
"""Run a plan of steps in a guest of the lab, with a progress line per step, and return the results.

A plan is a list of dictionaries that guest/run_steps understands, each with a "label" for people.
The guest prints a line of JSON when a step has finished. The plan lies in a scratch folder below
results/, which is removed at the end.
"""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from .say import BenchError, duration, say

CHECKOUT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
LAB = os.path.join(CHECKOUT, "tools/lab/lab")
BENCH = os.path.join(CHECKOUT, "tools/bench")
RESULTS = os.path.join(CHECKOUT, "results")
JOBS = os.path.join(CHECKOUT, "fio-jobs")
OCTOKV = os.path.join(RESULTS, "octokv-guest")
# The schedulers to compare; others() adds those of the checkout that are not named here.
ALWAYS = ("none", "mq-k2", "mq-deadline", "kyber", "bfq")


def others():
    """The checkout's schedulers that ALWAYS does not name: mq-* folders with a Kbuild file."""
    return tuple(name for name in sorted(os.listdir(CHECKOUT))
                 if name.startswith("mq-") and name not in ALWAYS
                 and os.path.exists(os.path.join(CHECKOUT, name, "Kbuild")))


@dataclass(frozen=True)
class Guest:
    """Which guest a plan runs in."""
    backend: str
    kernel: str             # 6.12, 7.2 or, with uml, 7.2
    cpus: int
    virtual_time: bool = False
    timeout_s: int = 3600
    coherence: str = ""     # where the counts of cache lines go; empty: none are counted
    slice_insns: int = 0    # a CPU's turn while they are counted
    mem: str = "2G"

    def argv(self):
        """The start of the lab's command line, up to --."""
        argv = [LAB, "run", "--backend", self.backend, "--cpus", str(self.cpus),
                "--timeout", str(self.timeout_s), "--mem", self.mem]
        if self.backend == "vm":
            argv += ["--kernel", self.kernel]
        if self.coherence:
            argv += ["--coherence", self.coherence, "--slice", str(self.slice_insns)]
        return argv + (["--virtual-time"] if self.virtual_time else [])

    def words(self):
        """The backend as the result file names it."""
        return self.backend + (" --virtual-time" if self.virtual_time else "")


def virtual(kernel, cpus):
    """A guest under virtual time."""
    return Guest("vm", kernel, cpus, virtual_time=True)


def counted(kernel, cpus, path, slice_insns):
    """A guest under virtual time whose cache lines are counted, into the file @path."""
    return Guest("vm", kernel, cpus, virtual_time=True, coherence=path, slice_insns=slice_insns,
                 mem="2G" if cpus <= 16 else "4G")


@dataclass(frozen=True)
class Run:
    """The description of a run in its result."""
    backend: str
    kernel: str             # release
    started: float          # time.monotonic()


@contextlib.contextmanager
def scratch():
    """A folder in the checkout, so that guests see it; gone afterwards."""
    os.makedirs(RESULTS, exist_ok=True)
    path = tempfile.mkdtemp(prefix=".bench-", dir=RESULTS)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def enter(argv, what):
    """Run @argv in the lab's root filesystem; if it fails, BenchError with its last output."""
    done = subprocess.run([LAB, "enter", "--", *argv], cwd=CHECKOUT, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    if done.returncode != 0:
        lines = done.stdout.strip().splitlines() or ["no output"]
        raise BenchError(f"{what} failed with status {done.returncode}: {lines[-1]}")
    return done.stdout


def build_iocount(folder):
    """The path of guest/iocount.c's program, compiled into @folder."""
    program = os.path.join(folder, "iocount")
    say("compiling iocount")
    enter(["cc", "-O2", "-Wall", "-static", "-o", program,
           os.path.join(BENCH, "guest/iocount.c"), "-luring"], "compiling iocount")
    return program


def build_octokvd():
    """Build octokvd and octokv-bench for guests, in OCTOKV."""
    enter(["make", "-s", "-C", "tools/octokv", f"BUILD={OCTOKV}", "all"], "building octokvd")


class _Progress:
    """Counts the steps of all plans that run, and estimates after each how long the rest takes."""

    def __init__(self, total):
        self._total, self._done, self._lock = total, 0, threading.Lock()
        self._started = time.monotonic()

    def step(self, label):
        with self._lock:
            self._done += 1
            left = (time.monotonic() - self._started) / self._done * (self._total - self._done)
            rest = f"  (about {duration(left)} left)" if left else ""
            say(f"{self._done} of {self._total}  {label}{rest}")


class _Runner:
    """Runs plans in guests. All of them end when one fails, or when we are interrupted."""

    def __init__(self, folder, total):
        self._folder, self._progress = folder, _Progress(total)
        self._lock, self._live, self._stopped = threading.Lock(), set(), False

    def stop(self):
        """End the guests that run; start no other."""
        with self._lock:
            self._stopped = True
            for process in self._live:
                process.terminate()

    def _start(self, argv):
        with self._lock:
            if self._stopped:
                raise BenchError("interrupted")
            process = subprocess.Popen(argv, cwd=CHECKOUT, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, text=True)
            self._live.add(process)
            return process

    def run(self, guest, plan):
        """(the kernel's release, one result per step)"""
        path = os.path.join(self._folder, f"plan-{threading.get_ident()}.json")
        with open(path, "w", encoding="utf-8") as handle:
            json.dump(plan, handle)
        kernel, results, error = None, [], None
        program = os.path.join(BENCH, "guest/run_steps")
        process = self._start([*guest.argv(), "--", program, path])
        for line in process.stdout:
            answer = json.loads(line)
            if "kernel" in answer:
                kernel = answer["kernel"]
            elif "error" in answer:
                is_step = answer["step"] < len(plan)
                label = plan[answer["step"]]["label"] if is_step else "at the end"
                error = f"{label}: {answer['error']}"
            else:
                results.append(answer["result"])
                self._progress.step(plan[answer["step"]]["label"])
        status = process.wait()
        with self._lock:
            self._live.discard(process)
        if error:
            raise BenchError(error)
        if status != 0 or len(results) != len(plan):
            raise BenchError(f"the guest ended with status {status} after {len(results)} of "
                             f"{len(plan)} steps; its kernel log is in results/lab/dmesg.txt")
        return kernel, results


def run_plans(pairs):
    """Run each (guest, plan) of @pairs, two guests at a time under virtual time, else one.

    The load of the host has no influence on virtual time; it does on real time.
    Returns the kernel's release and the results in the order of @pairs.
    """
    is_virtual = all(guest.virtual_time for guest, _ in pairs)
    parallel = min(2, os.cpu_count() or 1) if is_virtual else 1
    results, failures = [None] * len(pairs), []
    with scratch() as folder, ThreadPoolExecutor(parallel) as pool:
        runner = _Runner(folder, sum(len(plan) for _, plan in pairs))
        try:
            jobs = {pool.submit(runner.run, guest, plan): index
                    for index, (guest, plan) in enumerate(pairs)}
            for job in as_completed(jobs):
                try:
                    results[jobs[job]] = job.result()
                except (BenchError, OSError, ValueError) as error:
                    failures.append(error)      # the first is the cause, stop() leads to the others
                    runner.stop()
        except BaseException:
            runner.stop()
            raise
    if failures:
        raise BenchError(str(failures[0]))
    return results[0][0], [found for _, found in results]


def measure(pairs):
    """run_plans(), with its description for the result: (Run, a list of answers per plan)."""
    started = time.monotonic()
    release, results = run_plans(pairs)
    return Run(pairs[0][0].words(), release, started), results


def measure_virtual(kernel, cpus, plans):
    """measure() with all @plans in guests of one kind."""
    return measure([(virtual(kernel, cpus), plan) for plan in plans])


def flat(plans, results):
    """[(step, answer)] of all plans."""
    return [pair for plan, answers in zip(plans, results) for pair in zip(plan, answers)]
