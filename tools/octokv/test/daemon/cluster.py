# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: several of them are the nodes of a cluster, for clients of Redis Cluster."""
import contextlib
import os
import re
import signal
import subprocess
import tempfile
import time

import redis

from kit import BUILD, START_S, Daemon, daemon, expect, in_thread, refused, run_once

NR_NODES = 3
FIRST_PORT = 7201
NR_SLOTS = 16384
NR_KEYS = 600


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
        self.stores = [os.path.join(folder, f"store{i}") for i in range(NR_NODES)]
        self.map = os.path.join(folder, "map")
        self.nodes = []
        said = [run_once("--data", store, "--format", "--slots", "--size", "1g")
                for store in self.stores]
        self.ids = [re.search(r"it is ([0-9a-f]{40})$", text, re.M).group(1) for text in said]

    def write_map(self, epoch, words):
        with open(self.map, "w", encoding="utf-8") as file:
            file.write(f"# The test's.\nepoch {epoch}\n" + "".join(
                f"{name} 127.0.0.1:{FIRST_PORT + i} {words[i]}\n"
                for i, name in enumerate(self.ids)))

    def start(self, folder, i):
        own = os.path.join(folder, str(i))
        os.makedirs(own, exist_ok=True)
        self.nodes.append(Daemon(own, "--cluster", self.map, port=FIRST_PORT + i,
                                 device=self.stores[i], is_formatted=True))

    def client(self):
        return redis.RedisCluster(host="127.0.0.1", port=FIRST_PORT, socket_timeout=60)

    def reload(self, wanted):
        """All nodes read the map again, and each says @wanted."""
        for node in self.nodes:
            node.child.send_signal(signal.SIGHUP)
        until = time.monotonic() + START_S
        while not all(wanted in node.said() for node in self.nodes):
            expect(time.monotonic() < until, f"no {wanted!r} in {self.nodes[0].said()}")
            time.sleep(0.02)


@contextlib.contextmanager
def cluster():
    with tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        c = Cluster(folder)
        c.write_map(5, ranges((5461, 5461, 5462)))
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
                          text=True, timeout=60, check=False)
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
        words = ranges((5461, 5461, 5462))
        words[0], words[2] = "1000-5460", words[2] + " 0-999"
        c.write_map(6, words)
        c.reload("epoch 6, 3 nodes")
        over.append(True)
        join()
        # redis-py makes an exception of its own of MOVED.
        refused(lambda: c.nodes[0].client().get(moved),
                f"{client.keyslot(moved)} 127.0.0.1:{FIRST_PORT + 2}")
        expect(client.set(moved, 1) and c.nodes[2].client().get(moved) == b"1", "it has moved")
        c.write_map(6, ranges((5461, 5461, 5462)))
        c.reload("is 6, not above 6")
        with open(c.map, "a", encoding="utf-8") as file:
            file.write("nonsense\n")
        c.reload(f"{c.map}:6: a line is ID ADDRESS:PORT")
        expect(c.nodes[1].client().info("cluster")["cluster_epoch"] == 6, "INFO")
    with daemon() as d:
        expect(d.end() == 0, "did not end well")
        said = run_once("--data", d.data, "--cluster", "/dev/null", status=1)
        expect("its keys have no slots: dump it" in said, said)
        os.unlink(d.data)
        said = run_once("--data", d.data, "--cluster", "/dev/null", status=1)
        expect("--format --slots first" in said and not os.path.exists(d.data), said)
        run_once("--data", d.data, "--format", "--slots", "--size", "1g")
        said = run_once("--data", d.data, "--cluster", "/dev/null", status=1)
        expect("the ID of this store is not there: " in said, said)
        # A store with slots serves without a cluster, too.
        d.start()
        refused(lambda: d.client().execute_command("CLUSTER INFO"), "cluster support disabled")
    return "1,000 slots without keys went to another node; three maps refused"
