# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: what it tells of itself: metrics, slow log, statistics; and what admins do."""
import http.client
import json
import os
import re
import signal
import socket
import tempfile
import time

from kit import (BUILD, PORT, START_S, daemon, expect, in_thread, read_until_closed, refused,
                 run_once, users_file)

METRICS = PORT + 2
GOOD_S = 1.5            # a page may be a second old
LIMIT_S = 5             # of a connection
HERE = os.path.dirname(os.path.realpath(__file__))
DASHBOARD = os.path.join(HERE, "..", "..", "grafana.json")
SAMPLE = re.compile(r'(octokvd_[a-z0-9_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\S+)$')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
PARTS = ("_bucket", "_sum", "_count")
ODD = 'q"\\x'


def ask(path="/metrics", method="GET", port=METRICS, host="127.0.0.1"):
    connection = http.client.HTTPConnection(host, port, timeout=START_S)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


class Page:
    """A page of metrics, checked as Prometheus would: {(name, labels): value} and types."""

    def __init__(self):
        status, text = ask()
        expect(status == 200 and text.endswith("\n"), f"status {status}")
        self.values, self.types, helped = {}, {}, set()
        for line in text.splitlines():
            if line.startswith("# "):
                _, what, name, rest = line.split(" ", 3)
                expect(rest and (what == "HELP") != (name in helped), line)
                helped.add(name)
                if what == "TYPE":
                    expect(name not in self.types, f"twice: {line}")
                    self.types[name] = rest
                continue
            found = SAMPLE.match(line)
            expect(found, f"not a sample: {line}")
            key = found[1], frozenset(LABEL.findall(found[2] or ""))
            expect(key not in self.values, f"twice: {line}")
            expect(self.base(found[1]) in self.types, f"no HELP or TYPE: {line}")
            self.values[key] = float(found[3])
        self.check_names()
        self.check_histograms()

    def base(self, name):
        for part in PARTS:
            if name.endswith(part) and self.types.get(name.removesuffix(part)) == "histogram":
                return name.removesuffix(part)
        return name

    def check_names(self):
        for name, kind in self.types.items():
            expect((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
            expect(any(self.base(sample) == name for sample, _ in self.values), f"empty: {name}")

    def check_histograms(self):
        series = {}
        for (name, labels), value in self.values.items():
            if name.endswith("_bucket"):
                le = float(dict(labels)["le"])
                rest = frozenset(pair for pair in labels if pair[0] != "le")
                series.setdefault((name, rest), []).append((le, value))
        for (name, rest), buckets in series.items():
            numbers = [value for _, value in sorted(buckets)]
            expect(numbers == sorted(numbers), f"{name} {rest}: {numbers}")
            expect(max(buckets)[0] == float("inf"), f"{name} {rest}: no +Inf")
            expect(numbers[-1] == self.values[name.replace("_bucket", "_count"), rest],
                   f"{name} {rest}: the count is not that of +Inf")

    def sum(self, name, **labels):
        return sum(value for (sample, having), value in self.values.items()
                   if sample == name and set(labels.items()) <= having)


def check_dashboard(page):
    """Every metric that the dashboard asks for is there, with the labels by which it asks."""
    with open(DASHBOARD, encoding="utf-8") as handle:
        text = json.load(handle)
    asked = [target["expr"] for panel in text["panels"] for target in panel.get("targets", [])]
    asked += [v["query"] for v in text["templating"]["list"] if v["type"] == "query"]
    there = {}
    for name, labels in page.values:
        there.setdefault(name, {"instance"}).update(label for label, _ in labels)
    names = set()
    for expr in asked:
        found = re.findall(r"octokvd_\w+", expr)
        expect(found, f"asks for nothing: {expr}")
        names.update(found)
        for name in found:
            expect(name in there, f"{name}: there is no such metric")
        labels = re.findall(r"(\w+)=~", expr) + re.findall(r"label_values\(\w+, (\w+)", expr)
        for by in re.findall(r"by \(([^)]*)\)", expr):
            labels += by.split(", ")
        for label in labels:
            expect(label in there[found[0]], f"{expr}: no label {label}")
    return names


def case_metrics():
    """the page for Prometheus: names, types, histograms, figures by user; the dashboard fits it"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="admin", bob="requests=1", **{ODD: ""})
        with daemon("--users", path, "--metrics", str(METRICS)) as d:
            clients = {name: d.client(username=name, password=f"pw-{name}")
                       for name in ("ann", "bob", ODD)}
            for name, c in clients.items():
                for i in range(20):
                    c.set(f"k{i}", bytes(5000))
                    c.get(f"k{i}")
            joins = [in_thread(lambda: [clients["bob"].get("k1") for _ in range(50)])
                     for _ in range(3)]
            for join in joins:
                join()
            refused(lambda: clients["ann"].execute_command("NOSUCH"), "unknown")
            refused(lambda: clients["bob"].incr("k1"), "integer")
            page = Page()
            until = time.monotonic() + START_S
            while page.sum("octokvd_keys") < 60 or page.sum("octokvd_tenant_keys") < 60:
                expect(time.monotonic() < until, "60 keys")
                time.sleep(0.1)
                page = Page()
            expect(page.sum("octokvd_command_calls_total", command="set") == 60, "calls of set")
            expect(page.sum("octokvd_command_failed_total", command="incrby") == 1, "failed")
            expect(page.sum("octokvd_error_replies_total", kind="ERR") == 2, "errors")
            expect(page.sum("octokvd_stage_duration_seconds_count", stage="log") == 60, "log")
            expect(page.sum("octokvd_stage_duration_seconds_count", stage="token") > 0, "token")
            for name, nr in ("ann", 20), ("bob", 170), (ODD.replace("\\", r"\\").replace(
                    '"', r"\""), 20):
                expect(page.sum("octokvd_tenant_command_duration_seconds_count", tenant=name,
                                group="read") == nr, f"reads of {name}")
                expect(page.sum("octokvd_tenant_keys", tenant=name) == 20, f"keys of {name}")
                expect(page.sum("octokvd_tenant_receive_bytes_total", tenant=name) > 100000,
                       f"bytes of {name}")
            expect(page.sum("octokvd_serving") == 1, "it serves")
            names = check_dashboard(page)
            # A user goes and another one comes while the page is being made.
            join = in_thread(lambda: [Page() for _ in range(20)])
            with open(path, encoding="utf-8") as handle:
                lines = handle.readlines()
            for keep in lines[:1], lines, lines[:2]:
                with open(path, "w", encoding="utf-8") as handle:
                    handle.writelines(keep)
                d.child.send_signal(signal.SIGHUP)
                time.sleep(0.1)
            join()
            time.sleep(GOOD_S)
            expect(Page().sum("octokvd_tenant_keys", tenant="ann") == 20, "after a reload")
        return f"{len(page.types)} metrics, {len(names)} of them in the dashboard"


def case_metrics_moves():
    """while partitions move, what they have counted neither goes back nor doubles"""
    with daemon("--cores", "3", "--balance-overload", "0", "--balance-gap", "0",
                "--balance-window", "100", "--metrics", str(METRICS)) as d:
        clients = [d.client() for _ in range(12)]
        seen, nr, moves, until = 0, 0, 0, time.monotonic() + START_S
        while moves < 12:
            expect(time.monotonic() < until, f"{moves} moves")
            pipe = clients[nr // 1200 % 12].pipeline(transaction=False)
            for i in range(300):
                pipe.set(f"k{i}", i)
            pipe.execute()
            nr += 300
            page = Page()
            puts, moves = (page.sum(f"octokvd_{what}_total") for what in ("puts", "reactor_moves"))
            expect(seen <= puts <= nr, f"{puts} writes after {seen}, of {nr}")
            seen = puts
        while seen < nr:
            expect(time.monotonic() < until, f"{seen} of {nr} writes")
            seen = Page().sum("octokvd_puts_total")
        expect(seen == nr and Page().sum("octokvd_keys") == 300, f"{seen} of {nr} writes")
    return f"{int(moves)} moves, {nr} writes"


def slow_visit(page_bytes):
    """Begins to read a page, and leaves the rest to later."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(START_S)
    s.connect(("127.0.0.1", METRICS))
    s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    said = s.recv(100)

    def rest():
        whole = said + read_until_closed(s)
        s.close()
        text = whole.split(b"\r\n\r\n", 1)[1]
        expect(len(text) >= page_bytes // 2, f"{len(text)} bytes")
        return text.decode()
    return rest


def case_metrics_shared():
    """requests within a second get the same page, also beside those that read it slowly"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="admin")
        with open(path, "r+", encoding="utf-8") as handle:
            ann = handle.read().split()
            for i in range(2, 300):
                handle.write(f"user-with-a-long-name-{i} {i} {ann[2]}\n")
        with daemon("--users", path, "--metrics", str(METRICS)) as d:
            c = d.client(username="ann", password="pw-ann")
            texts = []
            begun = time.monotonic()
            while len(set(texts)) < 3:
                c.set("k", len(texts))
                texts.append(ask()[1])
            took = time.monotonic() - begun
            expect(took > 2 and len(texts) > 9, f"3 pages for {len(texts)} requests in {took} s")
            # Two pages that are being read: there is no third one.
            rests = [slow_visit(len(texts[0]))]
            begun, first = time.monotonic(), ask()[1]
            while (now := ask()[1]) == first:
                expect(time.monotonic() - begun < LIMIT_S, "no second page")
            rests.append(slow_visit(len(texts[0])))
            while time.monotonic() - begun < LIMIT_S - 0.8:
                expect(ask()[1] == now, "a third page")
                time.sleep(0.1)
            read = [rest() for rest in rests]
            expect(read[0] != read[1] == now, "the pages that are read slowly")
            time.sleep(GOOD_S)
            expect(ask()[1] not in read, "a new one, when they have gone")
    return f"{len(set(texts))} pages of {len(texts[0]) >> 10} KiB for {len(texts)} requests"


def case_metrics_http():
    """the listener of metrics: other paths and methods, long, slow and many clients; its address"""
    with daemon("--metrics", f"127.0.0.1:{METRICS}") as d:
        status, text = ask(method="HEAD")
        expect(status == 200 and not text, "HEAD")
        expect(ask("/metrics?x=y")[0] == 200, "a query")
        expect(ask("/")[0] == 404 and ask("/metricsx")[0] == 404, "another path")
        expect(ask(method="POST")[0] == 405 and ask(method="DELETE")[0] == 405, "other methods")
        for request, status in ((b"nonsense\r\n\r\n", b" 400 "),
                                (b"GET /metrics\r\n\r\n", b" 400 "),
                                (b"GET /metrics HTTP/2.0\r\n\r\n", b" 400 "),
                                (b"GET /metrics HTTP/1.0\n\n", b" 200 "),
                                (b"GET /metrics HTTP/1.1\r\nX: " + bytes(5000), b" 431 "),
                                (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, b" 431 ")):
            with socket.create_connection(("127.0.0.1", METRICS), timeout=START_S) as s:
                s.sendall(request)
                s.shutdown(socket.SHUT_WR)
                said = read_until_closed(s)
                expect(status in said.split(b"\r\n")[0], f"{request[:40]}: {said[:60]}")
        silent = [socket.create_connection(("127.0.0.1", METRICS), timeout=START_S)
                  for _ in range(7)]
        begun = time.monotonic()
        expect(ask()[0] == 200 and time.monotonic() - begun < 4, "beside 7 that say nothing")
        silent += [socket.create_connection(("127.0.0.1", METRICS), timeout=START_S)
                   for _ in range(3)]
        expect(ask()[0] == 200, "behind 10 that say nothing")
        expect(read_until_closed(silent[0]) == b"", "silence has an end")
        for s in silent:
            s.close()
        expect(d.client().ping(), "clients of the store")
        said = run_once("--data", d.data + "2", "--size", "256m", "--port", str(PORT + 1),
                        "--metrics", str(METRICS), status=1)
        expect(f"cannot listen on 127.0.0.1 port {METRICS}" in said and said.count("\n") == 1, said)
        expect(not os.path.exists(d.data + "2"), "it made a file")
    for address in "", "x", "0", "65536", "1x", "127.0.0.1:", ":9", "example.org:9":
        said = run_once("--data", "/nonexistent/x", "--metrics", address, status=1)
        expect(said.startswith("octokvd: --metrics") and said.count("\n") == 1, said)
    with daemon("--metrics", f"[::1]:{METRICS}"):
        expect(ask(host="::1")[0] == 200, "IPv6")
        refused(lambda: ask(), "refused")
    return "12 requests"


def case_slowlog():
    """SLOWLOG: slow commands of all reactors, with their stages, each user its own"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="admin", bob="")
        with daemon("--users", path, "--slowlog-slower-than-us", "0", "--slowlog-len", "500") as d:
            ann, bob = [[d.client(username=name, password=f"pw-{name}", client_name=name)
                         for _ in range(4)] for name in ("ann", "bob")]
            for i in range(20):
                ann[i % 4].set(f"a{i}", bytes(3000))
                bob[i % 4].set(f"b{i}", bytes(3000))
            got = ann[0].slowlog_get(-1)
            sets = [e for e in got if e["command"].startswith(b"SET ")]
            expect(len(sets) == 40 and any(b"(log " in e["command"] or b", log " in e["command"]
                                           for e in sets), f"{len(sets)}: {sets[:2]}")
            expect(all(b"more bytes" in e["command"] for e in sets), "a value is cut")
            expect(len({e["id"] for e in got}) == len(got), "the ids differ")
            expect(abs(got[0]["start_time"] - time.time()) < 60, "the time")
            expect({e["client_name"] for e in sets} == {b"ann", b"bob"}, "the names")
            expect(all(e["client_address"].startswith(b"127.0.0.1:") for e in sets), "addresses")
            own = bob[0].slowlog_get(-1)
            expect(own and all(e["client_name"] in (b"bob", b"") for e in own) and
                   not any(b"SET a" in e["command"] for e in own), "bob sees ann's")
            expect(not any(b"pw-" in e["command"] for e in ann[0].slowlog_get(-1)), "a password")
            bob[0].slowlog_reset()
            expect(not any(b"SET b" in e["command"] for e in ann[0].slowlog_get(-1)), "bob's")
            expect(any(b"SET a" in e["command"] for e in ann[0].slowlog_get(-1)), "ann's")
            ann[0].config_set("slowlog-log-slower-than", 10000000)
            ann[0].slowlog_reset()
            ann[1].get("a1")
            expect(ann[0].slowlog_len() == 0, "below the threshold")
            refused(lambda: bob[0].config_set("slowlog-max-len", 1), "NOPERM", "admin")
        for value in "-2", "x":
            run_once("--data", "x", "--slowlog-slower-than-us", value, status=2)
        run_once("--data", "x", "--slowlog-len", "5000", status=2)
    return "40 commands of 2 users"


def case_clients():
    """CLIENT LIST and KILL: by id, address and user, each user its own, an admin all"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="admin", bob="", eve="")
        with daemon("--users", path) as d:
            def connect(name):
                c = d.client(username=name, password=f"pw-{name}", client_name=name,
                             single_connection_client=True)
                c.ping()
                return c
            ann, bob, eve = connect("ann"), [connect("bob") for _ in range(6)], connect("eve")
            for c in bob:
                c.set("k", "v")
            listed = ann.client_list()
            expect(sorted(x["user"] for x in listed) == ["ann"] + 6 * ["bob"] + ["eve"],
                   str(listed))
            expect(len({x["addr"] for x in listed}) == 8, "addresses")
            expect([x["cmd"] for x in listed if x["user"] == "bob"] == 6 * ["set"], "commands")
            expect({x["user"] for x in eve.client_list()} == {"eve"}, "eve sees others")
            expect(ann.client_info()["name"] == "ann", "CLIENT INFO")
            theirs = [x for x in listed if x["user"] == "bob"]
            refused(lambda: eve.client_kill(theirs[0]["addr"]), "No such client")
            expect(eve.client_kill_filter(_id=theirs[0]["id"]) == 0, "eve kills bob's")
            expect(eve.execute_command("CLIENT", "KILL", "USER", "bob") == 0, "eve kills bob")
            expect(ann.client_kill(theirs[0]["addr"]), "by address")
            expect(ann.client_kill_filter(_id=theirs[1]["id"]) == 1, "by id")
            expect(ann.execute_command("CLIENT", "KILL", "USER", "bob") == 4, "by user")
            for c in bob:
                refused(c.ping, "closed", "reset")
            expect(ann.ping() and eve.ping(), "the others")
            expect(eve.client_kill_filter(_id=eve.client_id(), skipme=False) == 1, "itself")
            refused(eve.ping, "closed", "reset")
            # In the middle of large replies and writes.
            bob = [connect("bob") for _ in range(4)]
            bob[0].set("big", bytes(4 << 20))
            joins = [in_thread(lambda c=c: refused(lambda: [c.get("big") for _ in range(1000)],
                                                   "closed", "reset")) for c in bob]
            time.sleep(0.3)
            expect(ann.execute_command("CLIENT", "KILL", "USER", "bob") == 4, "busy ones")
            for join in joins:
                join()
            expect(connect("bob").strlen("big") == 4 << 20, "bob again")
    return "18 connections"


def case_settings():
    """CONFIG SET: the number of clients, the time limit; INFO and LATENCY as clients read them"""
    with daemon() as d:
        c = d.client(single_connection_client=True)
        c.config_set("maxclients", 3)
        others = [d.client(single_connection_client=True) for _ in range(2)]
        expect(all(other.ping() for other in others), "two more")
        refused(lambda: d.client().ping(), "max number of clients")
        c.config_set("maxclients", 100)
        expect(d.client().ping(), "one more")
        expect(c.config_get("maxclients") == {"maxclients": "100"}, "CONFIG GET")
        refused(lambda: c.config_set("maxclients", 10 ** 9), "is a number from")
        expect(c.config_get("maxclients") == {"maxclients": "100"}, "the old value")
        for i in range(10):
            c.set(f"k{i}", "v")
        refused(lambda: c.incr("k1"), "integer")
        stats = c.info("commandstats")
        expect(stats["cmdstat_set"]["calls"] == 10 and stats["cmdstat_set"]["usec"] > 0 and
               stats["cmdstat_incrby"]["failed_calls"] == 1, str(stats))
        expect(c.info("errorstats")["errorstat_ERR"]["count"] == 2, str(c.info("errorstats")))
        expect(c.info("latencystats")["latency_percentiles_usec_set"]["p50"] > 0, "p50")
        said = c.execute_command("LATENCY", "HISTOGRAM", "set")
        expect(said[0] == b"set" and said[1][1] == 10 and said[1][3][-1] == 10, str(said))
        expect(c.latency_latest() == [] and c.latency_reset() == 0, "LATENCY LATEST, RESET")
        expect(b"log: " in c.execute_command("LATENCY", "DOCTOR"), "LATENCY DOCTOR")
        c.config_resetstat()
        expect("cmdstat_set" not in c.info("commandstats"), "CONFIG RESETSTAT")
        expect(c.info("stats")["total_commands_processed"] < 10, "CONFIG RESETSTAT")
        c.config_set("timeout", 2)
        until = time.monotonic() + START_S
        s = others[0].connection._sock
        s.settimeout(0.2)
        while time.monotonic() < until:
            c.ping()
            try:
                expect(s.recv(1) == b"", "it said something")
                break
            except TimeoutError:
                pass
        expect(time.monotonic() < until, "an idle connection stays")
    return "2 settings"
