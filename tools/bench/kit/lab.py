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
# Plans name files by their path in the checkout, which lies elsewhere in a guest.
JOBS = "fio-jobs"
OCTOKV = "results/octokv-guest"
IOCOUNT = "results/iocount-guest/iocount"
BURSTS = "results/bursts-guest/bursts"
PROTECTION = "results/protection-guest/protection"
# The schedulers to compare; others() adds those of the checkout that are not named here.
ALWAYS = ("none", "mq-k2", "mq-deadline", "kyber", "bfq")


def code():
    """The commit that is measured, with "-dirty" if files differ from it; empty without git."""
    if not shutil.which("git"):
        return ""
    done = subprocess.run(["git", "describe", "--always", "--exclude=*", "--abbrev=12", "--dirty"],
                          cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def others():
    """The checkout's schedulers that ALWAYS does not name: mq-* folders with a Kbuild file."""
    return tuple(name for name in sorted(os.listdir(CHECKOUT))
                 if name.startswith("mq-") and name not in ALWAYS
                 and os.path.exists(os.path.join(CHECKOUT, name, "Kbuild")))

TIMED_OUT = 124         # tools/lab/lab, as timeout(1)

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
    seed: int = 1           # under virtual time

    def argv(self):
        """The start of the lab's command line, up to --."""
        argv = [LAB, "run", "--backend", self.backend, "--cpus", str(self.cpus),
                "--timeout", str(self.timeout_s), "--mem", self.mem]
        if self.backend == "vm":
            argv += ["--kernel", self.kernel]
        if self.coherence:
            argv += ["--coherence", self.coherence, "--slice", str(self.slice_insns)]
        return argv + (["--virtual-time", "--seed", str(self.seed)] if self.virtual_time else [])

    def words(self):
        """The backend as the result file names it."""
        return self.backend + (" --virtual-time" if self.virtual_time else "")


class _Now:
    """What holds for the guests that are made from now on, and for their steps."""
    seed = 1
    wanted = None


def set_seed(seed):
    """Guests under virtual time have this seed from now on."""
    _Now.seed = seed


def choose(wanted):
    """From now on measure() leaves out steps for which @wanted(step) is false; None: it does not.

    They have the answer None, like those that were lost.
    """
    _Now.wanted = wanted


def virtual(kernel, cpus):
    """A guest under virtual time."""
    return Guest("vm", kernel, cpus, virtual_time=True, seed=_Now.seed)


def counted(kernel, cpus, path, slice_insns, repeat=0):
    """A guest under virtual time whose cache lines are counted, into the file @path.

    Each @repeat has a seed of its own, which is none of those of --seeds.
    """
    return Guest("vm", kernel, cpus, virtual_time=True, coherence=path, slice_insns=slice_insns,
                 mem="2G" if cpus <= 16 else "4G", seed=_Now.seed + 1000 * repeat)


@dataclass(frozen=True)
class Run:
    """The description of a run in its result."""
    backend: str
    kernel: str             # release
    started: float          # time.monotonic()
    lost: tuple = ()        # labels of steps in which a guest died


@contextlib.contextmanager
def scratch():
    """A folder for one run, below results/; gone afterwards."""
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


def _build_static(name, target):
    """Compile guest/NAME.c for guests, as @target."""
    program = os.path.join(CHECKOUT, target)
    os.makedirs(os.path.dirname(program), exist_ok=True)
    say(f"compiling {name}")
    part = f"{program}.{os.getpid()}"
    enter(["cc", "-O2", "-Wall", "-static", "-o", part,
           os.path.join(BENCH, f"guest/{name}.c"), "-luring", "-lm"], f"compiling {name}")
    os.replace(part, program)


def build_iocount():
    """Compile guest/iocount.c for guests, as IOCOUNT."""
    _build_static("iocount", IOCOUNT)


def build_bursts():
    """Compile guest/bursts.c for guests, as BURSTS."""
    _build_static("bursts", BURSTS)


def build_protection():
    """Compile guest/protection.c for guests, as PROTECTION."""
    _build_static("protection", PROTECTION)


def build_octokvd():
    """Build octokvd and octokv-bench for guests, in OCTOKV."""
    enter(["make", "-s", "-C", "tools/octokv", f"BUILD=../../{OCTOKV}", "all"],
          "building octokvd")


class NothingChosen(BenchError):
    """choose() leaves out all steps."""


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


def _keep_log():
    """The kernel log of a guest that died, where the next guest does not replace it."""
    log = os.path.join(RESULTS, "lab", "dmesg.txt")
    kept = os.path.join(RESULTS, "lab", f"dmesg-{time.strftime('%H%M%S')}.txt")
    if os.path.exists(log):
        shutil.copy(log, kept)
    return os.path.relpath(kept, CHECKOUT)


def _carried(guest, plan):
    """The lab's options for the programs that @plan names, which git may ignore."""
    programs = sorted({step[key] for step in plan for key in ("program", "build") if key in step})
    return [word for path in programs for word in ("--carry", path)] if guest.virtual_time else []


class _Runner:
    """Runs plans in guests. All of them end when a step fails, or when we are interrupted."""

    def __init__(self, folder, total, may_lose):
        self._folder, self._progress, self._may_lose = folder, _Progress(total), may_lose
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
        """(the kernel's release, one answer per step)

        The answer is None for a step in which the guest died; another guest goes on after it. If
        the time of a guest is up, the step that it was at is run again in another one.
        """
        kernel, answers = None, []
        while len(answers) < len(plan):
            release, found, status = self._run_guest(guest, plan[len(answers):])
            kernel, answers = kernel or release, answers + found
            if len(answers) == len(plan) and status == 0:
                break
            if status == TIMED_OUT and found and len(answers) < len(plan) and not self._stopped:
                say(f"the time of a guest is up, after {len(found)} steps; another one goes on")
                continue
            # It did not boot, was ill at the end, or has counted: nothing can be kept.
            if (self._stopped or not self._may_lose or not release or guest.coherence
                    or len(answers) == len(plan)):
                raise BenchError(f"the guest ended with status {status} after {len(answers)} of "
                                 f"{len(plan)} steps; its kernel log is in results/lab/dmesg.txt")
            label = plan[len(answers)]["label"]
            say(f"{label}: lost, the guest ended with status {status}; its kernel log is in "
                f"{_keep_log()}")
            answers.append(None)
        return kernel, answers

    def _run_guest(self, guest, plan):
        """(the kernel's release, or None if it did not boot; answers; the lab's exit status)"""
        path = os.path.join(self._folder, f"plan-{threading.get_ident()}.json")
        with open(path, "w", encoding="utf-8") as handle:
            json.dump(plan, handle)
        kernel, results, error = None, [], None
        process = self._start([*guest.argv(), *_carried(guest, plan), "--stdin", path, "--",
                               "tools/bench/guest/run_steps"])
        for line in process.stdout:
            if not line.endswith("\n"):         # the guest died while it wrote
                break
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
        return kernel, results, status


def run_plans(pairs, may_lose=False):
    """Run each (guest, plan) of @pairs, two guests at a time under virtual time, else one.

    The load of the host has no influence on virtual time; it does on real time.
    Returns the kernel's release and the results in the order of @pairs. With @may_lose the answer
    is None for a step in which a guest died; without, that is a BenchError.
    """
    is_virtual = all(guest.virtual_time for guest, _ in pairs)
    parallel = min(2, os.cpu_count() or 1) if is_virtual else 1
    results, failures = [None] * len(pairs), []
    with scratch() as folder, ThreadPoolExecutor(parallel) as pool:
        runner = _Runner(folder, sum(len(plan) for _, plan in pairs), may_lose)
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


def _chosen(pairs):
    """@pairs with the steps that choose() wants, in plans of alike length, two for both cores.

    Steps that need a model of the drive stay where they are: one guest measures it.
    """
    if _Now.wanted is None:
        return pairs
    found = [(guest, [step for step in plan if _Now.wanted(step)]) for guest, plan in pairs]
    found = [pair for pair in found if pair[1]]
    if not found:
        raise NothingChosen("no step is of a case that was chosen")
    if len(found) == 1:
        found.append((found[0][0], []))
    while True:
        least, most = (how((plan for _, plan in found), key=len) for how in (min, max))
        free = [step for step in most if "qos" not in step.get("cgroups", ())]
        if len(most) - len(least) < 2 or not free:
            return [pair for pair in found if pair[1]]
        most.remove(free[-1])
        least.append(free[-1])


def measure(pairs, may_lose=False):
    """run_plans(), with its description for the result: (Run, a list of answers per plan)."""
    started = time.monotonic()
    chosen = _chosen(pairs)
    release, results = run_plans(chosen, may_lose)
    steps = [(step, answer) for (_, plan), answers in zip(chosen, results)
             for step, answer in zip(plan, answers)]
    lost = tuple(step["label"] for step, answer in steps if answer is None)
    answer_of = {id(step): answer for step, answer in steps}
    return (Run(pairs[0][0].words(), release, started, lost),
            [[answer_of.get(id(step)) for step in plan] for _, plan in pairs])


def measure_virtual(kernel, cpus, plans, may_lose=False):
    """measure() with all @plans in guests of one kind."""
    return measure([(virtual(kernel, cpus), plan) for plan in plans], may_lose)


def flat(plans, results):
    """[(step, answer)] of all plans, without those that were lost or not chosen."""
    return [(step, answer) for plan, answers in zip(plans, results)
            for step, answer in zip(plan, answers) if answer is not None]
