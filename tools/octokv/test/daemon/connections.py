# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: many, idle, half-closed and malicious connections."""
import contextlib
import os
import resource
import signal
import socket
import tempfile
import threading
import time

import redis

from kit import (BUILD, PORT, START_S, daemon, expect, in_thread, raw, read_until_closed, refused,
                 rss_kb, run_once)

CROWD, CROWD_STEP, CROWD_BYTES_MAX = int(os.environ.get("CROWD", 100000)), 1000, 16384
PORTS_PER_ADDRESS = 20000


def case_unix():
    """a socket at a path, alone and beside a port: its mode, what is in the way, what is left"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = os.path.join(folder, "socket")
        with daemon("--unix", path) as d:
            expect(d.client().set("k", "v"), "the port")
            c = redis.Redis(unix_socket_path=path)
            expect(c.get("k") == b"v" and os.stat(path).st_mode & 0o777 == 0o600, "the socket")
            others = [redis.Redis(unix_socket_path=path) for _ in range(9)]
            expect(all(other.ping() for other in others), "several clients")
            run_once("--data", d.data + "2", "--size", "256m", "--port", str(PORT + 1), "--unix",
                     path, status=1)
            d.end(signal.SIGKILL)
            expect(os.path.exists(path), "a killed octokvd leaves its socket")
            d.options = "--port", "0", "--unix", path, "--unix-mode", "0666"
            d.start()
            expect(c.get("k") == b"v" and os.stat(path).st_mode & 0o777 == 0o666, "a new one")
            refused(d.client().ping, "refused")
        expect(not os.path.exists(path), "it is left")
        with open(path, "w", encoding="utf-8"):
            pass
        said = run_once("--data", os.path.join(folder, "x"), "--size", "256m", "--port", "0",
                        "--unix", path, status=1)
        expect("something else is there" in said, said)
        run_once("--data", path, "--port", "0", status=2)
        run_once("--data", path, "--unix", path, "--unix-mode", "99", status=2)
    return "2 modes"


def case_bad_clients():
    """a 2 GiB header, half a command, a client that never reads: closed, with bounded memory

    Other clients do not notice.
    """
    with daemon("--stall-timeout", "2") as d:
        good = d.client()
        good.set("k", bytes(1 << 20))
        s = raw()
        s.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2147483648\r\n")
        expect(read_until_closed(s) == b"-ERR Protocol error: invalid bulk length\r\n", "2 GiB")
        half = raw()
        half.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\nabc")
        before = rss_kb(d)
        deaf = [raw() for _ in range(4)]
        for s in deaf:
            s.setblocking(False)
            for _ in range(200):
                try:
                    s.send(b"GET k\r\n" * 1000)
                except BlockingIOError:
                    break
        expect(read_until_closed(half) == b"", "half a command")
        until = time.monotonic() + START_S
        while good.info()["timed_out_connections"] < 5:
            expect(time.monotonic() < until,
                   f"{good.info()['timed_out_connections']} of 5 were closed")
            time.sleep(0.1)
        grown = rss_kb(d) - before
        expect(grown < 300 << 10, f"{grown} KiB more for 4 clients that do not read")
        expect(good.strlen("k") == 1 << 20, "the others")
        return f"{grown >> 10} MiB for 4 clients that do not read"


def case_last_replies():
    """replies arrive after half a close, and at the end of octokvd; a browser is refused"""
    with daemon() as d:
        d.client().set("k", bytes(8 << 20))
        half = raw()
        half.sendall(b"GET none\r\n" * 2000 + b"STRLEN k\r\n")
        half.shutdown(socket.SHUT_WR)
        expect(read_until_closed(half) == b"$-1\r\n" * 2000 + b":8388608\r\n",
               "replies after the client's end was closed")
        browser = raw()
        browser.sendall(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nDEL k\r\n")
        expect(b"no web server" in read_until_closed(browser) and d.client().exists("k"),
               "a browser's words were taken for commands")
        s = raw()
        s.sendall(b"GET k\r\n")
        said = s.recv(1000)
        d.child.send_signal(signal.SIGTERM)
        said += read_until_closed(s)
        expect(len(said) == len("$8388608\r\n\r\n") + (8 << 20),
               f"{len(said)} bytes of a reply of 8 MiB when the daemon was told to end")
        return "half closed, stopped, browser"


def case_many_connections():
    """--max-connections holds, and there is room again when connections close"""
    with daemon("--max-connections", "500") as d:
        socks = [raw() for _ in range(500)]
        for s in socks:
            s.sendall(b"PING\r\n")
        expect(all(s.recv(100) == b"+PONG\r\n" for s in socks), "500 connections")
        s = raw()
        expect(read_until_closed(s) == b"-ERR max number of clients reached\r\n", "the 501st")
        for s in socks:
            s.close()
        until = time.monotonic() + START_S
        while True:
            with contextlib.suppress(redis.RedisError):
                if d.client().ping():
                    break
            expect(time.monotonic() < until, "no room again")
            time.sleep(0.05)
        return "500 and one"


def connections(d):
    """How many connections each reactor has."""
    found = d.client().info("reactors")
    return [at["connections"] for name, at in sorted(found.items()) if name.startswith("reactor")]


def case_spread():
    """reactors have equally many connections, to one, also with --network-cores

    In between octokvd ends while many connections come.
    """
    with daemon("--cores", "4") as d:
        socks = []
        for _ in range(31):
            socks.append(raw())
            socks[-1].sendall(b"PING\r\n")
            expect(socks[-1].recv(100) == b"+PONG\r\n", "answered by any reactor")
        even = connections(d)
        expect(even == [8, 8, 8, 8], f"31 connections and one: {even}")
        expect(d.end() == 0, "did not end well")
        d.start()
        socks = [raw() for _ in range(200)]
    with daemon("--cores", "4", "--network-cores", "2") as d:
        socks = [raw() for _ in range(31)]
        some = connections(d)
        expect(sum(some) == 32 and some[2:] == [0, 0] and abs(some[0] - some[1]) <= 2,
               f"two of four take them: {some}")
    return f"{even}, {some}"


def more_files():
    """Let this process have as many open files as the kernel allows."""
    limit = int(open("/proc/sys/fs/nr_open", encoding="ascii").read())
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def crowd(nr):
    """@nr connections, from as many addresses as their ports need; each got an answer."""
    more_files()
    socks = []
    for i in range(nr):
        source = f"127.0.1.{1 + i // PORTS_PER_ADDRESS}"
        socks.append(socket.create_connection(("127.0.0.1", PORT), timeout=60,
                     source_address=(source, 0)))
        if len(socks) % CROWD_STEP == 0:
            for s in socks[-CROWD_STEP:]:
                s.sendall(b"PING\r\n")
            expect(all(s.recv(100) == b"+PONG\r\n" for s in socks[-CROWD_STEP:]), f"connection {i}")
    return socks


def case_crowd():
    """CROWD connections: each is served, the next is refused, memory is bounded, room after them"""
    with daemon("--max-connections", str(CROWD), device=os.environ["DEVICE"],
                preexec_fn=more_files) as d:
        before = rss_kb(d)
        socks = crowd(CROWD)
        per_connection = (rss_kb(d) - before) * 1024 / CROWD
        expect(per_connection < CROWD_BYTES_MAX, f"{per_connection:.0f} bytes per connection")
        expect(read_until_closed(raw()) == b"-ERR max number of clients reached\r\n", "one more")
        socks[0].sendall(b"SET k v\r\nGET k\r\n")
        said = b""
        while len(said) < len(b"+OK\r\n$1\r\nv\r\n"):
            said += socks[0].recv(100)
        expect(said == b"+OK\r\n$1\r\nv\r\n", f"a put among them: {said}")
        for s in socks:
            s.close()
        until = time.monotonic() + START_S
        while "connected_clients:1\r\n" not in info_text():
            expect(time.monotonic() < until, "connections are left")
            time.sleep(0.2)
        return f"{CROWD} connections, {per_connection:.0f} bytes each"


def info_text():
    """What INFO clients tells one more client; empty if there is no room for the client."""
    with raw() as s:
        s.sendall(b"INFO clients\r\nQUIT\r\n")
        return read_until_closed(s).decode()


def keepalive_timers():
    """The daemon's connections that have a keepalive timer (timer 2)."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        lines = [line.split() for line in table][1:]
    return [
        line for line in lines
        if line[1].endswith(f":{PORT:04X}") and line[3] == "01" and line[5].startswith("02:")
    ]


def case_idle():
    """the idle timeout closes idle connections, in time, and no others; keepalive is on"""
    with daemon("--idle-timeout", "1"):
        s, busy, begun = raw(), raw(), time.monotonic()
        done = threading.Event()

        def keep_asking():
            while not done.wait(0.1):
                busy.sendall(b"PING\r\n")
                expect(busy.recv(100) == b"+PONG\r\n", "the busy one, meanwhile")
        join = in_thread(keep_asking)
        time.sleep(0.5)
        expect(keepalive_timers(), "no connection has a keepalive timer")
        expect(read_until_closed(s) == b"" and time.monotonic() - begun > 0.9,
               f"closed after {time.monotonic() - begun:.2f} s")
        done.set()
        join()
        busy.sendall(b"PING\r\n")
        expect(busy.recv(100) == b"+PONG\r\n", "the busy one")
        return ""
