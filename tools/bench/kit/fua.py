# SPDX-License-Identifier: GPL-2.0
"""The load of the TABS paper: readers beside FUA writers, on a drive whose maxima are known."""

CPUS = 4
DRIVE = {"kind": "ssdsim", "params": {"queues": CPUS, "nodata": 1, "size_mb": 2048},
         "sysfs": {"ssdsim/fill": 50}}
# What ssdsim's default profile reaches when only one type has I/O, in KiB/s (ssdsim_profile.h;
# `make bench NAME=tabs` measures it as 0w1r and 1w0r).
TUNABLES = {"max_read_kbps": 304000, "max_fua_write_kbps": 54400}
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=libaio\nbs=16k\nnorandommap\nrandrepeat=1\n"
        "time_based\nruntime=2s\ngroup_reporting=1\n")


def tunables_of(scheduler):
    """TUNABLES for mq-tabs, nothing for the others."""
    return TUNABLES if scheduler == "mq-tabs" else {}


def job_text(writers, readers, fua=True, depth=128, ramp_s=2):
    """A fio job file with the readers in one section and the writers in another."""
    out = [HEAD + f"ramp_time={ramp_s}s\n"]
    if readers:
        out.append(f"[reads]\nnew_group\nrw=randread\nnumjobs={readers}\niodepth=128\n")
    if writers:
        out.append(f"[writes]\nnew_group\nrw=randwrite\nnumjobs={writers}\niodepth={depth}\n"
                   + ("sync=dsync\n" if fua else ""))
    return "\n".join(out)
