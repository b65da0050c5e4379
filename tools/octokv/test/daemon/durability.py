# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: acknowledged writes outlive restarts, crashes, moves and damage."""
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

import redis

from kit import START_S, STRIDE, Failed, daemon, expect, in_thread, refused, run_once, users_file


def case_restart():
    """writes survive an orderly end and a new start, also with another number of reactors"""
    with daemon() as d:
        c = d.client()
        c.mset({f"k{i}": f"v{i}" * 50 for i in range(2000)})
        c.delete(*[f"k{i}" for i in range(0, 2000, 3)])
        c.set("later", 1, px=60000)
        for cores in ("2", "1", "4"):
            expect(d.end() == 0, "did not end well")
            d.options = ("--cores", cores)
            d.start()
            c = d.client()
            values = c.mget(*[f"k{i}" for i in range(2000)])
            expect(values == [None if i % 3 == 0 else (f"v{i}" * 50).encode() for i in range(2000)],
                   f"with {cores} cores")
            expect(0 < c.pttl("later") <= 60000, "the expiry")
        expect(d.end() == 0 and "1334 keys" in run_once("--data", d.data, "--check"), "--check")
        return "2000 keys, 1, 2 and 4 reactors"


class Writer(threading.Thread):
    """Writes until the connection breaks.

    Remembers what was acknowledged, and the one write that may have happened.
    """

    def __init__(self, d, number, **user):
        super().__init__(daemon=True)
        self.client, self.number, self.user = d.client(**user), number, user
        self.known, self.doubt, self.nr_acknowledged, self.stop = {}, {}, 0, False

    def run(self):
        rng = random.Random(self.number)
        while not self.stop:
            key, delete = f"{self.number}:{rng.randrange(200)}", rng.random() < 0.2
            value = None if delete else f"{self.nr_acknowledged}-".encode() * rng.randrange(1, 2000)
            self.doubt = {key: value}
            try:
                if delete:
                    self.client.delete(key)
                else:
                    self.client.set(key, value)
            except (redis.RedisError, OSError):
                return
            self.known[key], self.doubt = value, {}
            self.nr_acknowledged += 1


def wait_for_acknowledged(writers, nr):
    """Wait until the daemon has acknowledged @nr writes of all @writers together."""
    until = time.monotonic() + START_S
    while sum(w.nr_acknowledged for w in writers) < nr:
        expect(time.monotonic() < until, "too slow")
        time.sleep(0.01)


def verify(d, writers):
    """Each key has its last acknowledged value, or that of the write that got no answer."""
    for w in writers:
        c = d.client(**w.user)
        for key, value in w.known.items():
            found = c.get(key)
            if found == value or (key in w.doubt and found == w.doubt[key]):
                w.known[key] = found
                continue
            raise Failed(f"{key} has {found and found[:40]!r}, not {value and value[:40]!r}")
        for key, value in w.doubt.items():
            expect(c.get(key) in (value, w.known.get(key)),
                   f"{key} has a value that no client wrote")
            w.known[key] = c.get(key)
        w.doubt = {}


def case_kill():
    """kill -9 under load, several times: every acknowledged write is there"""
    rounds = int(os.environ.get("ROUNDS", "4"))
    with daemon() as d:
        known, total = {}, 0
        for _ in range(rounds):
            writers = [Writer(d, number) for number in range(4)]
            for w in writers:
                w.known = known.get(w.number, {})
                w.start()
            wait_for_acknowledged(writers, 400)
            d.end(signal.SIGKILL)
            for w in writers:
                w.join()
            total += sum(w.nr_acknowledged for w in writers)
            d.start()
            verify(d, writers)
            known = {w.number: w.known for w in writers}
        return f"{rounds} times, {total} acknowledged writes"


def case_power_cut():
    """the power of the device is cut under load of two users: every acknowledged write is there"""
    rounds = int(os.environ.get("ROUNDS", "3"))
    with tempfile.TemporaryDirectory() as folder:
        path = users_file(folder, ann="weight=200", bob="")
        users = [{"username": name, "password": f"pw-{name}"} for name in ("ann", "bob")]
        with daemon("--users", path, device=os.environ["DEVICE"]) as d:
            known, total = {}, 0
            for _ in range(rounds):
                writers = [Writer(d, number, **users[number % 2]) for number in range(4)]
                noise = subprocess.Popen([
                    "redis-benchmark", "-p",
                    str(d.port), "--user", "ann", "-a", "pw-ann", "-t", "set", "-n", "100000", "-r",
                    "500", "-c", "4", "-d", "4096", "-q"
                ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                for w in writers:
                    w.known = known.get(w.number, {})
                    w.start()
                wait_for_acknowledged(writers, 300)
                power("1")
                d.end(signal.SIGKILL)
                noise.kill()
                noise.wait()
                for w in writers:
                    w.join()
                power("0")
                total += sum(w.nr_acknowledged for w in writers)
                d.start()
                verify(d, writers)
                known = {w.number: w.known for w in writers}
    return f"{rounds} cuts, {total} acknowledged writes"


def power(value):
    with open(os.environ["POWER_CUT"], "w", encoding="ascii") as handle:
        handle.write(value)


def case_moves():
    """partitions move all the time: replies in order, no loss, SCAN, FLUSHALL, an end meanwhile"""
    moving = ("--cores", "3", "--balance-overload", "0", "--balance-gap", "0", "--balance-window",
              "100")
    with daemon(*moving) as d:
        # The reactor whose connection is used gives partitions away, each reactor in turn.
        clients, nr, rounds = [d.client() for _ in range(12)], 0, 0
        while sum(clients[0].info("reactors")[f"reactor{i}"]["migrated"] for i in range(3)) < 12:
            expect(rounds < 400, "partitions do not move")
            c = clients[rounds // 4 % len(clients)]
            rounds += 1
            pipe = c.pipeline(transaction=False)
            for i in range(300):
                pipe.incr(f"n{i % 7}").set(f"k{i}", nr + i).get(f"k{i}").append(f"a{i % 5}", "x")
            replies = pipe.execute()
            expect([int(x) for x in replies[2::4]] == [nr + i for i in range(300)],
                   "a GET did not see the SET before it")
            expect(sum(int(x) for x in c.mget(*[f"n{i}" for i in range(7)])) == 300 * rounds,
                   "an INCR was lost or done twice")
            nr += 300
            if rounds % 5 == 0:
                expect(len(set(c.scan_iter(count=50))) == 312 and c.dbsize() == 312, "SCAN")
        stop = threading.Event()

        def load():
            other = d.client()
            while not stop.is_set():
                other.set("later", bytes(5000))
                expect(set(other.scan_iter(count=5)) >= {b"later"}, "SCAN while partitions move")
                other.flushdb()
        join = in_thread(load)
        time.sleep(1)
        stop.set()
        join()
        c.set("last", "word")
        moved = sum(c.info("reactors")[f"reactor{i}"]["migrated"] for i in range(3))
        expect(d.end() == 0, "did not end well")
        d.start()
        expect(d.client().get("last") == b"word", "lost in a move")
    return f"{moved} moves"


def flip(path, at, bytes_=1):
    with open(path, "r+b") as handle:
        handle.seek(at)
        old = handle.read(bytes_)
        handle.seek(at)
        handle.write(bytes(255 - b for b in old))
        handle.flush()
        os.fsync(handle.fileno())


def case_damaged():
    """a damaged value is an error and is counted; of 4 superblocks 2 are mended, 3 are not"""
    with daemon(size="256m") as d:
        c = d.client()
        value = random.Random(1).randbytes(5000)
        c.set("good", "value")
        c.set("bad", value)
        expect(d.end() == 0, "did not end well")
        with open(d.data, "rb") as handle:
            at = handle.read().find(value)
        expect(at > 0, "the value is not in the file")
        flip(d.data, at + 2500)
        flip(d.data, 0, 200)
        flip(d.data, 3 * STRIDE, 200)
        d.start()
        expect("2 of 4 copies of the superblock are damaged; they are mended" in d.said(), d.said())
        c = d.client()
        refused(lambda: c.get("bad"), "CORRUPT")
        expect(c.get("good") == b"value" and c.info()["checksum_errors"] >= 1, "the counter")
        c.set("bad", "new")
        expect(c.get("bad") == b"new", "it can be written again")
        expect(d.end() == 0, "did not end well")
        for copy in (0, 1, 3):
            flip(d.data, copy * STRIDE, 200)
        expect("damaged" in run_once("--data", d.data, "--port", str(d.port), status=1),
               "3 damaged superblocks")
        flip(d.data, STRIDE, 200)
        d.start()
    return ""


def case_full():
    """a full device refuses writes, reads go on, and deletes make room"""
    with daemon(size="256m") as d:
        c, nr, replies = d.client(), 0, [True]
        while replies[-1] is True:
            expect(nr < 10000, f"{nr} values of 60000 bytes in 256 MiB")
            pipe = c.pipeline(transaction=False)
            for i in range(nr, nr + 50):
                pipe.set(f"k{i}", bytes([i % 256]) * 60000)
            replies = pipe.execute(raise_on_error=False)
            refusal = next((r for r in replies if r is not True), None)
            nr += replies.index(refusal) if replies[-1] is not True else 50
        expect(nr > 1000 and str(replies[-1]).startswith("FULL"), f"after {nr}: {replies[-1]}")
        c.delete(*[f"k{i}" for i in range(nr, nr + 50)])
        for i in (0, nr // 2, nr - 1):
            expect(c.get(f"k{i}") == bytes([i % 256]) * 60000, f"k{i} when full")
        expect(c.delete(*[f"k{i}" for i in range(0, nr, 2)]) == (nr + 1) // 2,
               "deletes on a full device")
        written = 0
        for i in range(nr // 4):
            for _ in range(200):
                try:
                    written += bool(c.set(f"n{i}", bytes(60000)))
                    break
                except redis.ResponseError:
                    time.sleep(0.05)
        expect(written == nr // 4,
               f"after {nr // 2} deletes {written} of {nr // 4} writes found room")
        expect(c.get("k1") == bytes([1]) * 60000, "what was there is there")
        return f"{nr} values, half of them deleted, {written} new ones"


def case_trim():
    """--trim gives the room of a file back to the file system; without it the file only grows"""
    used_mib = {}
    for options in ((), ("--trim",)):
        with daemon("--partitions", "2", *options, size="512m") as d:
            c = d.client()
            for number in range(150):
                c.set(f"k{number}", os.urandom(1 << 20))
            full_mib = used_mib[options] = os.stat(d.data).st_blocks >> 11
            c.delete(*[f"k{number}" for number in range(150)])
            until = time.monotonic() + 2 * START_S
            # A segment is free when two checkpoints have begun, which the log's growth causes.
            while (used_mib[options] > full_mib - 32 if options else
                   c.info()["checkpoints"] < 20):
                for number in range(8):
                    c.set(f"again{number}", os.urandom(1 << 20))
                used_mib[options] = os.stat(d.data).st_blocks >> 11
                expect(time.monotonic() < until, str(c.info("persistence")))
            expect(len(c.get("again0")) == 1 << 20, "what is live is there")
    expect(used_mib[()] >= full_mib, f"{used_mib}, full {full_mib}")
    return f"{full_mib} MiB when full; later {used_mib[()]}, with --trim {used_mib[options]}"
