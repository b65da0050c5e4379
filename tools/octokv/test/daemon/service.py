# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd as a service: systemd, signals, a users file that changes, weights that go."""
import os
import signal
import socket
import tempfile
import time

import redis

from kit import BUILD, START_S, daemon, expect, refused, users_file


def wait_until(condition, text):
    until = time.monotonic() + START_S
    while not condition():
        expect(time.monotonic() < until, text() if callable(text) else text)
        time.sleep(0.02)


def hear(sock, word):
    """What octokvd says to systemd, until a message with @word."""
    said = []
    sock.settimeout(START_S)
    while not said or word not in said[-1]:
        said.append(sock.recv(4096).decode())
    return said


def case_notify():
    """systemd hears of recovery, READY, WATCHDOG and the end"""
    with tempfile.TemporaryDirectory() as folder, \
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        path = os.path.join(folder, "notify")
        sock.bind(path)
        with daemon(environment={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "600000"}) as d:
            said = hear(sock, "READY=1")
            expect("STATUS=Recovering" in said[0] and "STATUS=Serving" in said[-1], str(said))
            expect(len(hear(sock, "WATCHDOG=1") + hear(sock, "WATCHDOG=1")) == 2, "the watchdog")
            expect(d.end() == 0, "did not end well")
            hear(sock, "STOPPING=1")
        name = "\0octokvd-test"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
            other.bind(name)
            with daemon(environment={"NOTIFY_SOCKET": "@octokvd-test"}):
                hear(other, "READY=1")
        return "also at a name without a file"


def case_end_in_recovery():
    """SIGTERM during recovery ends it at once, with status 0; the next start recovers"""
    with daemon(size="1g") as d:
        c = d.client()
        for i in range(40):
            c.set(f"k{i}", bytes([i]) * (4 << 20))
        d.end(signal.SIGKILL)
        for _ in range(20):
            d.launch()
            wait_until(lambda: "recovered" in d.said() or d.child.poll() is not None, d.said)
            d.child.send_signal(signal.SIGTERM)
            status = d.child.wait(timeout=20)
            expect(status == 0, f"status {status}: {d.said()}")
            if "ends during recovery" in d.said():
                break
            # It served already, and ended in order: recover again.
            d.restart()
            d.client().set("k0", bytes(4 << 20))
            d.end(signal.SIGKILL)
        expect("ends during recovery" in d.said(), d.said())
        d.restart()
        expect(d.client().get("k39") == bytes([39]) * (4 << 20), "the value")
        return ""


def hang_up(d, word):
    """SIGHUP, until a line with @word."""
    before = d.said().count(word)
    d.child.send_signal(signal.SIGHUP)
    wait_until(lambda: d.said().count(word) > before, d.said)


def case_reload():
    """SIGHUP reads the users again: new ones, none, other limits; with an error nothing changes"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="keys=2", bob="requests=1", eve="")
        with open(path, encoding="utf-8") as handle:
            ann, bob, eve = handle.read().splitlines()

        def write(*lines):
            with open(path, "w", encoding="utf-8") as handle:
                handle.write("\n".join(lines) + "\n")
        write(ann, bob)
        with daemon("--users", path) as d:
            clients = {name: d.client(username=name, password=f"pw-{name}")
                       for name in ("ann", "bob")}
            for name, c in clients.items():
                c.set("k", name)
            refused(d.client(username="eve", password="pw-eve").ping, "WRONGPASS", "invalid")
            write(ann, bob, eve, "joe 4 no-hash")
            hang_up(d, f"the users stay as they are: {path}:4: the hash is not one")
            refused(d.client(username="eve", password="pw-eve").ping, "WRONGPASS", "invalid")
            # bob goes while its requests are under way, eve comes, ann gets other limits.
            pipe = clients["bob"].pipeline(transaction=False)
            for i in range(2000):
                pipe.set(f"b{i}", i)
            write(ann.replace("keys=2", "keys=1 requests=2"), eve)
            hang_up(d, "2 users")
            try:
                pipe.execute()
            except redis.RedisError:
                pass
            refused(clients["bob"].ping, "WRONGPASS", "invalid", "closed")
            expect(clients["ann"].get("k") == b"ann", "a connection of ann ended")
            refused(lambda: clients["ann"].set("l", 1), "QUOTA")
            d.client(username="eve", password="pw-eve").set("k", "eve")
            write(ann, bob.replace("requests=1", ""), eve)
            hang_up(d, "3 users")
            expect(d.client(username="bob", password="pw-bob").get("k") == b"bob", "bob's key")
            expect(clients["ann"].set("l", 1), "the old limit of ann")
        return "4 users files"


def case_weights():
    """weights that the scheduler has lost are written again"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="weight=300", bob="")
        os.makedirs(os.path.join(folder, "queue/iosched"))
        weights = os.path.join(folder, "queue/iosched/weights")

        def wait_for_a_line():
            wait_until(lambda: os.path.getsize(weights) > 0, "nothing is written")
        with open(weights, "w", encoding="ascii"):
            pass
        with daemon("--users", path, "--weights", folder) as d:
            wait_for_a_line()
            with open(weights, "w", encoding="ascii"):
                pass
            wait_for_a_line()
            wait_until(lambda: "had lost the users' weights" in d.said(), d.said)
            os.unlink(weights)
            wait_until(lambda: "the users' weights do not act" in d.said(), d.said)
    return ""
