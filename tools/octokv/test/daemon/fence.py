# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: two hosts reach one drive, and exactly one of them serves.

DEVICE and DEVICE2 are the drive, as the one and the other host see it. The shell command FORGET
cuts both off for a moment, after which the drive does not know any more who had reserved it. CUT
cuts the path of DEVICE2, and MEND mends it.
"""
import contextlib
import os
import subprocess
import tempfile
import threading
import time

import redis

from cluster import (Cluster, cluster, end_taken, tags_by_slot, take_over, wait_for_answers,
                     wait_until)
from durability import Writer, verify, wait_for_acknowledged
from kit import BUILD, PORT, Daemon, daemon, expect, refused, run_once
from linear import Load

OTHER_PORT = PORT + 1
END_S = 10
BACK_S = 60
RESERVED = "another host has reserved"
# redis-py takes the first word, TRYAGAIN, off.
CUT_OFF = "the device does not answer, and another host may have it"


@contextlib.contextmanager
def other_host(device):
    """Another host's octokvd, which takes the drive, with the store that is on it."""
    with tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        d = Daemon(folder, "--preempt", port=OTHER_PORT, device=device, is_formatted=True)
        try:
            yield d
        finally:
            if d.child.poll() is None:
                d.child.kill()
                d.child.wait()


def ends(d, within_s=END_S):
    """The drive was taken from @d: it ends, and says why. Returns after how long, in seconds."""
    begun = time.monotonic()
    expect(d.child.wait(timeout=within_s) == 1, f"ended with {d.child.returncode}")
    expect(f"{RESERVED} {d.data}: ends at once" in d.said(), d.said())
    return time.monotonic() - begun


def is_refused(device, *options):
    said = run_once("--data", device, "--port", "7999", *options, status=1)
    expect(RESERVED in said, said)
    return said


def shell(name):
    subprocess.run(["sh", "-ec", os.environ[name]], check=True)


def forgets(d):
    """The drive forgets the reservation: @d ends, since it does not know what happened since."""
    shell("FORGET")
    expect(d.child.wait(timeout=BACK_S) == 1, f"ended with {d.child.returncode}")
    expect("is not reserved any more" in d.said(), d.said())
    d.restart()
    d.client().set("remembered", 1)


def case_fence():
    """two hosts, one drive: exactly one octokvd serves"""
    with daemon(device=os.environ["DEVICE"]) as d:
        d.client().set("before", 1)
        expect("--preempt" in is_refused(os.environ["DEVICE2"]), "it says what to do")
        is_refused(os.environ["DEVICE2"], "--check")
        is_refused(os.environ["DEVICE2"], "--check", "--no-fence")
        d.child.kill()
        d.child.wait()
        d.restart()
        writers = [Writer(d, number) for number in range(4)]
        for writer in writers:
            writer.start()
        wait_for_acknowledged(writers, 400)
        with other_host(os.environ["DEVICE2"]) as other:
            busy_s = ends(d)
            for writer in writers:
                writer.join()
            verify(other, writers)
            is_refused(d.data)
            d.options = ("--preempt",)
            d.restart()
            idle_s = ends(other)
            verify(d, writers)
            # It was taken from another host, whose requests may still wait for their path.
            expect(d.end() == 0, "did not end well")
            is_refused(os.environ["DEVICE2"])
            d.options = ()
            d.restart()
            forgets(d)
            expect(d.end() == 0, "did not end well")
            other.options = ()
            other.restart()
            expect(other.client().mget("before", "remembered") == [b"1", b"1"], "all is there")
            expect(other.end() == 0, "did not end well")
        nr = sum(writer.nr_acknowledged for writer in writers)
        return (f"{nr} writes acknowledged, all there; ended {busy_s:.1f} s after the loss under "
                f"load, {idle_s:.1f} s when idle")


class Asker(threading.Thread):
    """Asks for a key that the store does not have, again and again, until the connection breaks."""

    def __init__(self, d, key):
        super().__init__(daemon=True)
        self.client, self.key, self.answers = d.client(), key, []

    def run(self):
        while True:
            asked_s = time.monotonic()
            try:
                answer = self.client.get(self.key)
            except redis.ResponseError as refusal:
                answer = str(refusal)
            except (redis.RedisError, OSError):
                return
            self.answers.append((asked_s, answer))
            time.sleep(0.002)

    def asked_last(self, answer):
        return max(asked_s for asked_s, found in self.answers if found == answer)

    def wait_for(self, answer):
        until = time.monotonic() + BACK_S
        while not self.answers or self.answers[-1][1] != answer:
            expect(time.monotonic() < until, f"answers {self.answers[-1:]}, not {answer!r}")
            time.sleep(0.01)


@contextlib.contextmanager
def path_is_cut():
    """Until the end of the block, unless it mends the path itself."""
    shell("CUT")
    try:
        yield
    finally:
        subprocess.run(["sh", "-c", os.environ["MEND"]], check=False, capture_output=True)


def case_cut_path():
    """a host loses its path to the drive, another takes the drive, and the first comes back"""
    with daemon(device=os.environ["DEVICE2"]) as cut:
        writers = [Writer(cut, number) for number in range(4)]
        asker = Asker(cut, "fresh")
        for thread in (*writers, asker):
            thread.start()
        wait_for_acknowledged(writers, 400)
        asker.wait_for(None)
        with path_is_cut(), other_host(os.environ["DEVICE"]) as other:
            other.client().set("fresh", 1)
            served_s = time.monotonic()
            asker.wait_for(CUT_OFF)
            expect(cut.client().info("health")["health"] == "cut-off", "INFO health")
            verify(other, writers)
            shell("MEND")
            back_s = ends(cut, BACK_S)
            for thread in (*writers, asker):
                thread.join()
            early_s = served_s - asker.asked_last(None)
            expect(early_s > 0, f"{-early_s:.1f} s after another host had written the key, the "
                   "one without a path said that there is none")
            verify(other, writers)
            expect(other.client().get("fresh") == b"1", "the key")
            expect(other.end() == 0, "did not end well")
        nr = sum(writer.nr_acknowledged for writer in writers)
        return (f"{nr} writes acknowledged, all there; it answered nothing for the last "
                f"{early_s:.1f} s before the other host served, and ended {back_s:.1f} s after "
                "its path was back")


class DriveCluster(Cluster):
    """The first node's store is on the drive; a host that takes it over does so by force."""

    def store_of(self, folder, i):
        return super().store_of(folder, i) if i else os.environ["DEVICE2"]

    def format_of(self, i):
        """The other stores are files in memory, of which there is little."""
        return ("--partitions", "4", *(("--size", "1g") if i else ("--force",)))

    def options_at(self, port):
        return (*super().options_at(port), "--preempt")


def case_cut_node():
    """a node of a cluster is cut off from its drive, and lives: another host takes the drive"""
    with cluster(of=DriveCluster) as c, \
            tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        # A command that is at the old node when its path is cut has no answer.
        load = Load(lambda: c.client_once(timeout_s=5), [f"{{t{i}}}" for i in range(30)],
                    pause_s=0.02)
        wait_until(lambda: len(load.histories) == 30, "keys are not used")
        gone = c.nodes.pop(0)
        c.stores[0] = os.environ["DEVICE"]
        with path_is_cut():
            decided_s = time.monotonic()
            _, pid = take_over(folder, c, 1, 2)
            serves_s = time.monotonic() - decided_s
            wait_for_answers(load)
            follow_s = time.monotonic() - decided_s
            refused(lambda: gone.client().get(tags_by_slot(1)[0]), CUT_OFF)
            refused(lambda: gone.client().execute_command("CLUSTER SLOTS"), CUT_OFF)
            shell("MEND")
            back_s = ends(gone, BACK_S)
            load.end()
            load.check()
        end_taken(folder, c, pid)
        return (f"all nodes had the map {serves_s:.1f} s after the decision, and clients all keys "
                f"after {follow_s:.1f} s; the old octokvd ended {back_s:.1f} s after its path was "
                f"back; {load}")
