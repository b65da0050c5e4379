# SPDX-License-Identifier: GPL-2.0
"""What we take from fio's JSON: latency of a job, bandwidth of all jobs, a latency distribution."""
from .say import BenchError

PERCENTILES = {"p50": "50.000000", "p99": "99.000000", "p99.9": "99.900000"}


def _side(job):
    """The part of a job that did I/O."""
    for name in ("read", "write"):
        if job.get(name, {}).get("total_ios"):
            return job[name]
    raise BenchError(f"job {job.get('jobname', '?')} did no I/O")


def job(jobs, name):
    """The job @name of fio's list."""
    found = next((entry for entry in jobs if entry["jobname"] == name), None)
    if not found:
        raise BenchError(f"fio's result has no job {name}")
    if found.get("error"):
        raise BenchError(f"job {name} failed with error {found['error']}")
    return found


def latency_us(jobs, name):
    """{"p50": ..., "p99": ..., "p99.9": ...} of job @name, in microseconds."""
    percentile = _side(job(jobs, name))["lat_ns"]["percentile"]
    return {key: percentile[entry] / 1000 for key, entry in PERCENTILES.items()}


def mean_us(jobs, name):
    """Mean latency of job @name in microseconds."""
    return _side(job(jobs, name))["lat_ns"]["mean"] / 1000


def nr_ios(jobs, name):
    """Requests that job @name completed."""
    return _side(job(jobs, name))["total_ios"]


def bandwidth_mb_s(jobs):
    """Bytes of all jobs over the time of the longest, in MB/s (10^6)."""
    sides = [_side(entry) for entry in jobs]
    runtime_ms = max(side["runtime"] for side in sides)
    if not runtime_ms:
        raise BenchError("fio ran for less than a millisecond")
    return sum(side["io_bytes"] for side in sides) / runtime_ms / 1000


def bandwidth_of_mb_s(jobs, name):
    """Bytes of job @name over its own time, in MB/s (10^6)."""
    side = _side(job(jobs, name))
    if not side["runtime"]:
        raise BenchError(f"job {name} ran for less than a millisecond")
    return side["io_bytes"] / side["runtime"] / 1000


def iops(jobs):
    """Requests per second of all jobs together."""
    sides = [_side(entry) for entry in jobs]
    return sum(side["total_ios"] for side in sides) * 1000 / max(side["runtime"] for side in sides)


def distribution(jobs, name):
    """[(latency_us, count)] of job @name in rising order; needs --output-format=json+."""
    bins = _side(job(jobs, name))["lat_ns"].get("bins")
    if not bins:
        raise BenchError(f"fio gave no distribution for job {name}")
    return sorted((int(edge) / 1000, count) for edge, count in bins.items())


def percentile_of(pairs, share):
    """The smallest latency that at least @share (0..1) of the counted requests did not exceed."""
    total = sum(count for _, count in pairs)
    seen = 0
    for edge, count in pairs:
        seen += count
        if seen >= share * total:
            return edge
    raise BenchError("an empty distribution has no percentiles")
