# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: memory that ends."""
import os
import resource
import subprocess
import tempfile
import time

from kit import BUILD, PORT, daemon, expect, refused, run_once, users_file

LIMIT_BYTES = 96 << 20


def limit_memory():
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))


def fill(d):
    """New keys of a few bytes, until one is refused."""
    done = subprocess.run(["redis-benchmark", "-p", str(d.port), "-n", "4000000", "-r",
                           "1000000000", "-c", "50", "-P", "64", "-q", "set", "k:__rand_int__",
                           "v"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300,
                          check=False)
    expect("OOM no memory for another key" in done.stdout, done.stdout[-300:])


def case_memory():
    """96 MiB, filled with small keys: new ones are refused, all else goes on, a restart serves"""
    # Sanitizers need more address space than the limit.
    plain = os.path.join(BUILD, "octokvd")
    with daemon(size="512m", program=plain, preexec_fn=limit_memory) as d:
        fill(d)
        c = d.client()
        nr, before = c.dbsize(), None
        # What redis-benchmark had under way when it ended may still be written.
        while nr != before:
            time.sleep(0.2)
            nr, before = c.dbsize(), nr
        expect(nr > 100000, f"only {nr} keys")
        for again in range(2):
            name = next(c.scan_iter(count=10))
            expect(c.set(name, "w") and c.get(name) == b"w", "overwriting")
            expect(c.delete(name) == 1, "deleting")
            nr -= 1
            memory = c.info("memory")
            expect(0 < memory["used_memory"] < memory["maxmemory"] < LIMIT_BYTES, str(memory))
            c.close()
            if again:
                break
            expect(d.end() == 0, "did not end well")
            d.start()
            expect(c.dbsize() == nr, f"{c.dbsize()} keys after the restart, not {nr}")
        expect(d.end() == 0, "did not end well")
        said = run_once("--data", d.data, "--port", str(PORT), "--memory", "32m", status=1)
        expect("its index takes about" in said and "--memory" in said, said)
    return f"{nr} keys"


def case_shares():
    """users without keys=N share what memory has room for; a limit of their own counts first"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = users_file(folder, ann="", bob="", eve="keys=3")
        with daemon("--users", path, "--memory", "128m") as d:
            limits = {}
            for name in "ann", "bob", "eve":
                c = d.client(username=name, password=f"pw-{name}")
                limits[name] = list(c.info("tenants").values())[0]["max_keys"]
            expect(limits["eve"] == 3 and limits["ann"] == limits["bob"], str(limits))
            expect(1 << 20 < limits["ann"] < 4 << 20, str(limits))
            refused(lambda: c.mset({f"k{i}": 1 for i in range(4)}), "QUOTA")
        return f"{limits['ann']} keys each"
