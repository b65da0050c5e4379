# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: a device that fails for a while.

The limit of the size of files is the outage: beyond it each write fails, and reads go on.
"""
import contextlib
import resource
import threading
import time

import redis

from kit import daemon, expect, refused, run_once

# Below the partitions of the store.
NO_BYTES = 1 << 16


@contextlib.contextmanager
def outage(d):
    pid, name = d.child.pid, resource.RLIMIT_FSIZE
    resource.prlimit(pid, name, (NO_BYTES, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, name, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class Writer(threading.Thread):
    """Writes all the time, and goes on after IOERR: such a write may have happened or not."""

    def __init__(self, d, number):
        super().__init__()
        self.client, self.number, self.stop = d.client(), number, False
        self.known, self.maybe, self.nr_errors, self.why = {}, {}, 0, None

    def run(self):
        nr = 0
        try:
            while not self.stop:
                key, nr = f"{self.number}:{nr % 300}", nr + 1
                try:
                    self.client.set(key, nr)
                    self.known[key], self.maybe[key] = nr, set()
                except redis.ResponseError as error:
                    expect(str(error).startswith("IOERR"), str(error))
                    self.maybe.setdefault(key, set()).add(nr)
                    self.nr_errors += 1
                    time.sleep(0.05)
        except Exception as error:      # of any kind: verify() raises it
            self.why = error

    def verify(self, c):
        if self.why:
            raise self.why
        for key, value in self.known.items():
            found = int(c.get(key) or 0)
            expect(found == value or found in self.maybe[key], f"{key} has {found}, not {value}")


def wait_for_health(c, wanted, seconds):
    until = time.monotonic() + seconds
    while (health := c.info("health"))["health"] != wanted:
        expect(time.monotonic() < until, f"not {wanted}: {health}")
        time.sleep(0.05)


def write_to_all(d):
    """A write to each partition has to succeed."""
    c = d.client()
    for i in range(200):
        c.set(f"all:{i}", i)
    c.close()


def run_outage(d, seconds):
    """Returns how long it took until all partitions took writes again, and the errors."""
    c, writers = d.client(), [Writer(d, number) for number in range(8)]
    for w in writers:
        w.start()
    try:
        time.sleep(1)
        with outage(d):
            time.sleep(seconds)
            health = c.info("health")
            expect(health["health"] in ("failing", "refusing"), str(health))
            said = run_once("--health", "--port", str(d.port), status=1)
            expect("health:failing" in said or "health:refusing" in said, said)
        begun = time.monotonic()
        while c.info("health")["partitions_refusing_writes"]:
            expect(time.monotonic() < begun + 60, "does not take writes again")
            time.sleep(0.05)
        write_to_all(d)
        took = time.monotonic() - begun
        time.sleep(1)
    finally:
        for w in writers:
            w.stop = True
        for w in writers:
            w.join()
    wait_for_health(c, "ok", 10)
    expect("health:ok" in run_once("--health", "--port", str(d.port)), "--health")
    for w in writers:
        w.verify(c)
    return took, sum(w.nr_errors for w in writers), writers


def case_outage():
    """writes fail for 5 s, then for 12 s, under load: all goes on by itself, and none is lost"""
    with daemon(size="4g") as d:
        texts = []
        for seconds in (5, 12):
            took, nr_errors, writers = run_outage(d, seconds)
            texts.append(f"{took:.1f} s after {seconds} s, {nr_errors} errors")
            expect(took < 10, texts[-1])
        lines = d.said().strip().split("\n")
        expect(len(lines) < 40, f"{len(lines)} lines: {d.said()}")
        expect("failed: File too large" in d.said() and "writes wait" in d.said() and
               "takes writes again" in d.said(), d.said())
        expect(d.end() == 0, "did not end well")
        d.start()
        for w in writers:
            w.verify(d.client())
        return f"{'; '.join(texts)}; {len(lines)} lines"


def case_on_error():
    """--on-error exit: writes that go on failing end octokvd, and nothing is lost"""
    with daemon("--on-error", "exit") as d:
        c = d.client()
        c.set("k", "old")
        with outage(d):
            refused(lambda: c.set("k", "new"), "Connection", "closed")
            expect(d.child.wait(timeout=30) == 1, "the exit status")
        said = d.said()
        expect("refuses writes" in said and "as --on-error exit says" in said, said)
        d.restart()
        expect(d.client().get("k") in (b"old", b"new"), "the value")
        return ""


def case_end_in_outage():
    """SIGTERM while writes fail: it ends within seconds, and what was acknowledged is there"""
    with daemon() as d:
        d.client().set("k", "v")
        with outage(d):
            writers = [Writer(d, number) for number in range(4)]
            for w in writers:
                w.start()
            time.sleep(1)
            begun = time.monotonic()
            expect(d.end() == 0, "the exit status")
            took = time.monotonic() - begun
        for w in writers:
            w.join()
        expect(took < 30, f"took {took:.1f} s")
        d.start()
        expect(d.client().get("k") == b"v", "lost")
        return f"{took:.1f} s"
