# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: several of them are the nodes of a cluster, for clients of Redis Cluster."""
import contextlib
import fcntl
import itertools
import os
import re
import signal
import subprocess
import tempfile
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from kit import (BUILD, OCTOKVD, START_S, Daemon, Failed, daemon, expect, in_thread, refused,
                 run_once, sanitizer_options, users_file)
from linear import Load, keys_of
from service import hang_up

NR_NODES = 3
FIRST_PORT = 7201
NR_SLOTS = 16384
NR_KEYS = 600
NR_MOVED = int(os.environ.get("SLOTS", 2000))  # the first ones
NR_REDISC_MOVED = 300
FILLED_BYTES = int(os.environ.get("FILLED_GIB", 0)) << 30  # of the store that is taken over
FILL_VALUE_BYTES = 16 << 10
FILL_BATCH = 64
FIRST_EPOCH = 5
SHARES = (5461, 5461, 5462)
RESHARD_S = 600


def ranges(owners):
    """The slots of each node as words of the file: @owners says how many each one has, in turn."""
    at, words = 0, []
    for nr in owners:
        words.append(f"{at}-{at + nr - 1}" if nr else "")
        at += nr
    return words


class Cluster:
    """Stores with slots, a file with the map, and the nodes."""

    def __init__(self, folder):
        self.stores = [self.store_of(folder, i) for i in range(NR_NODES)]
        self.map = os.path.join(folder, "map")
        self.nodes, self.options = [], ()
        said = [run_once("--data", store, "--format", "--slots", *self.format_of(i))
                for i, store in enumerate(self.stores)]
        self.ids = [re.search(r"it is ([0-9a-f]{40})$", text, re.M).group(1) for text in said]

    def store_of(self, folder, i):
        return os.path.join(folder, f"store{i}")

    def format_of(self, i):
        """Options of --format: room for what is written once more, too."""
        return "--size", str((2 << 30) + FILLED_BYTES * 4)

    def map_text(self, epoch, words):
        return f"# The test's.\nepoch {epoch}\n" + "".join(
            f"{name} 127.0.0.1:{self.port(i)} {words[i]}\n" for i, name in enumerate(self.ids))

    def port(self, i):
        """In the map."""
        return FIRST_PORT + i

    def options_of(self, i):
        """Of a node, beside the port of FIRST_PORT and the map."""
        return self.options

    def options_at(self, port):
        """Those with which another octokvd serves the first node's store, at that port."""
        return ("--port", str(port), *self.options)

    def write_map(self, epoch, words):
        with open(self.map, "w", encoding="utf-8") as file:
            file.write(self.map_text(epoch, words))

    def start(self, folder, i):
        own = os.path.join(folder, str(i))
        os.makedirs(own, exist_ok=True)
        self.nodes.append(Daemon(own, "--cluster", self.map, *self.options_of(i),
                                 port=FIRST_PORT + i, device=self.stores[i], is_formatted=True))

    def client(self):
        return redis.RedisCluster(host="127.0.0.1", port=FIRST_PORT, socket_timeout=60)

    def client_once(self, timeout_s=60):
        """One that does not send again by itself what may have been run."""
        return redis.RedisCluster(host="127.0.0.1", port=FIRST_PORT + 2, socket_timeout=timeout_s,
                                  retry=Retry(NoBackoff(), 0))

    def restart(self, i):
        """Start a node again that was killed."""
        self.wait_for_end(self.nodes[i], i)
        self.nodes[i].restart()

    def wait_for_end(self, node, i):
        """Of a node that was killed, and of what the kernel does for it."""
        node.child.wait()
        # The kernel first ends the requests of its ring, and the file is locked meanwhile.
        wait_until(lambda: is_unlocked(self.stores[i]), "the store is in use")

    def lose_first(self):
        """The first node's host is gone. Its store may be opened."""
        gone = self.nodes.pop(0)
        gone.child.kill()
        self.wait_for_end(gone, 0)

    def reload(self, wanted):
        """All nodes read the map again, and each says @wanted."""
        for node in self.nodes:
            node.child.send_signal(signal.SIGHUP)
        wait_until(lambda: all(wanted in node.said() for node in self.nodes), f"no {wanted!r}")


class SmallCluster(Cluster):
    """For a guest whose /tmp has 2 GiB: octokvd fills the first segments of a file with zeros."""

    def format_of(self, i):
        return "--size", "1g"


@contextlib.contextmanager
def cluster(of=Cluster, **users):
    with tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        c = of(folder)
        if users:
            c.options = ("--users", users_file(folder, **users))
        c.write_map(FIRST_EPOCH, ranges(SHARES))
        try:
            for i in range(NR_NODES):
                c.start(folder, i)
            yield c
            for node in c.nodes:
                expect(node.end() == 0, "did not end well")
        finally:
            for node in c.nodes:
                if node.child.poll() is None:
                    node.child.kill()
                    node.child.wait()


def cli(*words):
    done = subprocess.run(["valkey-cli", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=RESHARD_S, check=False)
    expect(done.returncode == 0, f"valkey-cli {words}: {done.stdout}")
    return done.stdout


def case_cluster():
    """redis-py's cluster client and valkey-cli find each key's node"""
    with cluster() as c:
        client = c.client()
        values = {f"k{i}": str(i).encode() for i in range(NR_KEYS)}
        for key, value in values.items():
            client.set(key, value)
        expect(all(client.get(key) == value for key, value in values.items()), "what was set")
        sizes = [node.client().dbsize() for node in c.nodes]
        expect(sum(sizes) == NR_KEYS and min(sizes) > NR_KEYS / 5, f"keys by node: {sizes}")
        expect(client.mget_nonatomic(*values) == list(values.values()), "MGET over all nodes")
        with client.pipeline() as pipe:
            for key in values:
                pipe.incr(key)
            expect(pipe.execute() == [int(value) + 1 for value in values.values()], "a pipeline")
        # Keys with one tag: of one slot, and so of one partition, whatever comes behind.
        node = client.get_redis_connection(client.get_node_from_key("{t}"))
        with node.pipeline(transaction=True) as pipe:
            for i in range(20):
                pipe.set(f"{{t}}{i}", i)
            expect(all(pipe.execute()), "MULTI over 20 keys")
        expect(client.mget(*[f"{{t}}{i}" for i in range(20)]) == [b"%d" % i for i in range(20)],
               "MGET of one slot")
        expect(client.keyslot("{t}1") == client.cluster_keyslot("{t}2"), "CLUSTER KEYSLOT")
        port = str(FIRST_PORT)
        expect(all(cli("-c", "-p", port, "get", key).strip() == str(int(value) + 1)
                   for key, value in list(values.items())[:9]), "valkey-cli -c")
        said = cli("--cluster", "check", f"127.0.0.1:{port}")
        expect("All 16384 slots covered" in said and "[ERR]" not in said, said)
        return f"{NR_KEYS} keys on {NR_NODES} nodes: {sizes}"


def case_cluster_map():
    """another map at SIGHUP: clients follow it; an old, a different or a wrong one is refused"""
    with cluster() as c:
        client = c.client()
        # A range of slots without keys goes from the first node to the last. Another one is used
        # meanwhile.
        moved = next(f"m{i}" for i in range(NR_SLOTS) if client.keyslot(f"m{i}") < 1000)
        stays = next(f"s{i}" for i in range(NR_SLOTS) if client.keyslot(f"s{i}") > 1000)
        over = []

        def load():
            while not over:
                client.incr(stays)
        join = in_thread(load)
        # One of them is on its way elsewhere. That ends, in the own files, too.
        open_slot(c, 0, 0, 1)
        words = ranges((5461, 5461, 5462))
        words[0], words[2] = "1000-5460", words[2] + " 0-999"
        c.write_map(6, words)
        c.reload("epoch 6, 3 nodes")
        for name in c.ids[:2]:
            with open(f"{c.map}.{name}", encoding="utf-8") as file:
                text = file.read()
            expect("\nepoch 6\n" in text and "[" not in text, text)
        over.append(True)
        join()
        # redis-py makes an exception of its own of MOVED.
        refused(lambda: c.nodes[0].client().get(moved),
                f"{client.keyslot(moved)} 127.0.0.1:{FIRST_PORT + 2}")
        expect(client.set(moved, 1) and c.nodes[2].client().get(moved) == b"1", "it has moved")
        c.write_map(6, ranges((5461, 5461, 5462)))
        c.reload("is 6, not above 6")
        # Once a slot has moved, a map that moves others says what it was made of; starts know it.
        open_slot(c, 16000, 2, 0)
        for i in (2, 0, 1):
            c.nodes[i].client().execute_command("CLUSTER SETSLOT", 16000, "NODE", c.ids[0])
        c.write_map(8, words)
        for node in (c.nodes[0], c.nodes[2]):
            hang_up(node, "slots have moved since map 6, and this one moves slot 16000")
        words[0], words[2] = "1000-5460 16000", "10922-15999 16001-16383 0-999"
        c.write_map(9, words)
        c.reload("epoch 9, 3 nodes")
        words[1], words[2] = words[1] + " 0", "10922-15999 16001-16383 1-999"
        c.write_map(10, words)
        for node in c.nodes[1:]:
            hang_up(node, "slots have moved since map 6, and this one moves slot 0")
        c.write_map("11 since 9", words)
        c.reload("epoch 11, 3 nodes")
        for node in c.nodes:
            expect(node.end() == 0, "did not end well")
            node.start()
            expect(node.client().info("cluster")["cluster_epoch"] == 11, node.said())
        with open(c.map, "a", encoding="utf-8") as file:
            file.write("nonsense\n")
        c.reload(f"{c.map}:6: a line is ID ADDRESS:PORT")
        expect(c.nodes[1].client().info("cluster")["cluster_epoch"] == 11, "INFO")
    with daemon() as d:
        expect(d.end() == 0, "did not end well")
        said = run_once("--data", d.data, "--cluster", "/dev/null", status=1)
        expect("its keys have no slots: dump it" in said, said)
        os.unlink(d.data)
        said = run_once("--data", d.data, "--cluster", "/dev/null", status=1)
        expect("--format --slots first" in said and not os.path.exists(d.data), said)
        run_once("--data", d.data, "--format", "--slots", "--size", "2g")
        said = run_once("--data", d.data, "--cluster", "/dev/null", status=1)
        expect("the ID of this store is not there: " in said, said)
        # A store with slots serves without a cluster, too.
        d.start()
        refused(lambda: d.client().execute_command("CLUSTER INFO"), "cluster support disabled")
    return "1,000 slots without keys went to another node; three maps refused"


def tags_by_slot(nr):
    """A tag of each of the first @nr slots."""
    tags = {}
    for i in itertools.count():
        if len(tags) == nr:
            return [f"{{{tags[slot]}}}" for slot in range(nr)]
        slot = redis.crc.key_slot(b"t%d" % i)
        if slot < nr:
            tags.setdefault(slot, f"t{i}")


@contextlib.contextmanager
def load_follows(c, load, tags):
    """The load uses the slot that moves, and those around it: slots move in their order."""
    over = []

    def follow():
        node = c.nodes[0].client()
        while not over:
            slot = node.info("cluster")["cluster_epoch"] - FIRST_EPOCH
            load.prefixes = tags[max(slot - 2, 0):slot + 4] or load.prefixes
            time.sleep(0.005)
    join = in_thread(follow)
    try:
        yield
    finally:
        over.append(True)
        join()
        load.end()


def count_keys(c):
    return sum(node.client().dbsize() for node in c.nodes)


def reshard_words(c, nr_slots):
    """For valkey-cli: the first slots go from the first node to the second."""
    return ["--cluster", "reshard", f"127.0.0.1:{c.port(0)}", "--cluster-from", c.ids[0],
            "--cluster-to", c.ids[1], "--cluster-slots", str(nr_slots), "--cluster-yes"]


def case_cluster_reshard():
    """valkey-cli --cluster reshard moves slots in use, and all answers fit together"""
    with cluster() as c:
        client = c.client()
        tags = tags_by_slot(NR_MOVED)
        expires = f"{tags[0]}expires"
        client.set(expires, "x", pxat=4102444800123)
        longest = f"{tags[1]}longest"
        client.set(longest, bytes(8 << 20))
        load = Load(c.client_once, tags)
        begun = time.monotonic()
        with load_follows(c, load, tags):
            cli(*reshard_words(c, NR_MOVED))
        seconds = time.monotonic() - begun
        said = f"{NR_MOVED} slots in {seconds:.1f} s; meanwhile {load}"
        expect(len(load.histories) > NR_MOVED * 0.9, f"few slots in use: {said}")
        expect(count_keys(c) == load.check() + 2, "keys of all nodes")
        expect(c.client().pexpiretime(expires) == 4102444800123, "the expiry")
        expect(c.client().strlen(longest) == 8 << 20, "the longest value")
        refused(lambda: c.nodes[0].client().get(expires), f":{FIRST_PORT + 1}")
        checked = cli("--cluster", "check", f"127.0.0.1:{FIRST_PORT}")
        expect("All 16384 slots covered" in checked and "[ERR]" not in checked, checked)
        # They know it after a start, too, whatever the file says that is not newer.
        last = FIRST_EPOCH + NR_MOVED
        epochs = [node.client().info("cluster")["cluster_epoch"] for node in c.nodes]
        expect(epochs == [last] * NR_NODES, f"epochs: {epochs}")
        for node in c.nodes:
            expect(node.end() == 0, "did not end well")
            node.start()
            expect(f"epoch {last}\n" in node.said(), node.said())
        load.check()
        c.reload(f"is {FIRST_EPOCH}, not above {last}")
        return said


def case_cluster_redisc():
    """redisc, a client in Go, uses keys of all nodes while slots move; all its values are right"""
    with cluster() as c:
        done = subprocess.run([os.path.join(BUILD, "test/daemon/redisc"),
                               f"127.0.0.1:{FIRST_PORT}", str(NR_REDISC_MOVED), "valkey-cli",
                               *reshard_words(c, NR_REDISC_MOVED)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=RESHARD_S, check=False)
        expect(done.returncode == 0, done.stdout)
        sizes = [node.client().dbsize() for node in c.nodes]
        expect(sum(sizes) == int(done.stdout.split()[0]) and min(sizes) > 500,
               f"keys by node: {sizes}, of {done.stdout}")
        epoch = c.nodes[0].client().info("cluster")["cluster_epoch"]
        expect(epoch == FIRST_EPOCH + NR_REDISC_MOVED, f"epoch: {epoch}")
        return f"{NR_REDISC_MOVED} slots moved; {done.stdout.strip()}"


def open_slot(c, slot, source, target):
    """The slot is on its way between two nodes."""
    for node, how, other in ((target, "IMPORTING", source), (source, "MIGRATING", target)):
        c.nodes[node].client().execute_command("CLUSTER SETSLOT", slot, how, c.ids[other])


def is_unlocked(path):
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def wait_until(is_so, why):
    until = time.monotonic() + START_S
    while not is_so():
        expect(time.monotonic() < until, why)
        time.sleep(0.005)


def keys_at(c, node, slot):
    return c.nodes[node].client().execute_command("CLUSTER GETKEYSINSLOT", slot, 1000)


def migrate(c, node, target, keys):
    return c.nodes[node].client().execute_command(
        "MIGRATE", "127.0.0.1", c.port(target), "", 0, 20000, "KEYS", *keys)


def kill_in_migrate(c, victim, tag):
    """Kill a node while keys of a slot go from the first node to the second."""
    slot = c.client().keyslot(tag)
    prefixes = [f"{tag}{i}" for i in range(32)]
    load = Load(c.client_once, prefixes)

    def send():
        refused(lambda: [migrate(c, 0, 1, [*keys_of(prefix), f"{prefix}long"])
                         for prefix in prefixes * 1000], "")
    for prefix in prefixes:
        c.client().setrange(f"{prefix}long", 1 << 19, prefix)
    wait_until(lambda: len(load.histories) == len(prefixes), "keys are not used")
    open_slot(c, slot, 0, 1)
    join_send = in_thread(send)
    wait_until(lambda: len(keys_at(c, 1, slot)) >= 10, "no keys arrive")
    c.nodes[victim].child.kill()
    join_send()
    c.restart(victim)
    at = [len(keys_at(c, i, slot)) for i in range(NR_NODES)]
    expect(at[0] and at[1], f"keys of the slot: {at}")
    cli("--cluster", "fix", f"127.0.0.1:{FIRST_PORT}", "--cluster-yes")
    said = cli("--cluster", "check", f"127.0.0.1:{FIRST_PORT}")
    expect("slots covered" in said and "[ERR]" not in said and "[WARNING]" not in said, said)
    load.end()
    nr = load.check()
    client = c.client()
    for prefix in prefixes:
        expect(client.getrange(f"{prefix}long", 1 << 19, -1) == prefix.encode(), f"{prefix}long")
    at = [len(keys_at(c, i, slot)) for i in range(NR_NODES)]
    expect(at == [0, nr + len(prefixes), 0], f"keys of the slot: {at}, not {nr}")
    return str(load)


def case_cluster_killed():
    """a node is killed in the middle of a MIGRATE: --cluster fix goes on, and all answers fit"""
    with cluster() as c:
        tags = tags_by_slot(4)
        return "; ".join(kill_in_migrate(c, i % 2, tag) for i, tag in enumerate(tags))


START = """
"$@" > "$LOG" 2>&1 & echo $! > "$PID"
until grep -q 'octokvd: serving' "$LOG"; do kill -0 $! && sleep 0.05 || exit 1; done
"""
TAKEOVER = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../takeover"))


def take_over(folder, c, *nodes, status=0, port=FIRST_PORT + 5, environment=None):
    """Start the first node's store at another port, by the script. The status is that of it."""
    files = {name: os.path.join(folder, name.lower()) for name in ("PID", "LOG", "MAP")}
    done = subprocess.run(
        [TAKEOVER, files["MAP"], c.ids[0], f"127.0.0.1:{port}",
         *[f"127.0.0.1:{c.port(i)}" for i in nodes], "--",
         "sh", "-c", START, "sh", OCTOKVD, "--data", c.stores[0], "--cores", "2", "--cluster",
         files["MAP"], *c.options_at(port)],
        env={**os.environ, **sanitizer_options(), **files, **(environment or {})},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
    expect(done.returncode == status, f"takeover: {done.returncode}: {done.stdout}")
    return done.stdout, files["PID"]


def wait_for_answers(load):
    """From now on, to all keys."""
    marks = {prefix: len(history) for prefix, history in load.histories.items()}
    try:
        wait_until(lambda: all(len(load.histories[prefix]) > nr + 5
                               for prefix, nr in marks.items()), "clients do not follow")
    except Failed:
        load.end()                      # raises what a client has ended with
        raise


def end_taken(folder, c, pid):
    """End what take_over() has started."""
    with open(pid, encoding="ascii") as file:
        os.kill(int(file.read()), signal.SIGTERM)
    wait_until(lambda: is_unlocked(c.stores[0]), "did not end")
    with open(f"{folder}/log", encoding="utf-8") as file:
        said = file.read()
    expect("Sanitizer" not in said and "runtime error" not in said, said)


def fill(node, nr_bytes):
    """Values that differ, in all slots of the first node."""
    tags, client = tags_by_slot(SHARES[0]), node.client()
    for first in range(0, nr_bytes // FILL_VALUE_BYTES, FILL_BATCH):
        with client.pipeline(transaction=False) as pipe:
            for i in range(first, first + FILL_BATCH):
                pipe.set(f"{tags[i % len(tags)]}fill{i}", b"%016d" % i * (FILL_VALUE_BYTES // 16))
            pipe.execute()


class Recovery:
    """When a node that is taken over serves, and what it has read until then."""

    def __init__(self, folder, key):
        self.decided_s, self.folder, self.key = time.monotonic(), folder, key
        self.serves_s = self.read_bytes = None
        self.join = in_thread(self.wait)

    def wait(self):
        until = time.monotonic() + START_S
        while time.monotonic() < until:
            try:
                redis.Redis(port=FIRST_PORT + 5, socket_timeout=1, retry=None).get(self.key)
                break
            except redis.RedisError:
                time.sleep(0.005)
        self.serves_s = time.monotonic() - self.decided_s
        with open(f"{self.folder}/pid", encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            self.read_bytes = int(re.search(r"^read_bytes: (\d+)", file.read(), re.M).group(1))

    def __str__(self):
        return (f"{FILLED_BYTES >> 30} GiB and the load's: served {self.serves_s:.2f} s after the "
                f"decision, {self.read_bytes >> 20} MiB read until then")


def half_way(c):
    """A slot leaves the first node, and another one comes: some of their keys have moved."""
    tag = next(f"{{t{i}}}" for i in itertools.count()
               if redis.crc.key_slot(b"t%d" % i) == NR_SLOTS - 1)
    keys = {name: [f"{name}way{i}" for i in range(4)] for name in (tags_by_slot(1)[0], tag)}
    for (name, source, target), slot in zip(zip(keys, (0, 2), (1, 0)), (0, NR_SLOTS - 1)):
        c.nodes[source].client().mset({key: key for key in keys[name]})
        open_slot(c, slot, source, target)
        migrate(c, source, target, keys[name][:2])
    return [key for some in keys.values() for key in some]


def is_whole(c, keys):
    client = c.client_once()
    expect(all(client.get(key) == key.encode() for key in keys), "keys of slots on their way")


def case_cluster_takeover():
    """a node's host is gone: another one takes its store over, and clients follow"""
    with cluster() as c, tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        fill(c.nodes[0], FILLED_BYTES)
        load = Load(c.client_once, [f"{{t{i}}}" for i in range(30)])
        wait_until(lambda: len(load.histories) == 30, "keys are not used")
        # Some of it once more: it ends in the middle of writes that no checkpoint has.
        fill(c.nodes[0], FILLED_BYTES // 8)
        keys = half_way(c)
        c.lose_first()
        # Not all nodes are named; two get one slot; they disagree.
        said = take_over(folder, c, 1, status=1)[0]
        expect("has other nodes than those that are named" in said, said)
        one = c.nodes[0].client()
        for node in c.nodes:
            node.client().execute_command("CLUSTER SETSLOT", 5, "IMPORTING", c.ids[0])
        said = take_over(folder, c, 1, 2, status=1)[0]
        expect(f"get slot 5 from {c.ids[0]}" in " ".join(said.split()), said)
        for node in c.nodes:
            node.client().execute_command("CLUSTER SETSLOT", 5, "STABLE")
        one.execute_command("CLUSTER SETSLOT", NR_SLOTS - 2, "NODE", c.ids[0])
        said = take_over(folder, c, 1, 2, status=1)[0]
        expect("has another map" in said and not os.path.exists(f"{folder}/map"), said)
        one.execute_command("CLUSTER SETSLOT", NR_SLOTS - 2, "NODE", c.ids[2])
        same = c.map_text(FIRST_EPOCH + 2, ranges(SHARES))
        c.nodes[1].client().execute_command("CLUSTER SETMAP", same)
        recovery = Recovery(folder, f"{tags_by_slot(2)[1]}fill1")
        _, pid = take_over(folder, c, 1, 2)
        recovery.join()
        try:
            wait_for_answers(load)
            follow_s = time.monotonic() - recovery.decided_s
            load.end()
            load.check()
            is_whole(c, keys)
            cli("--cluster", "fix", f"127.0.0.1:{c.port(1)}", "--cluster-yes")
            said = cli("--cluster", "check", f"127.0.0.1:{c.port(1)}")
            expect("slots covered" in said and "[ERR]" not in said and "[WARNING]" not in said,
                   said)
            is_whole(c, keys)
        finally:
            end_taken(folder, c, pid)
        # A node keeps what it was sent.
        c.nodes[0].end()
        c.nodes[0].start()
        expect(f"epoch {FIRST_EPOCH + 5}\n" in c.nodes[0].said(), c.nodes[0].said())
        return f"{recovery}, and clients had all keys after {follow_s:.2f} s; {load}"


def case_cluster_users():
    """an admin moves slots, with the keys of all users"""
    with cluster(ann="admin", bob="") as c:
        def as_user(node, name):
            return c.nodes[node].client(username=name, password=f"pw-{name}")

        def ask(name, *words):
            return as_user(0, name).execute_command("CLUSTER", *words)
        tag = next(f"t{i}" for i in range(NR_SLOTS)
                   if redis.crc.key_slot(b"t%d" % i) < 30)
        slot = redis.crc.key_slot(tag.encode())
        keys = [f"{{{tag}}}{i}" for i in range(20)]
        digests = {as_user(node, "bob").execute_command("CLUSTER INFO")["cluster_users_digest"]
                   for node in range(NR_NODES)}
        expect(len(digests) == 1 and digests != {"0" * 16}, f"digests: {digests}")
        for name in ("ann", "bob"):
            expect(as_user(0, name).mset(dict.fromkeys(keys, name)), "MSET")
        expect(ask("bob", "COUNTKEYSINSLOT", slot) == 20, "bob's")
        expect(ask("ann", "COUNTKEYSINSLOT", slot) == 40, "those of all")
        refused(lambda: ask("bob", "SETSLOT", slot, "STABLE"), "only an admin moves it")
        refused(lambda: ask("ann", "SETSLOT", slot, "NODE", c.ids[1]), "MIGRATING first")
        ask("ann", "SETSLOT", slot, "MIGRATING", c.ids[1])
        refused(lambda: ask("ann", "SETSLOT", slot, "NODE", c.ids[1]), "has keys here")
        refused(lambda: as_user(0, "ann").execute_command(
            "MIGRATE", "127.0.0.1", FIRST_PORT + 1, "", 0, 5000, "AUTH2", "ann", "pw-ann", "KEYS",
            keys[0]), f"MOVED {slot}")
        # Strangers may not send so much, and get no answer to each key. Yet nothing is in doubt.
        long = f"{{{tag}}}long"
        ask("ann", "SETSLOT", slot, "STABLE")
        as_user(0, "ann").set(long, bytes(1 << 20))
        ask("ann", "SETSLOT", slot, "MIGRATING", c.ids[1])
        refused(lambda: as_user(0, "ann").execute_command(
            "MIGRATE", "127.0.0.1", FIRST_PORT + 1, "", 0, 5000, "AUTH2", "ann", "wrong", "KEYS",
            long, keys[0]), "WRONGPASS")
        expect(as_user(0, "ann").delete(long) == 1, "a key of which the other node has none")
        ask("ann", "SETSLOT", slot, "STABLE")
        said = cli("--user", "ann", "--pass", "pw-ann", "--no-auth-warning", "--cluster",
                   "reshard", f"127.0.0.1:{FIRST_PORT}", "--cluster-from", c.ids[0],
                   "--cluster-to", c.ids[1], "--cluster-slots", str(slot + 1), "--cluster-yes")
        for name in ("ann", "bob"):
            expect(as_user(1, name).mget(keys) == [name.encode()] * 20, f"{name}'s keys: {said}")
            expect(not as_user(0, name).dbsize(), f"{name} has keys left")
        # And back.
        cli("--user", "ann", "--pass", "pw-ann", "--no-auth-warning", "--cluster", "rebalance",
            f"127.0.0.1:{FIRST_PORT}", "--cluster-threshold", "0.1")
        said = cli("--user", "ann", "--pass", "pw-ann", "--no-auth-warning", "--cluster", "check",
                   f"127.0.0.1:{FIRST_PORT}")
        expect("20 keys | 5462 slots" in said and "[ERR]" not in said, said)
        expect(as_user(0, "bob").mget(keys) == [b"bob"] * 20, "bob's keys came back")
        return f"{slot + 1} slots, one with keys of two users"
