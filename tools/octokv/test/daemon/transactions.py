# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: MULTI, EXEC and WATCH as client libraries use them."""
import random
import signal
import threading

import redis

from kit import daemon, expect, in_thread, refused


def case_transactions():
    """redis-py's default pipeline, WATCH, transaction(); what one store of one partition takes"""
    with daemon("--partitions", "1", "--size", "512m", "--cores", "2", size=None) as d:
        for protocol in (2, 3):
            c = d.client(protocol=protocol)
            c.flushall()
            expect(c.pipeline().set("a", 1).incr("a").get("a").mget("a", "b").execute() ==
                   [True, 2, b"2", [b"2", None]], "the replies")
            pipe = c.pipeline()
            pipe.mset({f"k{i}": i for i in range(200)})
            for i in range(200):
                pipe.expire(f"k{i}", 100)
            expect(pipe.execute() == [True] * 201 and c.ttl("k199") > 90, "many keys")

            def add(pipe):
                value = int(pipe.get("n") or 0)
                pipe.multi()
                pipe.set("n", value + 1)

            def work():
                mine = d.client(protocol=protocol)
                for _ in range(50):
                    mine.transaction(add, "n")
            for join in [in_thread(work) for _ in range(4)]:
                join()
            expect(c.get("n") == b"200", f"{c.get('n')} of 200")
            with c.pipeline() as pipe:
                pipe.watch("n")
                c.set("n", "other")
                pipe.multi()
                pipe.set("n", "lost")
                try:
                    pipe.execute()
                    expect(False, "WATCH saw nothing")
                except redis.WatchError:
                    pass
            expect(c.get("n") == b"other", "the value")
        expect(d.end() == 0, "did not end well")
        d.start()
        expect(d.client().get("k7") == b"7", "lost")
    return "2 protocols"


def case_lock():
    """redis-py's Lock: acquire, extend, reacquire, release, and of another owner; other scripts"""
    with daemon() as d:
        c = d.client()
        lock, other = c.lock("lock", timeout=10), c.lock("lock", timeout=10, blocking=False)
        expect(lock.acquire() and not other.acquire(), "acquire")
        expect(lock.extend(20) and 20000 < c.pttl("lock") <= 30000, "extend")
        expect(lock.extend(5, replace_ttl=True) and c.pttl("lock") <= 5000, "extend from now")
        expect(lock.reacquire() and 5000 < c.pttl("lock") <= 10000, "reacquire")
        other.local.token = b"another"
        refused(other.release, "Cannot release")
        refused(lambda: other.extend(10), "Cannot extend")
        lock.release()
        expect(not c.exists("lock") and other.acquire(), "release")
        c.persist("lock")
        refused(lambda: other.extend(10), "Cannot extend")
        refused(lambda: c.evalsha("0" * 40, 1, "lock", "x"), "there are no scripts")
    return ""


def case_crossing():
    """a transaction over several partitions is refused, and nothing of it is run"""
    with daemon() as d:
        c = d.client()
        pipe = c.pipeline()
        for i in range(20):
            pipe.incr(f"k{i}")
        refused(pipe.execute, "CROSSSLOT", "several partitions")
        expect(c.dbsize() == 0, "some of it was run")
        expect(c.pipeline().incr("k").expire("k", 100).execute() == [1, True], "one key")
    return ""


def case_renames():
    """RENAMEs of many clients at once, over partitions: one has the value, and none is lost"""
    nr_clients, nr_rounds = 6, 60
    with daemon("--size", "512m", size=None) as d:
        c = d.client()
        names = [f"slot{i}" for i in range(8)]
        barrier = threading.Barrier(nr_clients)
        took = [0] * nr_rounds

        def claim(number):
            mine = d.client()
            for turn in range(nr_rounds):
                if not number:
                    mine.set("job", turn)
                barrier.wait(60)
                try:
                    mine.rename("job", f"worker{number}")
                    took[turn] += 1
                except redis.ResponseError as error:
                    expect("no such key" in str(error) or "was renamed" in str(error), str(error))
                barrier.wait(60)

        def swap(number):
            mine = d.client()
            rng = random.Random(number)
            for _ in range(nr_rounds):
                try:
                    mine.renamenx(*rng.sample(names, 2))
                except redis.ResponseError as error:
                    expect("no such key" in str(error) or "was renamed" in str(error), str(error))
        for join in [in_thread(lambda n=n: claim(n)) for n in range(nr_clients)]:
            join()
        expect(all(nr == 1 for nr in took), f"clients that had the value: {took}")
        c.mset({name: name for name in names[:4]})
        for join in [in_thread(lambda n=n: swap(n)) for n in range(nr_clients)]:
            join()
        left = {value for value in c.mget(names) if value}
        expect(len(left) == 4, f"of 4 values {left} are left")
        return f"{nr_clients} clients, {nr_rounds} rounds"


def case_torn():
    """kill -9 while two keys are always written together: they are equal at every start"""
    with daemon("--partitions", "1", "--size", "512m", size=None) as d:
        last = [0] * 4
        for _ in range(4):
            def write(number):
                c, rng = d.client(), random.Random(number)
                try:
                    while True:
                        value = f"{last[number] + 1}-".encode() * rng.randrange(1, 1000)
                        c.pipeline().set(f"{number}:a", value).set(f"{number}:b", value).execute()
                        last[number] += 1
                except (redis.RedisError, OSError):
                    pass
            threads = [threading.Thread(target=write, args=[number]) for number in range(4)]
            for thread in threads:
                thread.start()
            before = sum(last)
            while sum(last) < before + 100:
                threads[0].join(0.01)
            d.end(signal.SIGKILL)
            for thread in threads:
                thread.join()
            d.start()
            c = d.client()
            for number in range(4):
                a, b = c.mget(f"{number}:a", f"{number}:b")
                expect(a == b, f"{a and a[:20]} and {b and b[:20]}")
                found = int(a.split(b"-")[0]) if a else 0
                expect(found in (last[number], last[number] + 1), f"{found}, not {last[number]}")
                last[number] = found
        return f"{sum(last)} transactions"
