# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: values and whole stores go to Valkey and come back, and wrong files."""
import contextlib
import os
import random
import signal
import subprocess
import tempfile
import threading
import time

import redis

from kit import (BUILD, OCTOKVD, PORT, Daemon, daemon, expect, in_thread, refused, run_once,
                 users_file)

VALKEY_PORT = PORT + 20
SIZE = ["--size", "512m"]
ROOT_BYTES, ROOTS_AT = 4096, (1 << 20, (1 << 20) + (128 << 10))


def lose_roots(path, partitions):
    """Overwrite both roots of each of these partitions, of 32 at most."""
    with open(path, "r+b") as data:
        for at in ROOTS_AT:
            for partition in partitions:
                data.seek(at + partition * ROOT_BYTES)
                data.write(bytes(ROOT_BYTES))


@contextlib.contextmanager
def valkey(folder, *options):
    """A valkey-server that loads dump.rdb in @folder, and its client."""
    with open(os.path.join(folder, "valkey.log"), "w+", encoding="utf-8") as log:
        argv = ["valkey-server", "--port", str(VALKEY_PORT), "--bind", "127.0.0.1", "--save", "",
                "--dir", folder, "--dbfilename", "dump.rdb", "--databases", "1024", *options]
        child = subprocess.Popen(argv, stdout=log, stderr=log)
        client = redis.Redis(port=VALKEY_PORT, socket_timeout=60)
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    client.dbsize()
                    break
                except redis.RedisError:
                    log.seek(0)
                    expect(child.poll() is None and time.monotonic() < until, log.read()[-2000:])
                    time.sleep(0.05)
            yield client
        finally:
            client.close()
            child.terminate()
            child.wait()


def answer(client, *words):
    try:
        return client.execute_command(*words)
    except redis.ResponseError as error:
        return str(error)


def samples(rng):
    """Values of all lengths of length fields, integers, and what LZF packs or does not."""
    values = [b"", b"x", b"0", b"-1", b"12345", b"-128", b"128", b"-32769", b"2147483647",
              b"2147483648", b"-2147483649", b"007", b"ab" * 5000, bytes(range(256)) * 20]
    values += [rng.randbytes(n) for n in (63, 64, 300, 16383, 16384, 70000, 1 << 20)]
    values += [bytes(rng.choice(b"abc") for _ in range(n)) for n in (21, 100, 5000, 40000)]
    return values


def check_rdb(path):
    done = subprocess.run(["valkey-check-rdb", path], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=60)
    expect(done.returncode == 0 and "RDB looks OK" in done.stdout, done.stdout)


def case_as_valkey():
    """bits, copies, renames, dumps: the replies and errors of Valkey, word for word"""
    talks = """SET k foobar|BITCOUNT k|BITCOUNT k 0 0|BITCOUNT k 1|BITCOUNT k 5 30 BIT
BITCOUNT k -7 -2 BYTE|BITCOUNT k -2 -7|BITCOUNT k 3 1 BIT|BITCOUNT k x 1|BITCOUNT k 0 1 NIBBLE
BITCOUNT k 0 1 BIT x|BITCOUNT none 0 -1|BITCOUNT k -100 100|BITCOUNT k 6 7|GETBIT k 0|GETBIT k 1
GETBIT k 4294967295|GETBIT k 4294967296|GETBIT k -1|GETBIT k x|GETBIT none 5|SETBIT k 6 0
SETBIT k 100 1|SETBIT k 100 1|SETBIT k 100 0|SETBIT k 1 2|SETBIT k x 1|SETBIT k -1 1|STRLEN k
SETBIT new 7 1|GET new|GET k|SETBIT k 1|BITCOUNT|COPY k l|COPY k l|COPY k l REPLACE|GET l|COPY k k
COPY none l|COPY k m DB 0|COPY k m DB x|COPY k m DB 99999|COPY k m other|COPY k m DB|COPY k
EXPIRE k 1000|COPY k n|TTL n|RENAME k o|TTL o|GET k|RENAME none o|RENAME o o|RENAME none none
RENAMENX o l|RENAMENX o p|RENAMENX none p|RENAMENX p p|RENAME o|PERSIST p|RENAME p l|TTL l
MSETNX a 1|MSETNX a 2|GET a|MSETNX a|MSETNX a 1 b|DUMP none|DUMP|RESTORE z 0 short|RESTORE z 0
RESTORE z -1 x|RESTORE y x x|RESTORE z 0 1234567890123456|RESTORE y 0 x NOTHING|RESTORE l 0 x
RESTORE y 0 x FREQ 256|RESTORE y 0 x IDLETIME -1|RESTORE y 0 x IDLETIME 1 FREQ 1|GETDEL l"""
    with daemon() as d, tempfile.TemporaryDirectory(dir=BUILD) as folder, valkey(folder) as v:
        c = d.client()
        nr = 0
        for line in talks.replace("|", "\n").splitlines():
            mine, theirs = answer(c, *line.split()), answer(v, *line.split())
            # One of them looks for the key first.
            if line == "RESTORE l 0 x":
                expect("payload" in mine and "BUSYKEY" in theirs, f"{line}: {mine}, {theirs}")
                continue
            expect(mine == theirs, f"{line}: {mine!r}, Valkey {theirs!r}")
            nr += 1
        rng = random.Random(1)
        for value in samples(rng):
            v.set("k", value, px=100000)
            expect(c.restore("k", v.pttl("k"), v.dump("k"), replace=True) == b"OK" and
                   c.get("k") == value and 0 < c.pttl("k") <= 100000, f"to us: {value[:40]}")
            expect(v.restore("k", 0, c.dump("k"), replace=True) == b"OK" and
                   v.get("k") == value and v.pttl("k") == -1, f"to Valkey: {value[:40]}")
        refused(lambda: c.restore("k", 0, v.dump("k")), "BUSYKEY")
        v.rpush("list", 1)
        refused(lambda: c.restore("list", 0, v.dump("list")), "Bad data format")
        past = int(time.time() * 1000) - 1000
        for client in (c, v):
            expect(client.restore("k", past, v.dump("k"), replace=True, absttl=True) == b"OK" and
                   not client.exists("k"), "a time in the past")
        return f"{nr} replies, {len(samples(rng))} values"


def case_dump():
    """--dump: valkey-check-rdb and Valkey take it, with expiries, users as databases"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb = os.path.join(folder, "dump.rdb")
        users = users_file(folder, ann="", bob="")
        with daemon("--users", users, size="512m") as d:
            ann, bob = (d.client(username=name, password=f"pw-{name}") for name in ("ann", "bob"))
            values = samples(random.Random(2))
            for i, value in enumerate(values):
                ann.set(f"k{i}", value)
                ann.set(f"e{i}", value, px=1000000 + i)
            ann.set("gone", 1, px=1)
            bob.mset({f"b{i}": i for i in range(3000)})
            bob.delete("b7")
            expect("in use" in run_once("--data", d.data, "--dump", rdb, status=1), "it is served")
            d.end(signal.SIGKILL)
            with open(d.data, "rb") as data:
                before = data.read(64 << 20)
            said = run_once("--data", d.data, "--dump", rdb)
            expect(f": {2 * len(values) + 2999} keys" in said, said)
            with open(d.data, "rb") as data:
                expect(data.read(64 << 20) == before, "a dump has written to the store")
            check_rdb(rdb)
            with valkey(folder) as v:
                v.select(1)
                expect(v.dbsize() == 2 * len(values), "keys of ann")
                for i, value in enumerate(values):
                    expect(v.get(f"k{i}") == value and v.ttl(f"k{i}") == -1, f"k{i}")
                    expect(v.get(f"e{i}") == value and
                           900000 < v.pttl(f"e{i}") <= 1000000 + i, f"e{i}")
                v.select(2)
                expect(v.dbsize() == 2999 and v.get("b8") == b"8", "keys of bob")
            run_once("--data", d.data, "--dump", rdb, "--user-id", "2")
            with valkey(folder) as v:
                expect(v.dbsize() == 2999 and v.get("b2999") == b"2999", "as database 0")
            expect(os.listdir(folder).count("dump.rdb") == 1 and
                   not os.path.exists(rdb + ".part"), "left over")
            for target, words in ((folder, "or no file"), ("/dev/null", "or no file"),
                                  (os.path.join(folder, "none", "x"), "No such file")):
                expect(words in run_once("--data", d.data, "--dump", target, status=1), target)
            expect("replace" in run_once("--data", d.data, "--dump", d.data, status=1),
                   "over the store itself")
            os.link(d.data, rdb + ".part")
            expect("replace" in run_once("--data", d.data, "--dump", rdb, status=1) and
                   os.path.samefile(d.data, rdb + ".part"), "a store named FILE.part")
            os.unlink(rdb + ".part")
            run_once("--data", d.data, "--user-id", "1", status=2)
            d.start()
            expect(d.client(username="bob", password="pw-bob").get("b9") == b"9", "afterwards")
        return f"{2 * len(values) + 2999} keys"


def case_compress():
    """--compress, and compress in the users file: values shrink on the device, and nowhere else"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb = os.path.join(folder, "dump.rdb")
        users = users_file(folder, ann="compress", bob="admin")
        values = {f"k{i}": f"{i} ".encode() * 8000 for i in range(100)}
        nr_bytes = sum(map(len, values.values()))
        with daemon("--users", users, size="512m") as d:
            ann, bob = (d.client(username=name, password=f"pw-{name}") for name in ("ann", "bob"))
            bob.mset(values)
            expect(bob.info("persistence")["compressed_values"] == 0, "bob did not ask for it")
            ann.mset(values)
            info = bob.info("persistence")
            expect(info["compressed_values"] == len(values) and
                   nr_bytes / 2 < info["compression_saved_bytes"] < nr_bytes, str(info))
            expect(ann.append("k1", "end") == len(values["k1"]) + 3, "APPEND")
            values["k1"] += b"end"
            bob.append("k1", "end")
            d.end(signal.SIGKILL)
            run_once("--data", d.data, "--check")
            run_once("--data", d.data, "--dump", rdb, "--user-id", "1")
            d.start()
            for name in ("ann", "bob"):
                c = d.client(username=name, password=f"pw-{name}")
                expect(c.mget(list(values)) == list(values.values()), f"values of {name}")
                expect(c.strlen("k1") == len(values["k1"]) and c.getrange("k1", -3, -1) == b"end",
                       f"parts of a value of {name}")
        check_rdb(rdb)
        new = os.path.join(folder, "new.img")
        said = run_once("--data", new, *SIZE, "--load", rdb, "--compress")
        expect(f"{len(values)} keys loaded" in said, said)
        with daemon("--compress", device=new, is_formatted=True) as d:
            c = d.client()
            expect(c.mget(list(values)) == list(values.values()), "values of a load")
            used = c.info("persistence")["device_live_bytes"]
            expect(used < nr_bytes / 2, f"a load has {used} bytes, of values of {nr_bytes}")
            c.set("k0", values["k0"])
            expect(c.info("persistence")["compressed_values"] == 1, "--compress is for all")
    return f"{len(values)} keys, {nr_bytes >> 10} KiB"


def case_dump_expired():
    """--dump leaves it to the load what has expired: the clock may be wrong at this moment"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb = os.path.join(folder, "dump.rdb")
        for _ in range(20):
            with daemon(size="512m") as d:
                c = d.client()
                c.ping()
                begun = time.monotonic()
                c.set("late", "v", px=1000)
                d.end(signal.SIGKILL)
                in_time = time.monotonic() < begun + 0.9
                time.sleep(max(0, begun + 1.1 - time.monotonic()))
                said = run_once("--data", d.data, "--dump", rdb)
            if in_time:
                break
        expect(in_time and ": 1 keys" in said, said)
        said = run_once("--data", os.path.join(folder, "new.img"), "--size", "512m", "--load", rdb)
        expect("0 keys loaded, 1 had expired" in said, said)
        return ""


def case_dump_full_disk():
    """--dump without room for its file: a sentence, and the file from before stays"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder, daemon(size="512m") as d:
        d.client().mset({f"k{i}": b"x" * 1000000 for i in range(8)})
        expect(d.end() == 0, "did not end well")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder], check=True)
        try:
            path = os.path.join(folder, "x.rdb")
            with open(path, "w", encoding="ascii") as old:
                old.write("old")
            expect("No space" in run_once("--data", d.data, "--dump", path, status=1), "said")
            with open(path, encoding="ascii") as old:
                expect(old.read() == "old" and os.listdir(folder) == ["x.rdb"], "what is there")
        finally:
            subprocess.run(["umount", folder], check=True)
        return ""


def fill(v):
    """All types, in small and large; returns the strings of database 0."""
    rng = random.Random(3)
    strings = {f"s{i}".encode(): value for i, value in enumerate(samples(rng))}
    for key, value in strings.items():
        v.set(key, value)
    v.set("expires", "v", px=1000000)
    for n, much in (("small", 3), ("large", 2000)):
        v.rpush(f"list-{n}", *[f"element {i}" for i in range(much)])
        v.sadd(f"set-{n}", *[f"element {i}" for i in range(much)])
        v.sadd(f"numbers-{n}", *range(much))
        v.zadd(f"zset-{n}", {f"element {i}": i / 3 for i in range(much)})
        v.hset(f"hash-{n}", mapping={f"field {i}": i for i in range(much)})
        for i in range(much):
            v.xadd(f"stream-{n}", {"field": i}, id=f"{i + 1}-0")
        v.xgroup_create(f"stream-{n}", "group", 0)
        v.xreadgroup("group", "consumer", {f"stream-{n}": ">"}, count=2)
    v.execute_command("FUNCTION", "LOAD",
                      "#!lua name=lib\nserver.register_function('f', function() return 1 end)")
    return strings


def case_load():
    """--load: what Valkey writes, packed; other types are named and nothing is loaded"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb, image = os.path.join(folder, "dump.rdb"), os.path.join(folder, "octokv.img")
        with valkey(folder) as v:
            strings = fill(v)
            v.save()
        said = run_once("--data", image, *SIZE, "--load", rdb, status=1)
        for words in (f"{len(strings) + 1} strings", "2 lists", "4 sets", "2 sorted sets",
                      "2 hashes", "2 streams", "1 function libraries", "Nothing was loaded"):
            expect(words in said, f"{words}: {said}")
        expect(not os.path.exists(image), "a file is left")
        said = run_once("--data", image, *SIZE, "--load", rdb, "--strings-only")
        expect(f"{len(strings) + 1} keys loaded" in said and "not loaded: 2 lists" in said, said)
        d = Daemon(folder, size=None)
        try:
            c = d.client()
            expect(c.dbsize() == len(strings) + 1, "how many")
            for key, value in strings.items():
                expect(c.get(key) == value and c.ttl(key) == -1, key)
            expect(c.get("expires") == b"v" and 900000 < c.pttl("expires") <= 1000000, "expiry")
            expect(d.end() == 0, "did not end well")
            said = run_once("--data", image, "--load", rdb, "--strings-only", status=1)
            expect("--force" in said and "Nothing was loaded" in said, said)
            run_once("--data", image, "--load", rdb, "--strings-only", "--force")
            run_once("--data", image, "--load", rdb, "--strings-only", "--force", "--user-id", "7")
            os.unlink(rdb)
            run_once("--data", image, "--dump", rdb)
            with valkey(folder) as v:
                expect(v.dbsize() == len(strings) + 1, "database 0")
                v.select(7)
                expect(v.dbsize() == len(strings) + 1 and v.get("s8") == strings[b"s8"],
                       "and there again")
        finally:
            d.child.kill()
            d.child.wait()
        return f"{len(strings) + 1} strings"


def case_load_wrong_file():
    """--load of what is damaged, cut off, no RDB file or too large: a sentence, no store"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb, image = os.path.join(folder, "dump.rdb"), os.path.join(folder, "octokv.img")
        wrong = os.path.join(folder, "wrong.rdb")
        with valkey(folder, "--rdbcompression", "no") as v:
            v.mset({f"k{i}": f"value {i}" * 20 for i in range(1000)})
            v.save()
        with open(rdb, "rb") as handle:
            good = handle.read()

        def load(content, *words, options=()):
            with open(wrong, "wb") as handle:
                handle.write(content)
            said = run_once("--data", image, *SIZE, "--load", wrong, *options, status=1)
            expect(all(word in said for word in words), f"{words}: {said}")
            expect(not os.path.exists(image), f"{words}: a file is left")
        spot = good.index(b"value 500") + 3
        load(good[:spot] + b"X" + good[spot + 1:], "checksum is wrong", "Nothing was loaded")
        load(good[:-8] + bytes(7) + b"\1", "checksum is wrong")
        load(good[:len(good) // 2], "cut off", "Nothing was loaded")
        load(good[:-3], "cut off")
        load(good + b"x", "follows its end")
        load(b"", "empty")
        load(b"precious data", "no RDB file")
        load(b"REDIS0099" + good[9:], "version 99")
        with valkey(folder) as v:
            v.flushall()
            v.set("long", b"x" * (9 << 20))
            v.save()
        with open(rdb, "rb") as handle:
            load(handle.read(), "9437184 bytes", "Nothing was loaded")
        with valkey(folder) as v:
            v.flushall()
            v.set("k" * 1025, 1)
            v.save()
        with open(rdb, "rb") as handle:
            load(handle.read(), "1025 bytes")
        with valkey(folder) as v:
            v.flushall()
            v.set("k", 1)
            v.select(3)
            v.set("k", 1)
            v.save()
        with open(rdb, "rb") as handle:
            load(handle.read(), "several databases", options=("--user-id", "1"))
        expect("No such file" in run_once("--data", image, "--load", "none", status=1), "no file")
        # Without a checksum it is loaded, and said.
        with open(wrong, "wb") as handle:
            handle.write(good[:-8] + bytes(8))
        expect("no checksum" in run_once("--data", image, *SIZE, "--load", wrong), "none")
        return "12 ways"


def case_load_no_room():
    """--load of more than there is room for, and kill -9 in the middle: no half of it is served"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb, image = os.path.join(folder, "dump.rdb"), os.path.join(folder, "octokv.img")
        with valkey(folder, "--rdbcompression", "no") as v:
            rng = random.Random(4)
            for i in range(300):
                v.set(f"k{i}", rng.randbytes(1 << 20))
            v.save()
        said = run_once("--data", image, "--size", "256m", "--load", rdb, status=1)
        expect("no room" in said and "Nothing was loaded" in said, said)
        expect(not os.path.exists(image), "a file is left")
        run_once("--data", image, "--size", "256m", "--format")
        said = run_once("--data", image, "--load", rdb, status=1)
        expect("no room" in said and "Nothing was loaded" in said, said)
        expect("\n0 keys" in run_once("--data", image, "--check"), "it is not empty again")
        os.unlink(image)
        run_once("--data", image, "--size", "2g", "--format")
        child = subprocess.Popen([OCTOKVD, "--data", image, "--load", rdb])
        until = time.monotonic() + 60
        with open(image, "rb", buffering=0) as handle:
            while b"sealed" not in os.pread(handle.fileno(), 16, 0):
                expect(child.poll() is None and time.monotonic() < until, "it does not load")
        time.sleep(0.05)
        child.kill()
        child.wait()
        for more in ([], ["--check"], ["--load", rdb], ["--dump", rdb + ".2"], ["--format"]):
            said = run_once("--data", image, *more, status=1)
            expect("has not ended" in said or "--force" in said, f"{more}: {said}")
        run_once("--data", image, "--format", "--force")
        expect("300 keys loaded" in run_once("--data", image, "--load", rdb), "the next one")
        expect("\n300 keys" in run_once("--data", image, "--check"), "all of them")
        return "3 ways"


def case_check_names():
    """--check names what is damaged, and where; --dump leaves it out only with --force"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder, \
            daemon(size="512m") as d:
        c = d.client()
        marks = {}
        for i in range(100):
            marks[i] = b"mark %03d " % i * 1000
            c.set(f"key-{i}", marks[i])
        expect(d.end() == 0, "did not end well")
        rdb = os.path.join(folder, "x.rdb")
        with open(d.data, "r+b") as data:
            content = data.read()
            places = {i: content.index(marks[i]) for i in (3, 50)}
            key = content.index(b"key-77", content.index(b"recd"))
            data.seek(places[3] + 4000)
            data.write(b"spoilt")
            data.seek(places[50])
            data.write(b"spoilt")
            data.seek(key)
            data.write(b"spoilt")
        said = run_once("--data", d.data, "--check", status=1)
        expect("the value of key key-3 of user 0" in said and
               "the value of key key-50 of user 0" in said, said)
        expect("a record of user 0, whose key cannot be read" in said and
               said.count("damaged at byte") >= 3 and "\n100 keys" in said, said)
        expect("records are damaged" in run_once("--data", d.data, "--dump", rdb, status=1) and
               not os.path.exists(rdb), "a dump without a word")
        said = run_once("--data", d.data, "--dump", rdb, "--force")
        expect("that are damaged" in said, said)
        check_rdb(rdb)
        d.start()
        return said.splitlines()[-1]


def case_salvage():
    """--dump --salvage and --load: after all roots are lost, the keys are in a new store"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder, \
            daemon("--partitions", "2", "--size", "512m", size=None) as d:
        c = d.client()
        values = {f"k{i}": os.urandom(i * 20) for i in range(300)}
        c.mset({key: b"old" for key in values})
        c.mset(values)
        c.delete("k5", "k6")
        c.set("expires", 1, px=1000000)
        c.set("gone", 1, px=1)
        d.end(signal.SIGKILL)
        lose_roots(d.data, range(2))
        rdb, image = os.path.join(folder, "x.rdb"), os.path.join(folder, "new.img")
        run_once("--data", d.data, "--salvage", status=2)
        expect("damaged" in run_once("--data", d.data, "--dump", rdb, status=1), "it is dumped")
        said = run_once("--data", d.data, "--dump", rdb, "--salvage")
        # "gone" is there until its end is on the device.
        expect(": 299 keys" in said or ": 300 keys" in said, said)
        said = run_once("--data", image, *SIZE, "--load", rdb)
        expect(": 299 keys loaded" in said, said)
        os.replace(image, d.data)
        d.start()
        c = d.client()
        expect(c.dbsize() == 299 and 900000 < c.pttl("expires") <= 1000000, "how many")
        for key, value in values.items():
            expect(c.get(key) == (None if key in ("k5", "k6") else value), key)
        return "299 keys"


def copy_of(d):
    """The process that writes a dump, when it has its name; or None."""
    with open(f"/proc/{d.child.pid}/task/{d.child.pid}/children", encoding="ascii") as children:
        pids = children.read().split()
    if not pids:
        return None
    with open(f"/proc/{pids[0]}/comm", encoding="ascii") as name:
        return int(pids[0]) if name.read() == "octokvd-save\n" else None


def wait_saved(c, good=True):
    until = time.monotonic() + 60
    while (info := c.info("persistence"))["rdb_bgsave_in_progress"]:
        expect(time.monotonic() < until, "the dump does not end")
        time.sleep(0.02)
    expect(info["rdb_last_bgsave_status"] == ("ok" if good else "err"), f"{info}")


def case_serve_damaged():
    """a partition without roots: --check names it; --serve-damaged serves the others"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder, \
            daemon("--partitions", "4", "--size", "1g", size=None) as d:
        c = d.client()
        values = {f"k{i}": str(i) for i in range(400)}
        c.mset(values)
        expect(d.end() == 0, "did not end well")
        lose_roots(d.data, [1])
        said = run_once("--data", d.data, "--check", status=1)
        expect("partition 1: damaged" in said and "partition 2" not in said, said)
        expect("--check" in run_once("--data", d.data, status=1), "it starts")
        rdb = os.path.join(folder, "x.rdb")
        expect("damaged" in run_once("--data", d.data, "--dump", rdb, status=1), "it is dumped")
        d.options = ("--serve-damaged", "--save-to", rdb)
        d.start()
        expect("partition 1 is not served" in d.said(), d.said())
        c = d.client()
        found = {}
        for key in values:
            got = answer(c, "GET", key)
            if isinstance(got, bytes):
                found[key] = got.decode()
            else:
                expect(got.startswith("CORRUPT the partition"), got)
        expect(200 < len(found) < 400 and found.items() <= values.items(), f"{len(found)} found")
        lost = next(key for key in values if key not in found)
        there = next(iter(found))
        for words in (("SET", lost, 1), ("INCR", lost), ("DEL", lost), ("TTL", lost),
                      ("MGET", there, lost), ("RENAME", there, lost), ("COPY", lost, there),
                      ("MSETNX", lost, 1)):
            got = answer(c, *words)
            expect(isinstance(got, str) and got.startswith("CORRUPT"), f"{words}: {got}")
        refused(c.pipeline().incr(lost).get(lost).execute, "CORRUPT")
        expect(c.get(there).decode() == found[there] and c.set(there, "new") and
               c.get(there) == b"new", "a key that is there")
        expect({key.decode() for key in c.scan_iter(count=50)} == set(found) and
               c.dbsize() == len(found), "SCAN")
        info = c.info("health")
        expect(info["health"] == "damaged" and info["partitions_left_out"] == 1, f"{info}")
        run_once("--health", "--port", str(d.port), status=1)
        c.bgsave()
        wait_saved(c, good=False)
        expect("damaged and not served" in d.said(), d.said())
        refused(c.flushall, "IOERR")
        expect(c.dbsize() == 0, "FLUSHALL")
        c.set(there, "again")
        expect(d.end() == 0, "did not end well")
        said = run_once("--data", d.data, "--dump", rdb, "--force")
        expect(": 1 keys" in said and "without 1 partitions" in said, said)
        check_rdb(rdb)
        lose_roots(d.data, range(4))
        said = run_once("--data", d.data, "--serve-damaged", "--port", str(d.port), status=1)
        expect("no partition is whole" in said, said)
        return f"{len(found)} of 400 keys"


def stopped_copy(d, c):
    """Begin a dump and stop its process at once."""
    c.bgsave()
    until = time.monotonic() + 60
    while not (pid := copy_of(d)):
        expect(time.monotonic() < until, "no dump has begun")
    os.kill(pid, signal.SIGSTOP)
    return pid


def case_bgsave():
    """BGSAVE while one client writes: the dump is of one moment, whatever is written after it"""
    nr = 2000
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb = os.path.join(folder, "dump.rdb")
        with daemon("--save-to", rdb, size="512m") as d:
            c = d.client()
            writes = [0]
            ends = threading.Event()

            def write():
                mine = d.client()
                while not ends.is_set():
                    mine.set(f"k{writes[0] % nr}", b"%d " % writes[0] * 100)
                    writes[0] += 1
            join = in_thread(write)
            try:
                rounds = 0
                while writes[0] < nr:
                    time.sleep(0.01)
                for _ in range(3):
                    before = writes[0]
                    c.bgsave()
                    wait_saved(c)
                    after = writes[0]
                    check_rdb(rdb)
                    with valkey(folder) as v:
                        numbers = sorted(int(value.split()[0])
                                         for value in v.mget([f"k{i}" for i in range(nr)]))
                        expect(v.dbsize() == nr, f"{v.dbsize()} keys")
                    expect(numbers == list(range(numbers[0], numbers[0] + nr)),
                           f"not of one moment: {numbers[0]} to {numbers[-1]}")
                    expect(before - 1 <= numbers[-1] <= after, "of another moment")
                    rounds += 1
            finally:
                ends.set()
                join()
            expect(abs(c.lastsave().timestamp() - time.time()) < 100, "LASTSAVE")
            # What the copy reads is not overwritten meanwhile.
            c.flushall()
            old = {f"old{i}": os.urandom(1 << 20) for i in range(60)}
            for key, value in old.items():
                c.set(key, value)
            pid = stopped_copy(d, c)
            written = os.stat(rdb + ".part").st_size if os.path.exists(rdb + ".part") else 0
            expect(written < len(old) << 19, f"{written} bytes are written already")
            for key in old:
                c.set(key, b"new")
            for i in range(110):
                c.set(f"other{i % 20}", os.urandom(1 << 20))
            os.kill(pid, signal.SIGCONT)
            wait_saved(c)
            with valkey(folder) as v:
                expect(v.dbsize() == len(old) and v.mget(old) == list(old.values()), "old values")
            expect(c.get("old59") == b"new", "the new value")
    return f"{rounds + 1} dumps, {writes[0]} writes meanwhile"


def case_bgsave_ends():
    """a dump without room for writes, with its process or octokvd killed, without --save-to"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        rdb = os.path.join(folder, "dump.rdb")
        with daemon("--save-to", rdb, "--partitions", "1", "--size", "256m", size=None) as d:
            c = d.client()
            for i in range(50):
                c.set(f"k{i}", os.urandom(1 << 20))
            stopped_copy(d, c)
            for i in range(250):
                c.set(f"k{i % 50}", os.urandom(1 << 20))
            wait_saved(c, good=False)
            expect("given up: it left no room" in d.said() and copy_of(d) is None, d.said())
            for i in range(250):
                c.set(f"k{i % 50}", os.urandom(1 << 20))
            os.kill(stopped_copy(d, c), signal.SIGKILL)
            wait_saved(c, good=False)
            expect("ended by signal 9" in d.said() and not os.path.exists(rdb), d.said())
            c.bgsave()
            wait_saved(c)
            expect(os.listdir(folder) == ["dump.rdb"], f"{os.listdir(folder)}")
            d.end()
            d.popen = {"preexec_fn": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)}
            d.start()
            c = d.client()
            c.bgsave()
            wait_saved(c)
            pid = stopped_copy(d, c)
            d.end(signal.SIGKILL)
            until = time.monotonic() + 60
            while os.path.exists(f"/proc/{pid}/fd/0"):
                expect(time.monotonic() < until, "the copy goes on")
                time.sleep(0.01)
            d.start()
            c = d.client()
            expect(c.dbsize() == 50, "afterwards")
            stopped_copy(d, c)
            expect(d.end() == 0 and not os.path.exists(f"/proc/{pid}/fd/0"), "SIGTERM meanwhile")
            d.options = ("--save-to", os.path.join(folder, "none", "dump.rdb"))
            d.start()
            d.client().bgsave()
            wait_saved(d.client(), good=False)
            expect("the dump has failed" in d.said() and "No such file" in d.said(), d.said())
            expect(d.end() == 0, "did not end well")
            d.options = ()
            d.start()
            refused(d.client().bgsave, "--save-to")
            d.child.send_signal(signal.SIGUSR1)
            until = time.monotonic() + 60
            while "without --save-to" not in d.said():
                expect(time.monotonic() < until, "SIGUSR1 without --save-to")
                time.sleep(0.01)
        users = users_file(folder, ann="admin", bob="")
        with daemon("--users", users, "--save-to", rdb) as d:
            refused(d.client(username="bob", password="pw-bob").bgsave, "only an admin",
                    "no permissions")
            ann = d.client(username="ann", password="pw-ann")
            ann.bgsave()
            wait_saved(ann)
    return "9 ways"
