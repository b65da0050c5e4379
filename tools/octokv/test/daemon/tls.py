# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd with TLS: clients, certificates, what is no data, strangers, wrong starts.

All but the first need a kernel that has TLS (its module is tls).
"""
import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

import redis

from kit import (BUILD, PORT, START_S, daemon, expect, in_thread, raw, read_until_closed, refused,
                 run_once, users_file)
from service import hang_up

TLS = PORT + 3
NO_KERNEL = "octokvd: --tls: the kernel has no TLS, or its module is not loaded: modprobe tls\n"
OPTIONS = {"ca": "ca-cert", "cluster_ca": "cluster-ca-cert"}
NAMES = "DNS:localhost,IP:127.0.0.1"
NR_GREETINGS, NR_OF_NETWORK = 128, 32


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


class Certs:
    """An authority in @folder, and the certificates that it signs: their files by name."""

    def __init__(self, folder):
        self.folder = folder
        self.sign("ca", is_ca=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def sign(self, name, *more, own=False, is_ca=False, by="ca", names=NAMES):
        by = [] if own or is_ca else ["-CA", self.path(f"{by}.pem"), "-CAkey",
                                      self.path(f"{by}.key")]
        use = "keyCertSign" if is_ca else "digitalSignature"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem"), "-subj",
                f"/CN={name}", "-addext", f"subjectAltName={names}", "-addext",
                f"basicConstraints=critical,CA:{str(is_ca).lower()}", "-addext",
                f"keyUsage=critical,{use}", *by, *more)

    def copy(self, name, to):
        """The certificate @name, in place of that of @to."""
        shutil.copy(self.path(f"{name}.pem"), self.path(f"{to}.pem"))

    def options(self, name="server", **files):
        """Of octokvd: the certificate @name."""
        given = {"cert": self.path(f"{name}.pem"), "key": self.path(f"{name}.key"), **files}
        options = ["--tls", str(TLS)]
        for kind, path in given.items():
            options += [f"--tls-{OPTIONS.get(kind, kind)}-file", path]
        return options

    def context(self, version=None, name=None, ciphers=None):
        """Of a client, perhaps with a certificate of its own."""
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if version:
            context.minimum_version = context.maximum_version = version
        if ciphers:
            context.set_ciphers(ciphers)
        if name:
            context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
        return context

    def client(self, name=None, **options):
        files = {"ssl_certfile": self.path(f"{name}.pem"),
                 "ssl_keyfile": self.path(f"{name}.key")} if name else {}
        return redis.Redis(host="localhost", port=TLS, ssl=True, ssl_ca_certs=self.path("ca.pem"),
                           socket_timeout=60, retry=None, **files, **options)


class Folder(tempfile.TemporaryDirectory):
    """A folder with an authority and a certificate of the server."""

    def __init__(self):
        super().__init__(dir=BUILD)

    def __enter__(self):
        certs = Certs(super().__enter__())
        certs.sign("server")
        return certs


def wrapped(certs, **more):
    return certs.context(**more).wrap_socket(raw(TLS), server_hostname="localhost")


def case_tls_starts():
    """certificates that do not do: one sentence each; and so is a kernel without TLS"""
    with Folder() as certs:
        certs.sign("other")
        certs.sign("past", "-not_before", "20200101000000Z", "-not_after", "20210101000000Z")
        certs.sign("future", "-not_before", "20900101000000Z", "-not_after", "20910101000000Z")
        noise, nowhere, image = (certs.path(name) for name in ("noise", "nowhere", "x.img"))
        with open(noise, "wb") as handle:
            handle.write(os.urandom(5000))
        openssl("pkey", "-in", certs.path("server.key"), "-aes256", "-passout", "pass:secret",
                "-out", certs.path("locked.key"))
        wrong = [({"key": certs.path("other.key")}, "it is not the key of the certificate"),
                 ({"cert": nowhere}, "No such file"), ({"key": nowhere}, "No such file"),
                 ({"ca": nowhere}, "No such file"), ({"cluster_ca": nowhere}, "No such file"),
                 ({"cluster_ca": noise}, "no certificates in PEM"),
                 ({"cert": noise}, "no certificate in PEM"),
                 ({"key": noise}, "no private key"), ({"ca": noise}, "no certificates in PEM"),
                 ({"key": certs.path("locked.key")}, "a password"),
                 ({"cert": certs.path("server.key")}, "no certificate in PEM")]
        for files, words in wrong:
            said = run_once("--data", image, "--size", "256m", "--cluster", nowhere,
                            *certs.options(**files), status=1)
            expect(words in said and said.startswith("octokvd: --tls-") and said.count("\n") == 1,
                   f"{files}: {said}")
        for name, words in ("past", "has expired"), ("future", "is not valid yet"):
            said = run_once("--data", image, "--size", "256m", *certs.options(name), status=1)
            expect(words in said and said.count("\n") == 1, said)
        for address, words in (("x", "give PORT"), ("0", "give PORT"), ("0.0.0.0:9", "--users"),
                               ("example.org:9", "numeric")):
            options = ["--tls", address, *certs.options()[2:]]
            said = run_once("--data", image, "--size", "256m", *options, status=1)
            expect(words in said and said.count("\n") == 1, said)
        for options in (["--tls", "9"], certs.options()[2:], certs.options()[:4]):
            run_once("--data", image, *options, status=2)
        to_nodes = ["--tls-cluster-ca-cert-file", certs.path("ca.pem")]
        for options in ["--cluster", nowhere], certs.options():
            said = run_once("--data", image, *options, *to_nodes, status=2)
            expect("--tls-cluster-ca-cert-file goes with --tls and --cluster;" in said, said)
        expect(not os.path.exists(image), "a file is left")
        if os.path.exists("/proc/sys/net/ipv4/tcp_available_ulp"):
            with open("/proc/sys/net/ipv4/tcp_available_ulp", encoding="ascii") as handle:
                if "tls" in handle.read().split():
                    return f"{len(wrong) + 11} ways; the kernel has TLS"
        said = run_once("--data", image, "--size", "256m", *certs.options(), status=1)
        expect(said == NO_KERNEL and not os.path.exists(image), said)
        return f"{len(wrong) + 12} ways"


def check_versions(certs):
    """Long values in both directions, by version of TLS and cipher."""
    names = []
    for version, ciphers in ((ssl.TLSVersion.TLSv1_3, None), (ssl.TLSVersion.TLSv1_2, None),
                             (ssl.TLSVersion.TLSv1_2, "ECDHE+AES256")):
        value = os.urandom(1 << 20)
        with wrapped(certs, version=version, ciphers=ciphers) as s:
            s.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nv\r\n$1048576\r\n" + value + b"\r\n")
            s.sendall(b"GET v\r\nQUIT\r\n")
            said = read_until_closed(s)
            expect(said == b"+OK\r\n$1048576\r\n" + value + b"\r\n+OK\r\n",
                   f"{s.version()}: {len(said)} bytes")
            names.append(s.cipher()[0])
    for more in ({"version": ssl.TLSVersion.TLSv1_1}, {"ciphers": "CHACHA20",
                                                       "version": ssl.TLSVersion.TLSv1_2}):
        try:
            wrapped(certs, **more).close()
        except (ssl.SSLError, OSError):
            continue
        expect(False, f"{more} was not refused")
    return names


def check_tools(certs):
    said = subprocess.run(["redis-cli", "--tls", "-p", str(TLS), "--cacert", certs.path("ca.pem"),
                           "-3", "set", "tool", "cli"], stdout=subprocess.PIPE, text=True,
                          timeout=60, check=True).stdout
    expect(said == "OK\n", said)
    said = subprocess.run(["redis-benchmark", "--tls", "-p", str(TLS), "--cacert",
                           certs.path("ca.pem"), "-t", "set,get", "-n", "500", "-c", "5", "-P",
                           "4", "-d", "3000", "-q"], stdout=subprocess.PIPE, text=True,
                          timeout=120, check=True).stdout
    expect(said.count("requests per second") == 2, said)


def case_tls():
    """clients over TLS: redis-py, redis-cli, redis-benchmark, versions, ciphers; statistics"""
    with Folder() as certs, daemon(*certs.options()) as d:
        c = certs.client()
        with c.pipeline(transaction=False) as pipe:
            for i in range(500):
                pipe.set(f"k{i}", bytes([i % 256]) * 3000)
                pipe.get(f"k{i}")
            got = pipe.execute()
        expect(got[1::2] == [bytes([i % 256]) * 3000 for i in range(500)], "a pipeline")
        expect(d.client().get("k7") == bytes([7]) * 3000, "the port without TLS")
        names = check_versions(certs)
        check_tools(certs)
        # No TLS, to the port that has it; and many at once.
        s = raw(TLS)
        s.sendall(b"PING\r\n")
        expect(b"PONG" not in read_until_closed(s), "it answers without TLS")
        many = [wrapped(certs) for _ in range(40)]
        for one in many:
            one.sendall(b"PING\r\n")
        expect(all(one.recv(10) == b"+PONG\r\n" for one in many), "40 clients")
        info = c.info("stats")
        expect(info["tls_connections_received"] > 50 and info["tls_handshakes_failed"] == 3 and
               info["tls_certificate_until"] > time.time(), str(info))
        d.end()
        d.options = ("--port", "0", *certs.options())
        d.start()
        expect(certs.client().get("tool") == b"cli", "with --port 0")
        refused(d.client().ping, "refused")
        return ", ".join(names)


def slow_reader(certs):
    """A socket that takes little at a time, so that the kernel has to hold records back."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(60)
    s.connect(("127.0.0.1", TLS))
    return certs.context().wrap_socket(s, server_hostname="localhost",
                                       suppress_ragged_eofs=False)


def read_slowly(s):
    """All of it, to the end that TLS tells; an end without that raises."""
    said = bytearray()
    while piece := s.recv(65536):
        said += piece
        if len(said) % (1 << 20) < len(piece):
            time.sleep(0.01)
    return bytes(said)


def half_closed(certs, request):
    """The replies to @request, behind which the client says that it sends no more."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = certs.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    said = bytearray()
    with raw(TLS) as s:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                s.sendall(outgoing.read())
                incoming.write(s.recv(65536))
        tls.write(request)
        try:
            tls.unwrap()
        except ssl.SSLWantReadError:
            s.sendall(outgoing.read())
        while piece := s.recv(65536):
            incoming.write(piece)
    incoming.write_eof()
    try:
        while True:
            said += tls.read(65536)
    except ssl.SSLZeroReturnError:
        return bytes(said)


def key_update(certs):
    """What a client gets that sends new keys in between."""
    child = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{TLS}", "-crlf",
                              "-CAfile", certs.path("ca.pem")], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        for line in "ECHO before", "K", "ECHO after":
            child.stdin.write(line + "\n")
            child.stdin.flush()
            time.sleep(1)
    except BrokenPipeError:
        pass
    try:
        said = child.communicate(timeout=START_S)[0]
    except BrokenPipeError:
        said = child.stdout.read()
    finally:
        child.kill()
    expect("KEYUPDATE" in said and "before" in said, said)
    expect("\nafter" not in said and "ERR" not in said, said)


@contextlib.contextmanager
def small_buffers():
    """Sockets have room for a record of TLS, so the kernel often has to hold one back."""
    path = "/proc/sys/net/ipv4/tcp_wmem"

    def write(text):
        with open(path, "w", encoding="ascii") as handle:
            handle.write(text)
    with open(path, encoding="ascii") as handle:
        before = handle.read()
    write("4096 16384 16384")
    try:
        yield
    finally:
        write(before)


def check_held_back(certs, d):
    """Replies whose last record is held back, as some of these lengths have it."""
    value = os.urandom(200000)
    for length in range(100000, 200000, 5501):
        d.client().set("h", value[:length])
        with slow_reader(certs) as s:
            s.sendall(b"GET h\r\nQUIT\r\n")
            said = read_slowly(s)
            expect(said == b"$%d\r\n" % length + value[:length] + b"\r\n+OK\r\n",
                   f"{len(said)} of {length} bytes")


def case_tls_ends():
    """every byte arrives before an end: QUIT, half a close, SIGTERM; new keys end a connection"""
    with Folder() as certs, daemon(*certs.options()) as d:
        value = os.urandom(8 << 20)
        whole = b"$8388608\r\n" + value + b"\r\n"
        d.client().set("v", value)
        with slow_reader(certs) as s:
            s.sendall(b"GET v\r\nQUIT\r\n")
            expect(read_slowly(s) == whole + b"+OK\r\n", "before QUIT")
        with small_buffers():
            check_held_back(certs, d)
        expect(half_closed(certs, b"GET v\r\n" + b"STRLEN v\r\n" * 50) ==
               whole + b":8388608\r\n" * 50, "after half a close")
        key_update(certs)
        bad = raw(TLS)
        tls = certs.context().wrap_socket(bad, server_hostname="localhost")
        tls.sendall(b"SET good 1\r\n")
        expect(tls.recv(10) == b"+OK\r\n", "a good record")
        with socket.socket(fileno=os.dup(tls.fileno())) as plain:
            plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            plain.settimeout(START_S)
            read_until_closed(plain)
        expect(d.client().get("good") == b"1", "after a bad record")
        idle = [certs.client() for _ in range(5)]
        expect(all(c.ping() for c in idle), "idle ones")
        d.client().set("w", value[:65536])
        s = certs.context().wrap_socket(raw(TLS), server_hostname="localhost",
                                        suppress_ragged_eofs=False)
        s.sendall(b"GET w\r\n")
        said = s.recv(1000)
        d.child.send_signal(signal.SIGTERM)
        expect(said + read_slowly(s) == b"$65536\r\n" + value[:65536] + b"\r\n",
               "at the end of octokvd")
        expect(d.child.wait(timeout=60) == 0, "did not end well")
    return "4 ends"


def case_tls_clients():
    """with an authority, a client needs a certificate of it"""
    with Folder() as certs, tempfile.TemporaryDirectory(dir=BUILD) as folder:
        certs.sign("client")
        certs.sign("own", own=True)
        path = users_file(folder, ann="")
        options = certs.options(ca=certs.path("ca.pem"))
        options[1] = f"0.0.0.0:{TLS}"
        with daemon("--users", path, *options) as d:
            c = certs.client("client", username="ann", password="pw-ann")
            expect(c.set("k", "v") and c.get("k") == b"v", "with a certificate")
            refused(certs.client("client").ping, "Authentication required", "NOAUTH")
            for name in None, "own":
                # TLS 1.3 tells a client only after its own handshake.
                refused(lambda: certs.client(name).ping(), "alert", "closed", "reset",
                        "certificate")
            expect(d.said().count("no TLS with ::ffff:127.0.0.1: ") >= 1, d.said())
        return "with one, without, with another one"


def case_tls_reload():
    """SIGHUP reads the certificate again; if that is bad, the old one stays"""
    with Folder() as certs, daemon(*certs.options()) as d:
        def subject():
            with wrapped(certs) as s:
                return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]
        old = certs.client()
        expect(subject() == "server" and old.set("k", "v"), "at first")
        certs.sign("second")
        for name in "second.pem", "second.key":
            os.replace(certs.path(name), certs.path("server" + name[-4:]))
        hang_up(d, "the certificate was read again")
        expect(subject() == "second" and old.get("k") == b"v", "the new one")
        with open(certs.path("server.key"), "w", encoding="ascii") as handle:
            handle.write("nothing")
        hang_up(d, "the certificate stays as it is: --tls-key-file")
        expect(subject() == "second" and old.get("k") == b"v", "it stays")
    return "2 certificates"


def case_tls_strangers():
    """clients that say nothing hold up neither those with TLS nor those who come"""
    with Folder() as certs, daemon(*certs.options()) as d:
        good = certs.client(single_connection_client=True)
        good.set("k", bytes(100))

        def silent(address, nr):
            return [socket.create_connection(("127.0.0.1", TLS), timeout=60,
                                             source_address=(address, 0)) for _ in range(nr)]
        of_one = silent("127.0.0.2", NR_OF_NETWORK + 8)
        expect(all(read_until_closed(s) == b"" for s in of_one[NR_OF_NETWORK:]), "those beyond")
        expect("no TLS with ::ffff:127.0.0.2: its network has all" in d.said(), d.said())
        expect(certs.client().ping(), "a client beside them")
        expect(read_until_closed(of_one[0]) == b"", "silence has an end")
        # All places, and as many who wait: those who come have to wait, nobody else.
        silent_ones = [s for i in range(10) for s in silent(f"127.0.0.{3 + i}", 24)]
        # A client behind them has a place when no more than the other places are silent.
        gone = len(silent_ones) - (NR_GREETINGS - 1)
        join = in_thread(lambda: expect(certs.client().ping(), "a client behind them"))
        slowest = 0
        for _ in range(200):
            begun = time.monotonic()
            good.get("k")
            slowest = max(slowest, time.monotonic() - begun)
        join()
        failed = d.client().info("stats")["tls_handshakes_failed"]
        expect(failed >= 8 + NR_OF_NETWORK + gone, f"{failed} failed")
        for s in of_one + silent_ones:
            s.close()
        return f"{failed} strangers, the slowest of 200 reads {slowest * 1000:.0f} ms"
