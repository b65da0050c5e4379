# SPDX-License-Identifier: GPL-2.0
"""A PostgreSQL server on the disk under test, with pgbench as its load, beside a random reader.

The server commits with O_DIRECT | O_DSYNC (wal_sync_method = open_datasync, debug_io_direct = wal).
On ext4 that is a FUA write to existing blocks of the log, because wal_init_zero fills a segment
when it is made. The server is made once per device and stays for all steps. Checkpoints and
autovacuum, which could blur the figures, are off.
"""
import json
import os
import re
import subprocess

from devices import SEED, StepError, call, make_ext4

BIN = "/usr/lib/postgresql/17/bin"
MOUNT = "/mnt/postgres"
SOCKET = "/tmp/mqfair-postgres"
SETTINGS = {"listen_addresses": "", "unix_socket_directories": SOCKET,
            "wal_sync_method": "open_datasync", "debug_io_direct": "wal",
            "shared_buffers": "128MB", "checkpoint_timeout": "1h", "max_wal_size": "512MB",
            "min_wal_size": "256MB", "autovacuum": "off", "jit": "off",
            "max_connections": "100", "wal_writer_delay": "10s", "bgwriter_lru_maxpages": "0"}


def _as_postgres(*argv):
    done = subprocess.run(["runuser", "-u", "postgres", "--", *argv], cwd=MOUNT,
                          env=dict(os.environ, PGHOST=SOCKET, LC_ALL="C"),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise StepError(f"{os.path.basename(argv[0])}: status {done.returncode}: "
                        f"{(done.stdout.strip().splitlines() or ['no output'])[-1]}")
    return done.stdout


def start(disk, scale):
    """File system, cluster, server, and pgbench's tables."""
    os.makedirs(SOCKET, exist_ok=True)
    os.makedirs(MOUNT, exist_ok=True)
    make_ext4(disk)
    call("mount", "-t", "ext4", f"/dev/{disk}", MOUNT)
    call("chown", "postgres:", MOUNT, SOCKET)
    _as_postgres(f"{BIN}/initdb", "-D", f"{MOUNT}/data", "-A", "trust", "--no-sync",
                 "--no-instructions", "--locale=C", "-E", "UTF8")
    with open(f"{MOUNT}/data/postgresql.conf", "a", encoding="utf-8") as handle:
        handle.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
    # The server stays in the background: it must not keep our output open.
    _as_postgres("sh", "-c",
                 f"{BIN}/pg_ctl -D {MOUNT}/data -w -t 300 -l {MOUNT}/log start > /dev/null 2>&1")
    _as_postgres(f"{BIN}/createdb", "bench")
    _as_postgres(f"{BIN}/pgbench", "-i", "-q", "-s", str(scale), "bench")
    _as_postgres(f"{BIN}/psql", "-qc", "CHECKPOINT", "bench")


def stop():
    """End the server and unmount; quiet if there is none."""
    if os.path.ismount(MOUNT):
        _as_postgres(f"{BIN}/pg_ctl", "-D", f"{MOUNT}/data", "-m", "immediate", "-w", "stop")
        call("umount", MOUNT)


def run(step, disk):
    """{"tps": ..., "latency_ms": ..., "read_mb_s": ...}, of the loads that the step has."""
    if not os.path.ismount(MOUNT):
        start(disk, step["scale"])
    out, reader = {}, None
    if step["reader_depth"]:
        argv = ["fio", "--name=reads", f"--filename=/dev/{disk}", "--readonly", "--rw=randread",
                "--bs=16k", "--direct=1", "--ioengine=libaio", f"--iodepth={step['reader_depth']}",
                "--norandommap", "--time_based", f"--runtime={step['seconds'] + 1}",
                "--ramp_time=1", "--output-format=json",
                f"--randseed={SEED}"]
        reader = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    if step["clients"]:
        said = _as_postgres(f"{BIN}/pgbench", "-n", "-N", "-c", str(step["clients"]), "-j", "2",
                            "-T", str(step["seconds"]), "bench")
        out["tps"] = float(re.search(r"^tps = ([\d.]+)", said, re.M)[1])
        out["latency_ms"] = float(re.search(r"^latency average = ([\d.]+)", said, re.M)[1])
    if reader:
        text = reader.communicate()[0]
        if reader.returncode != 0:
            raise StepError(f"fio: status {reader.returncode}")
        out["read_mb_s"] = json.loads(text[text.index("{"):])["jobs"][0]["read"]["bw_bytes"] / 1e6
    return out
