# SPDX-License-Identifier: GPL-2.0
"""A case of octokvd: two hosts reach one drive, and exactly one of them serves.

DEVICE and DEVICE2 are the drive, as the one and the other host see it. The shell command FORGET
cuts both off for a moment, after which the drive does not know any more who had reserved it.
"""
import contextlib
import os
import subprocess
import tempfile
import time

from durability import Writer, verify, wait_for_acknowledged
from kit import BUILD, PORT, Daemon, daemon, expect, run_once

OTHER_PORT = PORT + 1
END_S = 10
BACK_S = 60
RESERVED = "another host has reserved"


@contextlib.contextmanager
def other_host():
    """The second host's octokvd, which takes the drive, with the store that is on it."""
    with tempfile.TemporaryDirectory(prefix="octokv-", dir=BUILD) as folder:
        d = Daemon(folder, "--preempt", port=OTHER_PORT, device=os.environ["DEVICE2"],
                   is_formatted=True)
        try:
            yield d
        finally:
            if d.child.poll() is None:
                d.child.kill()
                d.child.wait()


def ends(d):
    """The drive was taken from @d: it ends, and says why. Returns after how long, in seconds."""
    begun = time.monotonic()
    expect(d.child.wait(timeout=END_S) == 1, f"ended with {d.child.returncode}")
    expect(f"{RESERVED} {d.data}: ends at once" in d.said(), d.said())
    return time.monotonic() - begun


def is_refused(device, *options):
    said = run_once("--data", device, "--port", "7999", *options, status=1)
    expect(RESERVED in said, said)
    return said


def forgets(d):
    """The drive forgets the reservation: @d ends, since it does not know what happened since."""
    subprocess.run(["sh", "-ec", os.environ["FORGET"]], check=True)
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
        with other_host() as other:
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
