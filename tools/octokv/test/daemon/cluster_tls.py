# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: the nodes of a cluster, whose map has addresses with TLS.

All need a kernel that has TLS (its module is tls).
"""
import os
import tempfile

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from cluster import (FIRST_EPOCH, FIRST_PORT, NR_NODES, NR_SLOTS, SHARES, SmallCluster, cli,
                     cluster, count_keys, end_taken, keys_at, load_follows, migrate,
                     open_slot, ranges, reshard_words, tags_by_slot, take_over)
from kit import BUILD, Failed, expect, refused
from linear import Load
from service import hang_up
from tls import Certs

FIRST_TLS = FIRST_PORT + 20
NR_MOVED, NR_MOVED_MAX = 10, 100
NR_AGAIN = 5
NR_KEYS = 9


class TlsCluster(SmallCluster):
    """Each node has a certificate of one authority, and wants one of it from clients."""

    def __init__(self, folder):
        super().__init__(folder)
        self.certs = Certs(folder)
        self.plain = ()                 # nodes that the map names without TLS
        for name in ("client", *(f"node{i}" for i in range(NR_NODES))):
            self.certs.sign(name)
        # For other nodes, as it may differ.
        self.certs.copy("ca", "nodes_ca")

    def port(self, i):
        return (FIRST_PORT if i in self.plain else FIRST_TLS) + i

    def options_at(self, port, i=0):
        options = self.certs.options(f"node{i}", ca=self.certs.path("ca.pem"),
                                     cluster_ca=self.certs.path("nodes_ca.pem"))
        options[1] = str(port)
        return ("--port", "0", *options, *self.options)

    def options_of(self, i):
        return self.options_at(FIRST_TLS + i, i)[2:]

    def client_once(self):
        path = self.certs.path
        return redis.RedisCluster(host="127.0.0.1", port=self.port(2), socket_timeout=60,
                                  retry=Retry(NoBackoff(), 0), ssl=True,
                                  ssl_ca_certs=path("ca.pem"), ssl_certfile=path("client.pem"),
                                  ssl_keyfile=path("client.key"))

    def cli(self, *words):
        path = self.certs.path
        try:
            return cli("--tls", "--cacert", path("ca.pem"), "--cert", path("client.pem"), "--key",
                       path("client.key"), *words)
        except Failed as error:
            raise Failed(f"{error} {[node.said()[-400:] for node in self.nodes]}") from None


def case_tls_cluster():
    """valkey-cli --tls --cluster reshard moves slots in use between nodes that speak TLS"""
    with cluster(of=TlsCluster) as c:
        tags = tags_by_slot(NR_MOVED_MAX)
        # More of them would shake hands for longer than octokvd waits, in a guest that is slow.
        load, nr_moved = Load(c.client_once, tags, nr_clients=1), 0
        with load_follows(c, load, tags):
            # In such a guest, a client may meet few of the slots that move.
            while load.nr_again < NR_AGAIN and nr_moved < NR_MOVED_MAX:
                c.cli(*reshard_words(c, NR_MOVED))
                nr_moved += NR_MOVED
        said = f"{nr_moved} slots; meanwhile {load}"
        expect(load.nr_again >= NR_AGAIN, f"few slots in use: {said}")
        expect(count_keys(c) == load.check(), "keys of all nodes")
        checked = c.cli("--cluster", "check", f"127.0.0.1:{c.port(0)}")
        expect("All 16384 slots covered" in checked and "[ERR]" not in checked, checked)
        return said


def a_way(c, first, target):
    """Keys of a slot that is on its way from the first node. Returns that slot and the keys."""
    tag = next(f"{{t{i}}}" for i in range(first, NR_SLOTS)
               if redis.crc.key_slot(b"t%d" % i) < SHARES[0])
    slot = redis.crc.key_slot(tag[1:-1].encode())
    keys = [f"{tag}{i}" for i in range(NR_KEYS)]
    c.nodes[0].client().mset(dict.fromkeys(keys, "x"))
    open_slot(c, slot, 0, target)
    return slot, keys


def stays(c, way, target, words):
    """MIGRATE says @words of that node, which gets no key. One is deleted: none is in doubt."""
    slot, keys = way
    refused(lambda: migrate(c, 0, target, keys),
            f"127.0.0.1:{c.port(target)}: no TLS: {words}")
    expect(not keys_at(c, target, slot), "keys have arrived")
    expect(c.nodes[0].client().delete(keys.pop()) == 1, "it is not known that it has none")
    expect(len(keys_at(c, 0, slot)) == len(keys), "keys are gone")


def goes(c, way, target):
    slot, keys = way
    expect(migrate(c, 0, target, keys) == b"OK", "MIGRATE")
    expect(len(keys_at(c, target, slot)) == len(keys), "not all keys have arrived")
    expect(not keys_at(c, 0, slot), "they are here, too")


def case_tls_cluster_strangers():
    """MIGRATE sends no key without TLS, or to a node with the wrong certificate, and says so"""
    with cluster(of=TlsCluster) as c:
        c.plain = (2,)
        c.write_map(FIRST_EPOCH + 1, ranges(SHARES))
        c.reload(f"epoch {FIRST_EPOCH + 1}, ")
        stays(c, a_way(c, 0, 2), 2, "it does not speak TLS")
        first, second = a_way(c, 100, 1), a_way(c, 200, 1)
        read_again = "the certificate was read again"
        c.certs.sign("other", is_ca=True)
        c.certs.sign("node1", by="other")
        hang_up(c.nodes[1], read_again)
        stays(c, first, 1, "its certificate is of no authority of --tls-cluster-ca-cert-file")
        c.certs.sign("node1", names="IP:127.0.0.2")
        hang_up(c.nodes[1], read_again)
        stays(c, first, 1, "its certificate is not for this host")
        c.certs.sign("node1")
        hang_up(c.nodes[1], read_again)
        goes(c, first, 1)
        # What cannot be read changes nothing. Then another authority is read.
        with open(c.certs.path("nodes_ca.pem"), "w", encoding="ascii") as file:
            file.write("nothing")
        hang_up(c.nodes[0], "the certificate stays as it is: --tls-cluster-ca-cert-file")
        c.nodes[0].client().ping()
        c.certs.copy("other", "nodes_ca")
        third = a_way(c, 300, 1)
        goes(c, third, 1)
        hang_up(c.nodes[0], read_again)
        stays(c, second, 1, "its certificate is of no authority")
    return "2 certificates, 2 authorities, a node without TLS"


def case_tls_takeover():
    """takeover speaks TLS: a node is taken over, and clients with TLS follow"""
    with cluster(of=TlsCluster) as c, tempfile.TemporaryDirectory(dir=BUILD) as folder:
        client, values = c.client_once(), {f"k{i}": b"%d" % i for i in range(100)}
        for key, value in values.items():
            client.set(key, value)
        c.lose_first()
        port = FIRST_TLS + 5
        said = take_over(folder, c, 1, 2, status=1, port=port)[0]
        expect("does not answer" in said and not os.path.exists(f"{folder}/map"), said)
        path = c.certs.path
        environment = {"OCTOKV_TLS_CA": path("ca.pem"), "OCTOKV_TLS_CERT": path("client.pem"),
                       "OCTOKV_TLS_KEY": path("client.key")}
        _, pid = take_over(folder, c, 1, 2, port=port, environment=environment)
        try:
            client = c.client_once()
            expect(all(client.get(key) == value for key, value in values.items()), "values")
            expect(f"127.0.0.1:{port}" in c.cli("-p", str(c.port(2)), "CLUSTER", "NODES"),
                   "the map of another node")
        finally:
            end_taken(folder, c, pid)
    return f"{len(values)} keys"
