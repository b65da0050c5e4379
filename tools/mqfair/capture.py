# SPDX-License-Identifier: GPL-2.0
"""A look at a disk that lasts some seconds, as one object that can be kept, sent away, and made into a page later (report.py).

What the disk holds and moves is asked for every 10 ms, but at most 1000 times, who waits and who of mq-mqfq's flows got what twenty times in all.
The rest is read once, at the end, or twice, where it is counters. Nothing of it has to be there: a file that can not be read, for want of root or because the disk is gone,
is listed with the reason under "missing", and the object has what is left. The keys:

  capture            1, the version of this form
  device, scheduler, kernel, begun (UTC), seconds (how long it lasted)
  queue, tunables    {name: value}, as sysfs has them
  samples            [ms, requests in flight, bytes read, bytes written], the bytes since the beginning
  flows              mq-mqfq's flows over the whole time, each as `mqfair top --json` has it
  windows            [ms, [flows as above]], each since the window before
  waiting            [ms, {queue: requests that wait in the scheduler}], the queues as the scheduler counts them
  counters           what the scheduler counted meanwhile: {"columns": [...], "rows": [[queue, ...]]}; "queued" is a state, not a count
  hardware_queues    mq-mqfq: {"columns": ["queue", "state", "queued", "throttles", "slot_waits"], "rows": [[...]]}; the last two meanwhile
  files              {name: text} of all that the scheduler has in debugfs
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
    """Reads what may not be there, or is not for everybody, and remembers what was missing."""

    def __init__(self):
        self.missing = {}

    def _try(self, path, call):
        try:
            return call()
        except OSError as error:
            self.missing.setdefault(path, "permission denied: run it as root" if isinstance(error, PermissionError) else error.strerror)
            return None

    def text(self, path):
        """A file's text; None if it can not be read."""
        def look():
            with open(path, encoding="utf-8", errors="replace") as handle:
                return handle.read()
        return self._try(path, look)

    def names(self, folder):
        """What is in a folder; nothing if it can not be read."""
        return sorted(self._try(folder, lambda: os.listdir(folder)) or ())

    def texts(self, folder, names=None):
        """{name: text} of those in a folder that can be read."""
        found = {name: self.text(os.path.join(folder, name)) for name in (self.names(folder) if names is None else names)}
        return {name: text for name, text in found.items() if text is not None}


def table_of(text):
    """{"columns", "rows"} of a file that has a line of names, and below it lines of as many words; None if it is of another form."""
    lines = [line.split() for line in text.splitlines()]
    if len(lines) < 2 or len(lines[0]) < COLUMNS_MIN or any(len(line) != len(lines[0]) for line in lines) or any(word.isdigit() for word in lines[0]):
        return None
    return {"columns": lines[0], "rows": [[int(word) if word.lstrip("-").isdigit() else word for word in line] for line in lines[1:]]}


def difference(before, after):
    """The table @after with what it counted since @before; None if there is no such table."""
    if not before or not after:
        return after
    old = {row[0]: row for row in before["rows"]}

    def since(name, now, then):
        # A scheduler that was attached anew begins to count at 0.
        return now - then if name not in STATES and now >= then else now
    return {"columns": after["columns"], "rows": [[since(*words) for words in zip(after["columns"], row, old.get(row[0], [0] * len(row)))]
                                                  for row in after["rows"]]}


class Capture:
    """One look at @device, for @seconds."""

    def __init__(self, device, seconds):
        self.device, self.seconds, self.scheduler = device, seconds, device.scheduler()
        self.reader = Reader()
        self.samples, self.windows, self.waiting = [], [], []
        self._moved, self._names = None, top.cgroup_names()

    def _has_debugfs(self):
        """Whether the scheduler is one of ours, and may be asked."""
        return self.scheduler in doctor.OURS and bool(self.reader.names(self.device.debug("")))

    def _counters(self):
        text = self.reader.text(self.device.debug("counters")) if self._has_debugfs() else None
        return table_of(text) if text else None

    def _hardware_queues(self):
        if self.scheduler != "mq-mqfq" or not self._has_debugfs():
            return None
        folder = os.path.normpath(self.device.debug("..")) + "/"
        rows = []
        for name in sorted((name for name in self.reader.names(folder) if name.startswith("hctx")), key=lambda name: int(name[4:])):
            text = self.reader.text(f"{folder}{name}/sched/state")
            if text:
                found = dict(line.split(None, 1) for line in text.splitlines())
                rows.append([name, found["state"], *(int(found[key]) for key in QUEUE_COLUMNS[2:])])
        return {"columns": list(QUEUE_COLUMNS), "rows": rows} if rows else None

    def _flows(self):
        text = self.reader.text(self.device.debug("flows")) if self.scheduler == "mq-mqfq" and self._has_debugfs() else None
        return top.flows(text) if text else None

    def _sample(self, at_s):
        """Note what the disk holds and has moved; False if it is gone."""
        inflight, stat = (self.reader.text(self.device.file(name)) for name in ("inflight", "stat"))
        if inflight is None or stat is None:
            return False
        moved = [int(stat.split()[field]) * SECTOR_BYTES for field in (READ_SECTORS, WRITTEN_SECTORS)]
        self._moved = self._moved or moved
        self.samples.append([round(at_s * 1000), sum(map(int, inflight.split())), *(now - then for now, then in zip(moved, self._moved))])
        return True

    def _window(self, at_s, before, before_s):
        """Note who waits, and what flows got since @before; returns the flows as they are now, None if they can not be read."""
        counters, now = self._counters(), self._flows()
        if counters:
            self.waiting.append([round(at_s * 1000), {row[0]: row[counters["columns"].index("queued")] for row in counters["rows"]}])
        if before is not None and now is not None:
            self._names |= top.cgroup_names()
            self.windows.append([round(at_s * 1000), top.shares(before, now, at_s - before_s, self._names)])
        return now

    def _watch(self):
        """Sample until the time is over or the disk is gone; returns the shares of the whole time."""
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
        """The object."""
        begun = time.gmtime()
        counters, queues = self._counters(), self._hardware_queues()
        flows = self._watch()
        return {"capture": VERSION, "device": self.device.name, "scheduler": self.scheduler, "kernel": os.uname().release,
                "begun": time.strftime("%Y-%m-%dT%H:%M:%SZ", begun), "seconds": self.samples[-1][0] / 1000 if self.samples else 0,
                "queue": self._stripped(self.device.queue(""), QUEUE_FILES),
                "tunables": self._stripped(self.device.queue("iosched")) if self.scheduler in doctor.OURS else {},
                "samples": self.samples, "flows": flows, "windows": self.windows, "waiting": self.waiting,
                "counters": difference(counters, self._counters()), "hardware_queues": difference(queues, self._hardware_queues()),
                "files": self.reader.texts(self.device.debug("")) if self._has_debugfs() else {},
                "findings": [asdict(finding) for finding in doctor.examine(doctor.Machine(), self.device.name)],
                "missing": self.reader.missing}
