# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: a store on a RAID1 of two drives, one of which dies.

They are drives in the kernel's memory (brd), and the RAID1 is md's, by dm-raid. What it knows of
them is on two more.
"""
import contextlib
import subprocess

from durability import Writer, verify, wait_for_acknowledged
from kit import daemon, expect

NR_SECTORS = 1 << 20
MIRROR = "/dev/mapper/mirror"


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout


def table_of(name, text):
    """Another table for a device of dm, at once."""
    run("dmsetup", "load", name, "--table", f"0 {NR_SECTORS} {text}")
    run("dmsetup", "resume", "--noudevsync", name)


@contextlib.contextmanager
def mirror():
    run("modprobe", "-a", "dm-raid", "raid1")
    run("modprobe", "brd", "rd_nr=4", f"rd_size={NR_SECTORS // 2}")
    made = []
    try:
        for name, text in (("leg0", "linear /dev/ram0 0"), ("leg1", "linear /dev/ram1 0"),
                           ("mirror", "raid raid1 4 0 nosync region_size 1024 2 /dev/ram2 "
                                      "/dev/mapper/leg0 /dev/ram3 /dev/mapper/leg1")):
            run("dmsetup", "create", "--noudevsync", name, "--table", f"0 {NR_SECTORS} {text}")
            made.append(name)
            run("dmsetup", "mknodes")
        yield
    finally:
        for name in reversed(made):
            run("dmsetup", "remove", "--noudevsync", name)
        run("modprobe", "-r", "brd")


def case_mirror():
    """one drive of a RAID1 dies under load: octokvd goes on, and the other drive has everything"""
    with mirror():
        with daemon(device=MIRROR) as d:
            writers = [Writer(d, number) for number in range(4)]
            for writer in writers:
                writer.start()
            wait_for_acknowledged(writers, 400)
            table_of("leg1", "error")
            wait_for_acknowledged(writers, 400 + sum(w.nr_acknowledged for w in writers))
            status = run("dmsetup", "status", "mirror")
            expect(" AD " in status, f"the RAID1 is {status}")
            for writer in writers:
                writer.stop = True
                writer.join()
            verify(d, writers)
            expect(d.client().info("health")["health"] == "ok", "INFO health")
            expect(d.end() == 0, "did not end well")
            table_of("mirror", "error")
            d.data = "/dev/mapper/leg0"
            d.start()
            verify(d, writers)
        nr = sum(writer.nr_acknowledged for writer in writers)
        return f"{nr} writes acknowledged, all on the drive that is left"
