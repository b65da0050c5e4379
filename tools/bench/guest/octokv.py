# SPDX-License-Identifier: GPL-2.0
"""octokvd on the disk under test, with a user per tenant and octokv-bench as each one's load.

The server is a new one for each step, on a store made anew and filled by each tenant: what a step measures is not what the step before left.
"""
import json
import os
import subprocess
import time

from devices import StepError, call

PORT = "7390"
FOLDER = "/tmp/mqfair-octokv"
START_S = 120


def _bench(step, tenant, *argv):
    return [os.path.join(step["build"], "octokv-bench"), "--quiet", "--port", PORT, "--user", tenant, "--password", tenant, "--records", str(step["records"]),
            "--value-bytes", str(step["value_bytes"]), *argv]


def _users(step):
    """The users file: name and password of a tenant are the same."""
    path = os.path.join(FOLDER, "users")
    with open(path, "w", encoding="utf-8") as handle:
        for number, (name, tenant) in enumerate(step["users"].items(), 1):
            said = subprocess.run([os.path.join(step["build"], "octokvd"), "--hash-password"], input=f"{name}\n", stdout=subprocess.PIPE, text=True, check=True)
            handle.write(f"{name} {number} {said.stdout.strip()} weight={tenant['weight']}\n")
    return path


def _start(step, disk):
    """A server that answers."""
    program = os.path.join(step["build"], "octokvd")
    os.makedirs(FOLDER, exist_ok=True)
    call(program, "--data", f"/dev/{disk}", "--format", "--force")
    weights = ["--weights", f"/sys/block/{disk}"] if step["scheduler"] == "mq-mqfq" else []
    log = os.path.join(FOLDER, "log")
    with open(log, "w", encoding="utf-8") as handle:
        server = subprocess.Popen([program, "--data", f"/dev/{disk}", "--port", PORT, "--users", _users(step), *weights], stdout=handle, stderr=handle)
    deadline = time.monotonic() + START_S
    while True:
        with open(log, encoding="utf-8") as handle:
            said = handle.read()
        if "octokvd: serving" in said:
            return server
        if server.poll() is not None or time.monotonic() > deadline:
            server.kill()
            raise StepError(f"octokvd does not serve: {(said.strip().splitlines() or ['no output'])[-1]}")
        time.sleep(0.05)


def _load(step):
    """Each tenant of the step at once; what octokv-bench says of each."""
    children = {tenant: subprocess.Popen(_bench(step, tenant, "--clients", str(step["users"][tenant]["clients"]), "--seconds", str(step["seconds"]), step["workload"]),
                                         stdout=subprocess.PIPE, text=True) for tenant in step["tenants"]}
    texts = {tenant: child.communicate()[0] for tenant, child in children.items()}
    failed = [tenant for tenant, child in children.items() if child.returncode != 0]
    if failed:
        raise StepError(f"octokv-bench of {', '.join(failed)} failed")
    return {tenant: json.loads(text[text.index("{"):]) for tenant, text in texts.items()}


def run(step, disk):
    """{tenant: octokv-bench's figures} of the tenants that have load in this step; all have data."""
    server = _start(step, disk)
    try:
        for tenant in step["users"]:
            call(*_bench(step, tenant, "--clients", "4", "--fill", "fillrandom"))
        return _load(step)
    finally:
        server.terminate()
        server.wait()
