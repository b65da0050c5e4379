# SPDX-License-Identifier: GPL-2.0
"""A look at a disk for some seconds: an object that can be kept and made into a page (report.py).

Requests in flight and bytes are read every 10 ms, but at most 1000 times. Waiting requests and the
shares of mq-mqfq's flows are read 20 times in all. Counters are read at the beginning and the end,
everything else once. No file has to exist: one that cannot be read, because there is no root or the
disk is gone, is listed under "missing" with the reason, and the object has the rest. The keys:

  capture            1, the version of this form
  device, scheduler, kernel, begun (UTC), seconds (how long it lasted)
  queue, tunables    {name: value}, as sysfs has them
  samples            [ms, requests in flight, bytes read, bytes written], the bytes since the
                     beginning
  flows              mq-mqfq's flows over the whole time, each as `mqfair top --json` has it
  windows            [ms, [flows as above]], each since the window before
  waiting            [ms, {queue: requests that wait in the scheduler}], the queues as the
                     scheduler counts them
  counters           the scheduler's counters over the time: {"columns": [...], "rows": [[queue,
                     ...]]}; "queued" is a state, not a count
  hardware_queues    mq-mqfq: {"columns": ["queue", "state", "queued", "throttles", "slot_waits"],
                     "rows": [[...]]}; the last two are counts over the time
  files              {name: text} of all files of the scheduler in debugfs
  findings           what `mqfair doctor --json DEV` says
  missing            {file: why it could not be read}
"""
import os
import time
from dataclasses import asdict

import doctor
import top

VERSION = 1
LOOK_S, LOOKS_MAX = 0.01, 1000
WINDOWS = 20
SECTOR_BYTES = 512
READ_SECTORS, WRITTEN_SECTORS = 2, 6        # fields of a disk's stat
COLUMNS_MIN = 3
QUEUE_FILES = ("nr_requests", "rotational", "write_cache", "fua")
QUEUE_COLUMNS = ("queue", "state", "queued", "throttles", "slot_waits")
STATES = ("queue", "state", "queued")       # columns that are no counts


class Reader:
    """Reads files that may be missing, or closed to this user, and remembers which were."""

    def __init__(self):
        self.missing = {}

    def _try(self, path, call):
        try:
            return call()
        except OSError as error:
            self.missing.setdefault(path, "permission denied: run it as root"
                                    if isinstance(error, PermissionError) else error.strerror)
            return None

    def text(self, path):
        """A file's text; None if it cannot be read."""
        def look():
            with open(path, encoding="utf-8", errors="replace") as handle:
                return handle.read()
        return self._try(path, look)

    def names(self, folder):
        """The names in a folder; none if it cannot be read."""
        return sorted(self._try(folder, lambda: os.listdir(folder)) or ())

    def texts(self, folder, names=None):
        """{name: text} of the readable files in a folder."""
        found = {name: self.text(os.path.join(folder, name))
                 for name in (self.names(folder) if names is None else names)}
        return {name: text for name, text in found.items() if text is not None}


def table_of(text):
    """{"columns", "rows"} of a file with a line of names, then lines of as many words; or None."""
    lines = [line.split() for line in text.splitlines()]
    if len(lines) < 2 or len(lines[0]) < COLUMNS_MIN:
        return None
    if any(len(line) != len(lines[0]) for line in lines) or any(map(str.isdigit, lines[0])):
        return None
    return {"columns": lines[0], "rows": [[int(word) if word.lstrip("-").isdigit() else word
                                           for word in line] for line in lines[1:]]}


def difference(before, after):
    """The table @after with its counts since @before; None if there is no such table."""
    if not before or not after:
        return after
    old = {row[0]: row for row in before["rows"]}

    def since(name, now, then):
        # If the scheduler was attached again, it began to count at 0.
        return now - then if name not in STATES and now >= then else now
    return {"columns": after["columns"],
            "rows": [[since(*words)
                      for words in zip(after["columns"], row, old.get(row[0], [0] * len(row)))]
                     for row in after["rows"]]}


class Capture:
    """One look at @device, for @seconds."""

    def __init__(self, device, seconds):
        self.device, self.seconds, self.scheduler = device, seconds, device.scheduler()
        self.reader = Reader()
        self.samples, self.windows, self.waiting = [], [], []
        self._moved, self._names = None, top.cgroup_names()

    def _has_debugfs(self):
        """Whether the scheduler is one of ours, and its files can be read."""
        return self.scheduler in doctor.OURS and bool(self.reader.names(self.device.debug("")))

    def _counters(self):
        text = self.reader.text(self.device.debug("counters")) if self._has_debugfs() else None
        return table_of(text) if text else None

    def _hardware_queues(self):
        if self.scheduler != "mq-mqfq" or not self._has_debugfs():
            return None
        folder = os.path.normpath(self.device.debug("..")) + "/"
        rows = []
        for name in sorted((name for name in self.reader.names(folder) if name.startswith("hctx")),
                           key=lambda name: int(name[4:])):
            text = self.reader.text(f"{folder}{name}/sched/state")
            if text:
                found = dict(line.split(None, 1) for line in text.splitlines())
                rows.append([name, found["state"], *(int(found[key]) for key in QUEUE_COLUMNS[2:])])
        return {"columns": list(QUEUE_COLUMNS), "rows": rows} if rows else None

    def _flows(self):
        if self.scheduler != "mq-mqfq" or not self._has_debugfs():
            return None
        text = self.reader.text(self.device.debug("flows"))
        return top.flows(text) if text else None

    def _sample(self, at_s):
        """Note the requests at the disk and its bytes so far; False if it is gone."""
        inflight, stat = (self.reader.text(self.device.file(name)) for name in ("inflight", "stat"))
        if inflight is None or stat is None:
            return False
        moved = [int(stat.split()[field]) * SECTOR_BYTES
                 for field in (READ_SECTORS, WRITTEN_SECTORS)]
        self._moved = self._moved or moved
        self.samples.append([round(at_s * 1000), sum(map(int, inflight.split())),
                             *(now - then for now, then in zip(moved, self._moved))])
        return True

    def _window(self, at_s, before, before_s):
        """Note the waiting requests, and what flows got since @before.

        Returns the flows as they are now, None if they cannot be read.
        """
        counters, now = self._counters(), self._flows()
        if counters:
            column = counters["columns"].index("queued")
            self.waiting.append([round(at_s * 1000),
                                 {row[0]: row[column] for row in counters["rows"]}])
        if before is not None and now is not None:
            self._names |= top.cgroup_names()
            self.windows.append([round(at_s * 1000),
                                 top.shares(before, now, at_s - before_s, self._names)])
        return now

    def _watch(self):
        """Sample until the time is over or the disk is gone; the shares over the whole time."""
        begin = last = self._flows()
        begun, last_s, slot, here = time.monotonic(), 0, 0, True
        while here:
            at_s = time.monotonic() - begun
            here = self._sample(at_s)
            if int(at_s * WINDOWS / self.seconds) > slot:
                slot = int(at_s * WINDOWS / self.seconds)
                now = self._window(at_s, last, last_s)
                last, last_s = (last, last_s) if now is None else (now, at_s)
            if at_s >= self.seconds:
                break
            time.sleep(max(LOOK_S, self.seconds / LOOKS_MAX))
        return top.shares(begin, last, last_s, self._names) if self.windows else []

    def _stripped(self, folder, names=None):
        return {name: text.strip() for name, text in self.reader.texts(folder, names).items()}

    def take(self):
        """Take the look; the object described above."""
        begun = time.gmtime()
        counters, queues = self._counters(), self._hardware_queues()
        flows = self._watch()
        return {"capture": VERSION, "device": self.device.name, "scheduler": self.scheduler,
                "kernel": os.uname().release, "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", begun),
                "seconds": self.samples[-1][0] / 1000 if self.samples else 0,
                "queue": self._stripped(self.device.queue(""), QUEUE_FILES),
                "tunables": self._stripped(self.device.queue("iosched"))
                if self.scheduler in doctor.OURS else {},
                "samples": self.samples, "flows": flows, "windows": self.windows,
                "waiting": self.waiting, "counters": difference(counters, self._counters()),
                "hardware_queues": difference(queues, self._hardware_queues()),
                "files": self.reader.texts(self.device.debug("")) if self._has_debugfs() else {},
                "findings": [asdict(finding)
                             for finding in doctor.examine(doctor.Machine(), self.device.name)],
                "missing": self.reader.missing}
