# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: real clients, with all kinds of commands and sizes."""
import json
import os
import random
import signal
import subprocess
import tempfile
import time

import redis

from kit import BUILD, Failed, PORT, daemon, expect, in_thread, refused, run_once


def case_redis_py():
    """redis-py, with RESP2 and RESP3: values, numbers, expiry, many keys, scan, pipelines"""
    with daemon() as d:
        for protocol in (2, 3):
            c = d.client(protocol=protocol)
            expect(c.ping() and c.flushall(), "ping")
            blob = bytes(range(256)) * 64
            expect(c.set("k", blob) and c.get("k") == blob, "a binary value")
            expect(c.set("k", "w", nx=True) is None and c.set("k", "w", xx=True, get=True) == blob,
                   "NX, XX, GET")
            expect(c.incrby("n", 5) == 5 and c.decr("n") == 4 and c.append("n", "2") == 2 and
                   c.incr("n") == 43, "numbers")
            expect(c.incrbyfloat("f", 1.5) == 1.5, "floats")
            expect(c.expire("k", 100) and 98 <= c.ttl("k") <= 100 and c.persist("k") and
                   c.ttl("k") == -1, "expiry")
            expect(c.mset({f"m:{i}": i for i in range(300)}) and
                   c.mget("m:7", "none", "m:299") == [b"7", None, b"299"], "MSET, MGET")
            expect(len(list(c.scan_iter(match="m:*", count=17))) == 300, "SCAN")
            expect(c.delete(*[f"m:{i}" for i in range(300)]) == 300 and
                   c.exists("m:1", "k", "k") == 2, "DEL, EXISTS")
            expect(c.dbsize() == 3 and c.info()["db0"]["keys"] == 3 and c.type("k") == b"string",
                   "DBSIZE, INFO, TYPE")
            pipe = c.pipeline(transaction=False)
            for i in range(500):
                pipe.set(f"p{i}", i).get(f"p{i}")
            expect(pipe.execute() == [x for i in range(500) for x in (True, str(i).encode())],
                   "a pipeline")
            c.set("e", blob)
            expect(c.execute_command("SET", "e", "w", "IFEQ", "v") is None and
                   c.execute_command("DELIFEQ", "e", "w") == 0 and c.get("e") == blob and
                   c.execute_command("SET", "e", "w", "IFEQ", blob) and
                   c.execute_command("DELIFEQ", "e", "w") == 1 and not c.exists("e"), "IFEQ")
            for _ in range(3):
                refused(c.pipeline().incr("t").lpush("t", 1).execute, "EXECABORT", "unknown")
            expect(c.exists("t") == 0 and c.ping(), "a refused transaction was run")
            c.setrange("k", 0, "abc")
            expect(c.getrange("k", 1, 2) == b"bc" and c.strlen("k") == 3 and
                   c.getdel("k") == b"abc" and c.get("k") is None, "ranges")
            try:
                c.lpush("list", 1)
                raise Failed("LPUSH is no command of ours")
            except redis.ResponseError as error:
                expect("unknown command" in str(error), str(error))
        return "RESP2 and RESP3"


def case_redis_cli():
    """redis-cli: words, --scan, --bigkeys, -3, INFO"""
    with daemon() as d:
        def cli(*words, given=None):
            return subprocess.run(["redis-cli", "-p", str(d.port), *words], input=given, text=True,
                                  stdout=subprocess.PIPE, check=True, timeout=60).stdout
        expect(cli("SET", "k", "a b") == "OK\n" and cli("GET", "k") == "a b\n", "SET, GET")
        expect(cli("-3", "HELLO").startswith("server octokvd") or "octokvd" in cli("-3", "HELLO"),
               "HELLO")
        expect(cli(given="SET a 1\nINCR a\nGET a\n").split() == ["OK", "2", "2"],
               "words on standard input")
        expect(sorted(cli("--scan").split()) == ["a", "k"], "--scan")
        expect("2 keys" in cli("--bigkeys"), "--bigkeys")
        expect("octokvd_version" in cli("INFO", "server"), "INFO")
        expect("reactor0:" in run_once("--stats", "--port", str(d.port)), "--stats")
        return ""


def case_redis_benchmark():
    """redis-benchmark: ping, set, get, mset, with and without pipelining"""
    with daemon() as d:
        for options in (["-P", "1", "-c", "16"], ["-P", "16", "-c", "4", "-d",
                                                  "4096"], ["-P", "4", "-3"]):
            done = subprocess.run([
                "redis-benchmark", "-p",
                str(d.port), "-t", "ping,set,get,mset,incr", "-n", "1500", "-r", "300", "--csv",
                *options
            ], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                                  check=False)
            expect(done.returncode == 0 and done.stdout.count("\n") >= 6 and
                   "rror" not in done.stdout, done.stdout[-500:])
        stats = d.client().info()
        expect(stats["total_error_replies"] == 0 and stats["reactor0"]["store"] and
               stats["reactor1"]["store"], str(stats))
        return f"{stats['total_commands_processed']} commands over two reactors"


def case_hiredis():
    """a C client: a pipeline, a value of 1 MiB, RESP3"""
    with daemon() as d:
        done = subprocess.run([os.path.join(BUILD, "test/daemon/hiredis"),
                               str(d.port)], stdout=subprocess.PIPE, text=True, timeout=300,
                              check=False)
        expect(done.returncode == 0, done.stdout)
        return done.stdout.strip()


def case_bench():
    """octokv-bench: every workload, closed and open loop, its counts and its JSON; Host-KVS"""
    bench = os.path.join(BUILD, "octokv-bench-asan")

    def run(*words):
        done = subprocess.run([
            bench, "--port",
            str(PORT), "--records", "400", "--value-bytes", "1000", "--quiet", *words
        ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        expect(done.returncode == 0 and not done.stderr, f"{words}: {done.stderr}")
        found = json.loads(done.stdout)
        expect(found["errors"] == 0 and
               all(t["p50_us"] <= t["p99_us"] <= t["p99.9_us"] for t in found["times"].values()),
               str(found))
        expect(sum(t["nr"] for t in found["times"].values()) == found["requests"],
               f"requests without a time: {found}")
        return found
    with daemon() as d, tempfile.TemporaryDirectory(dir=BUILD) as folder:
        found = run("--fill", "fillrandom")
        expect(found["requests"] == 400 and d.client().dbsize() == 400, f"--fill: {found}")
        for workload, kinds in {
                "fillrandom": {"set"}, "readrandom": {"get"}, "ycsb-a": {"get", "set"},
                "ycsb-b": {"get", "set"}, "ycsb-c": {"get"}, "ycsb-d": {"get", "set"},
                "ycsb-e": {"scan", "set"}, "ycsb-f": {"get", "rmw"}
        }.items():
            found = run("--requests", "600", "--clients", "7", workload)
            expect(found["requests"] == 600 and set(found["times"]) == kinds, str(found))
            # A key may be asked for before its insertion is done.
            expect(not found["missing"] or workload in ("ycsb-d", "ycsb-e"), str(found))
        found = run("--requests", "300", "--rate", "1000", "--clients", "4", "ycsb-a")
        expect(found["requests"] == 300 and found["seconds"] >= 0.299, f"sooner than due: {found}")
        found = run("--requests", "60", "--clients", "3", "--host-kvs", folder, "fillrandom")
        expect(found["requests"] == 60 and not os.listdir(folder), f"Host-KVS: {found}")
    return "8 workloads"


def case_sizes():
    """keys of up to 1 KiB and values of 0 bytes to 8 MiB; a byte more is refused"""
    with daemon(size="256m") as d:
        c = d.client()
        sizes = [0, 1, 511, 4096, 16384, 65537, 1 << 20, 8 << 20]
        for size in sizes:
            value = random.Random(size).randbytes(size)
            c.set("v", value)
            expect(c.get("v") == value and c.strlen("v") == size, f"a value of {size} bytes")
        expect(c.set("k" * 1024, 1) and c.get("k" * 1024) == b"1", "a key of 1024 bytes")
        for args in (("SET", "k" * 1025, 1), ("APPEND", "v", "x"), ("SETRANGE", "v", 8 << 20, "x"),
                     ("SET", "", 1)):
            try:
                c.execute_command(*args)
                raise Failed(f"{args[0]} with {len(args[1])} bytes of key was taken")
            except redis.ResponseError:
                pass
        try:
            c.set("v", bytes((8 << 20) + 1))
            raise Failed("a value of 8 MiB and a byte was taken")
        except (redis.ResponseError, redis.ConnectionError):
            pass
        expect(c.strlen("v") == 8 << 20, "a refused write changed something")
        return f"values of {sizes}"


def case_hot_key():
    """a counter of eight clients, who each send 500 INCRs at once: each counts, in few writes"""
    with daemon() as d:
        c = d.client()
        c.set("hot", 0)
        before = c.info()
        said = [None] * 8

        def count(number):
            pipe = d.client().pipeline(transaction=False)
            for i in range(500):
                pipe.incr("hot")
                if i % 100 == 50:
                    pipe.set("hot", 0, nx=True).expire("hot", 1000)
            replies = pipe.execute()
            expect(sum(reply is None for reply in replies) == 5 and
                   sum(reply is True for reply in replies) == 5, "SET NX and EXPIRE")
            said[number] = [reply for reply in replies if type(reply) is int]
        joins = [in_thread(lambda n=number: count(n)) for number in range(8)]
        for join in joins:
            join()
        expect(all(numbers == sorted(numbers) for numbers in said), "a client counted backwards")
        expect(sorted(sum(said, [])) == list(range(1, 4001)), "a number is lost, or there twice")
        after = c.info()
        expect(c.get("hot") == b"4000" and 900 < c.ttl("hot") <= 1000, "the last one")
        writes = after["write_batches"] - before["write_batches"]
        expect(writes < 1000 and after["joined_writes"] > 3000,
               f"{writes} writes, {after['joined_writes']} joined")
        d.end(signal.SIGKILL)
        d.start()
        expect(d.client().get("hot") == b"4000", "after kill -9")
        return f"4080 commands in {writes} writes"


def case_large_expiry():
    """three expiries of a value of 8 MiB write less than 64 KiB, and hold after kill -9"""
    value = os.urandom(8 << 20)
    with daemon() as d:
        c = d.client()
        c.set("large", value)
        before = c.info()
        expect(c.expire("large", 1000) and c.expire("large", 3000, gt=True) and
               c.getex("large", ex=2000) == value, "the answers")
        after = c.info()
        written = after["write_batch_bytes"] - before["write_batch_bytes"]
        expect(written < 64 << 10 and after["expiry_records"] - before["expiry_records"] == 3,
               f"{written} bytes")
        pipe = c.pipeline()
        pipe.strlen("large").expire("large", 2000).ttl("large").getrange("large", 0, 1)
        expect(pipe.execute() == [8 << 20, True, 2000, value[:2]], "MULTI")
        expect(c.info()["expiry_records"] - before["expiry_records"] == 4, "an EXPIRE in MULTI")
        d.end(signal.SIGKILL)
        d.start()
        c = d.client()
        expect(1900 < c.ttl("large") <= 2000 and c.persist("large"), "after kill -9")
        expect(c.ttl("large") == -1 and c.get("large") == value, "PERSIST")
        return f"{written} bytes of the log"


def case_expiry():
    """an expired key is not served, however lately it expired"""
    with daemon() as d:
        c = d.client()
        for i in range(30):
            c.psetex(f"k{i}", 10, "v")
            time.sleep(0.011 + 0.002 * i)
            expect(c.get(f"k{i}") is None and not c.exists(f"k{i}"), f"after {11 + 2 * i} ms")
        return ""
