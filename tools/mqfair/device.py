# SPDX-License-Identifier: GPL-2.0
"""A disk as the tools see it: its name, its scheduler, its files in sysfs and debugfs."""
import contextlib
import errno
import json
import os
import re
import subprocess
import sys

BLOCK, DEBUG = "/sys/block", "/sys/kernel/debug/block"


class DeviceError(Exception):
    """It can not be done; the text is one sentence."""


class Device:
    """A disk by its name (nvme0n1) or node (/dev/nvme0n1)."""

    def __init__(self, name):
        self.name = os.path.basename(os.path.realpath(name if "/" in name else f"/dev/{name}"))
        self.node = f"/dev/{self.name}"
        if not os.path.isdir(self.file("")):
            raise DeviceError(f"{name} is no disk (a partition has no scheduler of its own: name the disk)")
        if not os.path.exists(self.queue("scheduler")):
            raise DeviceError(f"{self.name} has no scheduler: it is no request-based disk; name the disks below it")

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
        """The name of the one in use."""
        found = re.search(r"\[([\w-]+)\]", read(self.queue("scheduler")))
        return found.group(1) if found else "none"

    @contextlib.contextmanager
    def restored(self):
        """Whatever happens to the scheduler while the context lasts: afterwards it is the old one, with the tunables that it had."""
        name, folder = self.scheduler(), self.queue("iosched")
        tunables = {entry: read(f"{folder}/{entry}") for entry in os.listdir(folder)} if name != "none" else {}
        try:
            yield
        finally:
            self.choose("none")
            self.choose(name)
            for entry, value in tunables.items():
                with contextlib.suppress(DeviceError):      # one that can not be written, or a list
                    write(f"{folder}/{entry}", value)

    @contextlib.contextmanager
    def without_scheduler(self):
        """Under none, for as long as the context lasts."""
        with self.restored():
            self.choose("none")
            yield

    def choose(self, name, **tunables):
        """Make @name the scheduler, unless it is, and set @tunables."""
        if self.scheduler() != name:
            write(self.queue("scheduler"), name)
        for entry, value in tunables.items():
            write(self.queue(f"iosched/{entry}"), str(value))

    def confirm_destruction(self):
        """Return if nobody uses the disk and the person at the terminal agrees that its data is lost."""
        try:
            os.close(os.open(self.node, os.O_RDWR | os.O_EXCL))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise
            raise DeviceError(f"{self.node} can not be written: {error.strerror}; unmount what is on it") from error
        print(f"\nThis writes all over {self.node} and destroys what is there. Type its name to go on: ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != self.name:
            raise DeviceError("nothing was written, nothing was measured")


def fio_jobs(*argv):
    """fio's result for each job; needs the program."""
    try:
        done = subprocess.run(["fio", *argv, "--output-format=json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    except FileNotFoundError as error:
        raise DeviceError("there is no fio: install the package fio") from error
    if done.returncode != 0:
        raise DeviceError(f"fio: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"]


def printable(text):
    """@text with what is no character of a line made visible: names of cgroups and processes are foreign text, and not always text."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


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
