# SPDX-License-Identifier: GPL-2.0
"""Tenants: cgroups with a weight and a fio job each, and how fair their shares are."""

# fio is ended when the window has passed.
HEAD = ("[global]\nfilename=${DEV}\ndirect=1\nioengine=libaio\nnorandommap\nrandrepeat=1\n"
        "time_based\nruntime=100s\ncgroup_nodelete=1\n")


def tenant(name, weight=100, **options):
    """One cgroup with one job."""
    return {"name": name, "weight": weight,
            "options": {"rw": "randread", "bs": "4k", "iodepth": 128, **options}}


def many(count, weights=None, **options):
    """@count tenants that differ in nothing but their weights."""
    return [tenant(f"t{i + 1}", (weights or [100] * count)[i], **options) for i in range(count)]


def rising(count):
    """Weights from 1 to @count times the default, and within the range."""
    return [100 * (i + 1) for i in range(count)]


def job_text(tenants):
    """A fio job file with a section, and a cgroup, for each tenant."""
    out = [HEAD]
    for entry in tenants:
        options = "".join(f"{key}={value}\n" for key, value in entry["options"].items())
        out.append(f"[{entry['name']}]\ncgroup={entry['name']}\n{options}")
    return "\n".join(out)


def load(tenants, ramp_s, window_s):
    """A step's description of its load: bytes per tenant in a window in which all have I/O."""
    return {"measure": "shares", "ramp_s": ramp_s, "window_s": window_s,
            "job_text": job_text(tenants), "tenants": weights_of(tenants)}


def weights_of(tenants):
    """[(name, weight)]"""
    return [(entry["name"], entry["weight"]) for entry in tenants]


def jain(shares):
    """Jain's index, (sum x)^2 / (n sum x^2): 1 if all @shares are equal, 1 / n if one has all."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
