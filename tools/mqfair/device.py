# SPDX-License-Identifier: GPL-2.0
"""A disk: its name, its scheduler, its files in sysfs and debugfs."""
import contextlib
import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys

BLOCK, DEBUG = "/sys/block", "/sys/kernel/debug/block"
# Signals that end a command; it undoes its changes first.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Files of the queue that the kernel resets when the scheduler changes (block/elevator.c,
# block/blk-mq-sched.c).
RESET = ("nr_requests", "async_depth")


class DeviceError(Exception):
    """The command failed; the text is one sentence."""


class Device:
    """A disk by its name (nvme0n1) or node (/dev/nvme0n1)."""

    def __init__(self, name):
        self.name = os.path.basename(os.path.realpath(name if "/" in name else f"/dev/{name}"))
        self.node = f"/dev/{self.name}"
        self._tried = {}        # {scheduler: {file of the queue: text before choose()}}
        if not os.path.isdir(self.file("")):
            raise DeviceError(f"{name} is no disk (a partition has no scheduler of its own: name "
                              "the disk)")
        if not os.path.exists(self.queue("scheduler")):
            raise DeviceError(f"{self.name} has no scheduler: it is no request-based disk; name "
                              "the disks below it (of a multipath drive, its paths: nvme0c0n1)")

    def file(self, name):
        """Path of a file in the disk's folder."""
        return f"{BLOCK}/{self.name}/{name}"

    def queue(self, name):
        """Path of a file in the disk's queue folder."""
        return self.file(f"queue/{name}")

    def debug(self, name):
        """Path of one of the scheduler's files in debugfs."""
        return f"{DEBUG}/{self.name}/sched/{name}"

    def scheduler(self):
        """The name of the scheduler in use."""
        found = re.search(r"\[([\w-]+)\]", read(self.queue("scheduler")))
        return found.group(1) if found else "none"

    @contextlib.contextmanager
    def restored(self):
        """Restore the scheduler and its settings when the context ends.

        Each scheduler keeps its tunables per disk, so those of others that were tried are restored,
        too.
        """
        name, kept = self.scheduler(), self.settings()
        self._tried = {}
        try:
            yield
        finally:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
            try:
                for tried, tunables in self._tried.items():
                    self.choose(tried)
                    self._put_back(tunables)
                self.choose("none")
                self.choose(name)
                self._put_back(kept)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def settings(self):
        """{file of the queue: text}: the scheduler's tunables, and RESET."""
        folder, names = self.queue("iosched"), []
        if self.scheduler() != "none":
            names = [f"iosched/{entry}" for entry in os.listdir(folder)]
        # The order in which they are written: schedulers adapt to nr_requests, and the weights
        # belong to the kind of flow.
        names.sort(key=lambda entry: entry != "iosched/flow")
        return {entry: read(self.queue(entry)) for entry in (*RESET, *names)
                if os.path.exists(self.queue(entry))}

    def _put_back(self, kept):
        """Write the files that differ from @kept, a list (weights) line by line; print refusals."""
        for entry, text in kept.items():
            try:
                if read(self.queue(entry)) != text:
                    for line in text.splitlines():
                        write(self.queue(entry), line)
            except DeviceError as error:
                print(f"mqfair: not put back: {error}", file=sys.stderr)

    @contextlib.contextmanager
    def without_scheduler(self):
        """Use none until the context ends."""
        with self.restored():
            self.choose("none")
            yield

    def choose(self, name, **tunables):
        """Choose scheduler @name, unless it is in use, and set @tunables."""
        if self.scheduler() != name:
            write(self.queue("scheduler"), name)
        for entry in tunables:
            path = f"iosched/{entry}"
            self._tried.setdefault(name, {}).setdefault(path, read(self.queue(path)))
        for entry, value in tunables.items():
            write(self.queue(f"iosched/{entry}"), str(value))

    @contextlib.contextmanager
    def claimed(self, destroys=False):
        """Lock the disk until the context ends.

        With @destroys its data is ours, too, if the user at the terminal agrees; then it cannot be
        mounted. udev ignores a locked disk. Otherwise it would run its rules each time that a
        program that wrote to the disk, such as fio, closes it, and a rule that chooses a scheduler
        would act during a measurement (systemd's manual, "Locking Block Device Access").
        """
        if not os.path.exists(self.node):
            raise DeviceError(f"there is no {self.node}, so nothing can be sent to {self.name} "
                              "alone: measure the drive while nvme-core is loaded with multipath=N")
        try:
            descriptor = os.open(self.node, os.O_RDWR | os.O_EXCL if destroys else os.O_RDONLY)
        except PermissionError:
            raise
        except OSError as error:
            remedy = "; unmount what is on it" if error.errno == errno.EBUSY else ""
            raise DeviceError(f"{self.node} cannot be {'written' if destroys else 'read'}: "
                              f"{error.strerror}{remedy}") from error
        try:
            if destroys:
                self._confirm_destruction()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _confirm_destruction(self):
        """Return if the user at the terminal agrees."""
        print(f"\nThis writes to all of {self.node} and destroys its data. Type its name to "
              "continue: ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != self.name:
            raise DeviceError("nothing was written, nothing was measured")

    def fio_jobs(self, *argv):
        """fio's result for each job on this disk; an error if the scheduler changes meanwhile."""
        chosen = self.scheduler()
        jobs = fio_jobs(*argv)
        if self.scheduler() != chosen:
            raise DeviceError(f"{self.scheduler()} was chosen for {self.name} during a measurement "
                              f"under {chosen}: by a udev rule, or TuneD? stop it meanwhile")
        return jobs


def end_by_signals():
    """Let the first signal end the work, by a KeyboardInterrupt.

    Further ones must not end the clean-up. Signals that are ignored, as by nohup, stay so.
    """
    def stop(_number, _frame):
        for number in STOPS:
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, stop)


def fio_jobs(*argv):
    """fio's result for each job; needs the program."""
    try:
        done = subprocess.run(["fio", *argv, "--output-format=json"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise DeviceError("there is no fio: install the package fio") from error
    if done.returncode != 0:
        raise DeviceError(f"fio: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"]


def printable(text):
    """@text with control characters escaped; names of cgroups and processes may hold any bytes."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode()
                   for char in text)


def read(path):
    """A file's text, without the newline at its end."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().rstrip("\n")
    except FileNotFoundError as error:
        raise DeviceError(f"there is no {path}") from error


def write(path, value):
    """Write a value to a file of sysfs."""
    try:
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(value)
    except PermissionError:
        raise
    except OSError as error:
        raise DeviceError(f"{path} refuses {value!r}: {error.strerror}") from error
