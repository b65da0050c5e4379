# SPDX-License-Identifier: GPL-2.0
"""octokvd on the disk under test, with a user per tenant and octokv-bench as its load.

Each step has a new server on a new store that each tenant fills, so a step does not depend on the
one before. A step may have "options" of octokvd. With "reactor_pct" each reactor has that part of a
processor, as if it ran on a slow one of its own. With "settle_s" the load first runs for so many
seconds that do not count, and the answer has "reactors": how busy each was, and how many partitions
it has given away since the start.
"""
import contextlib
import json
import os
import re
import subprocess
import time

from cgroups import slow_threads
from devices import StepError, call

PORT = "7390"
FOLDER = "/tmp/mqfair-octokv"
START_S = 120


def _bench(step, tenant, *argv):
    return [os.path.join(step["build"], "octokv-bench"), "--quiet", "--port", PORT,
            "--user", tenant, "--password", tenant, "--records", str(step["records"]),
            "--value-bytes", str(step["value_bytes"]), *argv]


def _users(step):
    """The users file: name and password of a tenant are the same, and it may see all of INFO."""
    path = os.path.join(FOLDER, "users")
    with open(path, "w", encoding="utf-8") as handle:
        for number, (name, tenant) in enumerate(step["users"].items(), 1):
            said = subprocess.run([os.path.join(step["build"], "octokvd"), "--hash-password"],
                                  input=f"{name}\n", stdout=subprocess.PIPE, text=True, check=True)
            handle.write(f"{name} {number} {said.stdout.strip()} weight={tenant['weight']} "
                         "admin\n")
    return path


def _start(step, disk):
    """Start octokvd, and wait until it serves."""
    program = os.path.join(step["build"], "octokvd")
    os.makedirs(FOLDER, exist_ok=True)
    call(program, "--data", f"/dev/{disk}", "--format", "--force")
    weights = ["--weights", f"/sys/block/{disk}"] if step["scheduler"] == "mq-mqfq" else []
    log = os.path.join(FOLDER, "log")
    with open(log, "w", encoding="utf-8") as handle:
        server = subprocess.Popen([program, "--data", f"/dev/{disk}", "--port", PORT,
                                   "--users", _users(step), *weights, *step.get("options", ())],
                                  stdout=handle, stderr=handle)
    deadline = time.monotonic() + START_S
    while True:
        with open(log, encoding="utf-8") as handle:
            said = handle.read()
        if "octokvd: serving" in said:
            return server
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise StepError("octokvd does not serve: "
                            f"{(said.strip().splitlines() or ['no output'])[-1]}")
        time.sleep(0.05)


def _load(step, seconds):
    """Run the load of all tenants of the step at once; {tenant: octokv-bench's answer}."""
    children = {}
    for tenant in step["tenants"]:
        argv = _bench(step, tenant, "--clients", str(step["users"][tenant]["clients"]),
                      "--pipeline", str(step.get("pipeline", 1)), "--seconds", str(seconds),
                      step["workload"])
        children[tenant] = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    texts = {tenant: child.communicate()[0] for tenant, child in children.items()}
    failed = [tenant for tenant, child in children.items() if child.returncode != 0]
    if failed:
        raise StepError(f"octokv-bench of {', '.join(failed)} failed")
    return {tenant: json.loads(text[text.index("{"):]) for tenant, text in texts.items()}


def _reactors(step):
    """The counters of each reactor so far, from INFO: a dictionary each."""
    name = step["tenants"][0]
    said = subprocess.run([os.path.join(step["build"], "octokvd"), "--stats", "--port", PORT,
                           "--user", name], input=f"{name}\n", stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return [{key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", line)}
            for line in re.findall(r"^reactor\d+:(.*)", said, re.MULTILINE)]


def _slow(step, server):
    """Slow reactors, if the step asks. All threads but the main one are theirs, in order."""
    if "reactor_pct" not in step:
        return contextlib.nullcontext()
    reactors = sorted(int(tid) for tid in os.listdir(f"/proc/{server.pid}/task"))[1:]
    return slow_threads(server.pid, reactors, step["reactor_pct"])


def _run_settled(step, server):
    with _slow(step, server):
        _load(step, step["settle_s"])
        before = _reactors(step)
        answer = _load(step, step["seconds"])
        answer["reactors"] = [{"busy_pct": (last["busy_us"] - first["busy_us"])
                               / step["seconds"] / 10000, "moved": last["migrated"]}
                              for first, last in zip(before, _reactors(step))]
    return answer


def run(step, disk):
    """{tenant: octokv-bench's figures} of the tenants with load in this step; all have data."""
    server = _start(step, disk)
    try:
        for tenant in step["users"]:
            call(*_bench(step, tenant, "--clients", "4", "--fill", "fillrandom"))
        return _run_settled(step, server) if "settle_s" in step else _load(step, step["seconds"])
    finally:
        server.terminate()
        server.wait()
