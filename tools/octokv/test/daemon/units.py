# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd under systemd, with the units that are shipped and all their restrictions.

A systemd of its own runs in a PID namespace, a mount namespace and a cgroup. The kernel must have
them, and no other systemd. /etc and /var/lib are copies there; octokvd is not in /usr/sbin. systemd
mounts a /tmp of its own when the first service starts, so nothing in there is used.
"""
import contextlib
import os
import shutil
import subprocess
import tempfile
import time

import redis

from cluster import FIRST_EPOCH, FIRST_PORT, TAKEOVER, SmallCluster, cluster, wait_until
from kit import BUILD, OCTOKVD, PORT, START_S, Failed, expect, users_file

UNITS = "/run/systemd/system"
SHIPPED = os.path.join(os.path.dirname(__file__), "../..")
PROGRAM, LOG, STATE = "/run/octokvd/octokvd", "/run/octokvd/log", "/var/lib/octokvd"
SCRIPT = "/run/octokvd/takeover"
SYSTEMD_LOG = "/run/octokvd/systemd.log"
CGROUPS = "/sys/fs/cgroup"
MACHINE = f"{CGROUPS}/machine"
START = """
mkdir -p /run/octokvd/etc
cp -a /etc/. /run/octokvd/etc
mount --bind /run/octokvd/etc /etc
mount -t tmpfs none /var/lib
echo 0 > $0/cgroup.procs
exec /usr/lib/systemd/systemd --system --unit=test.target --default-standard-output=null \\
	--log-target=console --show-status=no
"""


class Systemd:
    """The one that runs."""

    def __init__(self, pid):
        self.pid = pid

    def run(self, *words, status=0, **more):
        """Run a program where it is process 1. Returns what it prints."""
        done = subprocess.run(["nsenter", "-t", self.pid, "-p", "-m", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=120, check=False, **more)
        expect(done.returncode == status, f"{words}: {done.stdout} {self.said()}")
        return done.stdout

    def show(self, name):
        return self.run("systemctl", "show", "-P", name, "octokvd").strip()

    def kill(self, sig):
        self.run("systemctl", "kill", f"--signal={sig}", "octokvd")

    def write(self, path, text):
        self.run("sh", "-c", 'mkdir -p "${0%/*}" && cat > "$0"', path, input=text)

    def said(self):
        if not os.path.exists(LOG):
            return ""
        with open(LOG, encoding="utf-8") as file:
            return file.read()


def write_unit(name, *lines):
    path = os.path.join(UNITS, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")


def ship(shipped, name, *more):
    """A unit as it is shipped, but for the program's place."""
    with open(os.path.join(SHIPPED, shipped), encoding="ascii") as file:
        write_unit(name, file.read().replace("/usr/sbin/octokvd", PROGRAM), *more)


def first_process():
    """The oldest: it has children of the same name, for a moment."""
    found = subprocess.run(["pgrep", "-o", "-x", "systemd"], stdout=subprocess.PIPE, text=True,
                           check=False)
    return found.stdout.strip()


def wait_for_systemd(child):
    """Its start is long where a guest has little of the processor."""
    until = time.monotonic() + 3 * START_S
    while not os.path.exists("/run/systemd/private"):
        if child.poll() is not None or time.monotonic() > until:
            with open(SYSTEMD_LOG, encoding="utf-8") as log:
                raise Failed(f"systemd does not start: {log.read()[-1000:]}")
        time.sleep(0.1)


@contextlib.contextmanager
def systemd():
    expect(not first_process(), "a systemd runs already")
    shutil.rmtree(UNITS, ignore_errors=True)
    os.makedirs(os.path.dirname(PROGRAM))
    # The sanitizers do not bear the unit's restrictions of memory.
    shutil.copy(OCTOKVD.removesuffix("-asan"), PROGRAM)
    write_unit("test.target", "[Unit]", "DefaultDependencies=no")
    ship("octokvd.service", "octokvd.service")
    write_unit("octokvd.service.d/test.conf", "[Service]", f"StandardError=append:{LOG}")
    with open(f"{CGROUPS}/cgroup.subtree_control", "w", encoding="ascii") as file:
        file.write("+memory +pids")
    os.makedirs(MACHINE)
    with open(SYSTEMD_LOG, "w", encoding="utf-8") as log:
        child = subprocess.Popen(
            ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc", "sh", "-c",
             START, MACHINE], env={**os.environ, "container": "test"}, stdout=log, stderr=log)
    try:
        wait_for_systemd(child)
        yield Systemd(first_process())
    finally:
        child.kill()
        child.wait()
        wait_until(lambda: remove_cgroups(MACHINE), "processes of the services are left")
        shutil.rmtree("/run/octokvd")
        shutil.rmtree("/run/systemd")


def remove_cgroups(top):
    """True if they are gone, and so are their processes."""
    try:
        for path, _, _ in os.walk(top, topdown=False):
            os.rmdir(path)
    except OSError:
        return False
    return True


def answers(port, **more):
    try:
        return redis.Redis(port=port, socket_timeout=5, **more).ping()
    except redis.RedisError:
        return False


def case_unit():
    """octokvd.service under systemd: it serves, reads users again, is started again, and ends"""
    with systemd() as s, tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        data = f"{STATE}/octokv.img"
        with open(users_file(folder, ann="admin"), encoding="utf-8") as file:
            users = file.read()
        s.run("mkdir", STATE)
        s.run(PROGRAM, "--data", data, "--format", "--size", "1g")
        s.write("/etc/octokvd/users", users)
        s.write("/etc/default/octokvd",
                f'OCTOKVD_OPTIONS="--port {PORT} --users /etc/octokvd/users"\n')
        s.run("systemctl", "start", "octokvd")
        expect(s.show("StatusText") == f"Serving {data}", s.show("StatusText"))
        owner = s.run("stat", "-c", "%U", data).strip()
        expect(owner != "root", f"the store is of {owner}")
        ann = {"username": "ann", "password": "pw-ann"}
        client = redis.Redis(port=PORT, socket_timeout=60, **ann)
        client.set("k", "v")
        s.write("/etc/octokvd/users", users.replace("ann", "eve"))
        s.run("systemctl", "reload", "octokvd")
        wait_until(lambda: not answers(PORT, **ann), "ann is a user yet")
        s.write("/etc/octokvd/users", users)
        s.run("systemctl", "reload", "octokvd")
        wait_until(lambda: answers(PORT, **ann), "ann is no user")
        s.kill("SIGKILL")
        wait_until(lambda: s.show("NRestarts") == "1" and answers(PORT, **ann), s.said)
        expect(client.get("k") == b"v", "what was written before it was killed")
        begun = time.monotonic()
        s.run("systemctl", "stop", "octokvd")
        expect(s.show("Result") == "success", s.show("Result"))
        return f"as {owner}; it has ended after {time.monotonic() - begun:.1f} s"


@contextlib.contextmanager
def drive(path):
    """A block device whose data is that file, of the group that udev gives drives to."""
    subprocess.run(["modprobe", "loop"], check=True)
    done = subprocess.run(["losetup", "--find", "--show", path], check=True, text=True,
                          stdout=subprocess.PIPE)
    device = done.stdout.strip()
    try:
        shutil.chown(device, group="disk")
        os.chmod(device, 0o660)
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


def case_unit_takeover():
    """the units of a host that stands by take a node over, if they may open its drive"""
    with cluster(of=SmallCluster) as c, systemd() as s:
        shutil.copy(TAKEOVER, SCRIPT)
        client, values = c.client_once(), {f"k{i}": b"%d" % i for i in range(100)}
        for key, value in values.items():
            client.set(key, value)
        c.lose_first()
        with drive(c.stores[0]) as device:
            port = FIRST_PORT + 5
            ship("octokvd-takeover.conf", "octokvd.service.d/takeover.conf")
            s.write("/etc/default/octokvd", f'OCTOKVD_OPTIONS="--data {device} --port {port} '
                                            f'--cluster {STATE}/map"\n')
            s.run("mkdir", STATE)
            s.run("systemctl", "daemon-reload")
            words = [SCRIPT, f"{STATE}/map", c.ids[0], f"127.0.0.1:{port}",
                     *[f"127.0.0.1:{c.port(i)}" for i in (1, 2)], "--", "systemctl", "start",
                     "octokvd"]
            # The unit opens no device that no drop-in names.
            said = s.run(*words, status=1)
            expect("not taken over" in said and device in s.said(), said + s.said())
            write_unit("octokvd.service.d/device.conf", "[Service]", f"DeviceAllow={device} rw")
            s.run("systemctl", "daemon-reload")
            s.run(*words)
            client = c.client_once()
            expect(all(client.get(key) == value for key, value in values.items()), "values")
            # It keeps a map that it is sent.
            text = s.run("cat", f"{STATE}/map").replace(f"epoch {FIRST_EPOCH + 1}",
                                                        f"epoch {FIRST_EPOCH + 2}")
            for at in (port, c.port(1), c.port(2)):
                redis.Redis(port=at).execute_command("CLUSTER SETMAP", text)
            own = s.run("cat", f"{STATE}/map.{c.ids[0]}")
            expect(f"epoch {FIRST_EPOCH + 2}" in own, own)
            s.kill("SIGKILL")
            wait_until(lambda: s.show("ActiveState") == "failed", "it is active")
            time.sleep(1)
            expect(s.show("NRestarts") == "0", "it was started again")
            s.run("systemctl", "reset-failed", "octokvd")
            s.run("systemctl", "start", "octokvd")
            wait_until(lambda: answers(port), s.said)
            expect(f"{c.ids[0]}: epoch {FIRST_EPOCH + 2}\n" in s.said(), s.said())
            s.run("systemctl", "stop", "octokvd")
    return f"{len(values)} keys"
