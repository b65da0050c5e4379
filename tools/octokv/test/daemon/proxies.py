# SPDX-License-Identifier: GPL-2.0
"""Several octokvd behind nutcracker and haproxy, with the configuration files of the manual."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time

import redis

from kit import BUILD, START_S, daemon, expect, in_thread, raw, refused, users_file

CONFIGURATION = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../proxy")
NR_SERVERS = 3
SHARDED, FIRST, MOVED = 22121, 7001, 7011
BALANCED = range(7101, 7101 + NR_SERVERS)


def through(port, **options):
    # nutcracker knows neither HELLO nor CLIENT: RESP2, and no name of the library.
    return redis.Redis(port=port, socket_timeout=30, retry=None, protocol=2, lib_name=None,
                       lib_version=None, **options)


def answers(client):
    """Does a GET come back, within START_S?"""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            client.get("k")
            return True
        except redis.RedisError:
            time.sleep(0.05)
    return False


@contextlib.contextmanager
def proxies(folder, password=None):
    """haproxy and nutcracker, with the files of the manual, until the end of the block."""
    with open(os.path.join(CONFIGURATION, "nutcracker.yml"), encoding="utf-8") as file:
        text = file.read()
    if password:
        text = text.replace("  redis: true\n", f"  redis: true\n  redis_auth: {password}\n")
    with open(os.path.join(folder, "nutcracker.yml"), "w", encoding="utf-8") as file:
        file.write(text)
    children = []
    try:
        for argv in (["haproxy", "-db", "-f", os.path.join(CONFIGURATION, "haproxy.cfg")],
                     ["nutcracker", "-c", os.path.join(folder, "nutcracker.yml"), "-o",
                      os.path.join(folder, "nutcracker.log"), "-s", "22222"]):
            with open(os.path.join(folder, argv[0] + ".said"), "w", encoding="utf-8") as said:
                children.append(subprocess.Popen(argv, stdout=said, stderr=said))
        until = time.monotonic() + START_S
        while not listens():
            expect(time.monotonic() < until and all(child.poll() is None for child in children),
                   "a proxy does not listen")
            time.sleep(0.05)
        yield
    finally:
        for child in children:
            child.kill()
            child.wait()


def listens():
    try:
        for port in (SHARDED, *BALANCED):
            raw(port).close()
        return True
    except ConnectionRefusedError:
        return False


@contextlib.contextmanager
def servers(*options):
    """Three octokvd, each with a file and a folder of its own."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(daemon(*options, size="256m", port=FIRST + number))
               for number in range(NR_SERVERS)]


def case_proxies():
    """nutcracker and haproxy before three octokvd: clients, and a server that moves under load

    The one that moves is killed, and starts on its drive at the standby's address, as another host
    would. No acknowledged write is lost, and keys stay where they were.
    """
    with tempfile.TemporaryDirectory(dir=BUILD) as folder, servers() as three, proxies(folder):
        c = through(SHARDED)
        expect(answers(c), "nutcracker does not answer")
        keys = [f"k{number}" for number in range(300)]
        for key in keys:
            c.set(key, key)
        expect(c.mget(keys) == [key.encode() for key in keys], "MGET over three servers")
        sizes = [d.client().dbsize() for d in three]
        expect(sum(sizes) == 300 and min(sizes) > 40, f"spread: {sizes}")
        for number in range(10):
            c.set(f"{{tag}}{number}", "v")
        grown = [d.client().dbsize() - size for d, size in zip(three, sizes)]
        expect(sorted(grown) == [0, 0, 10], f"keys with one tag: {grown}")
        expect(c.delete(*keys[:100]) == 100 and c.incr("n") == 1 and c.expire("n", 100) and
               0 < c.ttl("n") <= 100 and c.append("n", "0") == 2, "DEL, INCR, EXPIRE, APPEND")
        refused(through(SHARDED).dbsize, "Connection closed")
        refused(lambda: through(SHARDED).execute_command("MULTI"), "Connection closed")
        done = subprocess.run(["redis-benchmark", "-p", str(SHARDED), "-t", "set,get,incr", "-n",
                               "1500", "-r", "300", "-c", "8", "--csv"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        expect(done.returncode == 0 and "rror" not in re.sub("WARNING.*CONFIG.*", "", done.stdout),
               done.stdout)
        moved = move(three[1])
        return f"{sizes} keys, {moved} writes beside a server that moved"


def move(server):
    """Kill a server under load, and start it at the address of its standby. Returns the writes."""
    acknowledged, ends = {}, []

    def write():
        c, number = through(SHARDED), 0
        while not ends:
            number += 1
            try:
                c.set(f"w{number % 500}", number)
                acknowledged[f"w{number % 500}"] = number
            except redis.RedisError:
                # Perhaps written, perhaps not: no longer known.
                acknowledged.pop(f"w{number % 500}", None)
                time.sleep(0.01)
    join = in_thread(write)
    try:
        time.sleep(1)
        server.end(signal.SIGKILL)
        server.port += MOVED - FIRST
        server.start()
        until = time.monotonic() + START_S
        while server.client().info("commandstats").get("cmdstat_set", {"calls": 0})["calls"] < 20:
            expect(time.monotonic() < until, "no write arrives where the server is now")
            time.sleep(0.1)
    finally:
        ends.append(True)
        join()
    c = through(SHARDED)
    for key, number in acknowledged.items():
        got = c.get(key)
        expect(got == str(number).encode(), f"{key} is {got}, acknowledged was {number}")
    return len(acknowledged)


def case_proxies_users():
    """nutcracker logs in at octokvd as the user "default"; with a wrong password it says so"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, default="")
        with servers("--users", path):
            with proxies(folder, password="pw-default"):
                c = through(SHARDED, password="pw-default")
                expect(answers(c) and c.set("k", "v") and c.get("k") == b"v", "logged in")
                refused(lambda: through(SHARDED, password="wrong").get("k"), "invalid password")
            with proxies(folder, password="other"):
                refused(lambda: through(SHARDED, password="other").get("k"), "required")
    return "one user"
