#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An etcd server on the disk under test, with clients that put, beside a neighbour.

As a module, run() measures a step. As a program, it is the clients:

  etcd.py CLIENTS SECONDS       each puts 256 bytes, one put after the other

which prints the latency of each put in ns, as JSON. They speak to etcd's JSON gateway over
connections that stay. etcd answers a put when its write-ahead log has been synced, and counts how
long each sync took, in classes that double.
"""
import base64
import http.client
import json
import os
import re
import subprocess
import sys
import threading
import time

MOUNT, PORT = "/mnt/etcd", 2379
START_S = 120
VALUE_BYTES = 256
KEYS = 1000


# ---- the clients ----

def _puts(seconds, number, latencies, done):
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    value = base64.b64encode(bytes(VALUE_BYTES)).decode()
    end, count = time.monotonic() + seconds, number
    while time.monotonic() < end:
        key = base64.b64encode(b"key%d" % (count % KEYS)).decode()
        before = time.monotonic_ns()
        connection.request("POST", "/v3/kv/put", json.dumps({"key": key, "value": value}))
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            return
        latencies.append(time.monotonic_ns() - before)
        count += 7
    done.append(number)


def clients(nr, seconds):
    """Latencies of all clients."""
    latencies, done = [], []
    threads = [threading.Thread(target=_puts, args=(float(seconds), number, latencies, done))
               for number in range(int(nr))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) < len(threads):
        sys.exit(f"{len(threads) - len(done)} clients failed")
    print(json.dumps(latencies))


# ---- measuring ----

def _get(path):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def syncs():
    """{upper edge in s: syncs of the log that took no longer}."""
    return {float(edge): int(float(count)) for edge, count in re.findall(
        r'^etcd_disk_wal_fsync_duration_seconds_bucket\{le="([^"]+)"\} (\S+)$', _get("/metrics"),
        re.M)}


def _guest():
    # The clients, for which this file is a program, need none of it.
    import cgroups as groups                # pylint: disable=import-outside-toplevel
    import devices                          # pylint: disable=import-outside-toplevel
    return groups, devices


def _start(disk):
    """A new file system and a new server in the cgroup etcd, which has answered."""
    groups, devices = _guest()
    os.makedirs(MOUNT, exist_ok=True)
    devices.make_ext4(disk, 512)
    devices.call("mount", "-t", "ext4", f"/dev/{disk}", MOUNT)
    with open("/tmp/etcd.log", "w", encoding="utf-8") as log:
        server = subprocess.Popen(
            ["etcd", "--data-dir", f"{MOUNT}/data", "--log-level", "error"],
            stdout=log, stderr=log, preexec_fn=groups.join("etcd"))
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            if "true" in _get("/health"):
                return server
        except OSError:
            pass
        time.sleep(0.1)
    server.kill()
    server.wait()
    devices.call("umount", MOUNT)
    with open("/tmp/etcd.log", encoding="utf-8") as log:
        said = (log.read().strip().splitlines() or ["it said nothing"])[-1]
    raise devices.StepError(f"etcd does not answer: {said}")


def _neighbour(disk):
    """Reads and writes of 64 KiB behind the file system, until they are ended."""
    groups, devices = _guest()
    return subprocess.Popen(
        ["fio", "--name=neighbour", f"--filename=/dev/{disk}", "--offset=512m", "--direct=1",
         f"--randseed={devices.SEED}",
         "--ioengine=libaio", "--rw=randrw", "--bs=64k", "--iodepth=32", "--numjobs=2",
         "--norandommap", "--time_based", "--runtime=1000", "--thread",
         "--allow_mounted_write=1"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=groups.join("neighbour"))


def run(step, disk):
    """{"latencies_ns": of each put, "syncs": {edge in s: count}, "neighbour_bytes": ...}."""
    groups, devices = _guest()
    server = _start(disk)
    neighbour = _neighbour(disk) if step["beside"] else None
    try:
        time.sleep(step["ramp_s"])
        before, moved = syncs(), groups.io_bytes("neighbour", disk)
        done = subprocess.run([sys.executable, __file__, str(step["clients"]),
                               str(step["seconds"])], stdout=subprocess.PIPE, text=True,
                              check=False)
        after, moved = syncs(), groups.io_bytes("neighbour", disk) - moved
        if done.returncode != 0:
            raise devices.StepError("etcd's clients failed")
        if neighbour and neighbour.poll() is not None:
            raise devices.StepError("the neighbour ended too early")
    except OSError as error:
        raise devices.StepError(f"etcd does not answer any more: {error}") from error
    finally:
        if neighbour:
            neighbour.terminate()
            neighbour.wait()
        server.kill()
        server.wait()
        devices.call("umount", MOUNT)
    return {"latencies_ns": json.loads(done.stdout),
            "syncs": {edge: after[edge] - before[edge] for edge in after},
            "neighbour_bytes": moved}


if __name__ == "__main__":
    clients(*sys.argv[1:])
