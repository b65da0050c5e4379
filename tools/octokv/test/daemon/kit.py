# SPDX-License-Identifier: GPL-2.0
"""What the cases of octokvd share: a daemon for each, clients, expectations."""
import atexit
import contextlib
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import redis

BUILD = sys.argv[1]
OCTOKVD = os.environ.get("OCTOKVD") or os.path.join(BUILD, "octokvd-asan")
PORT = 7379
START_S = 60
# What the thread sanitizer cannot know: a socket that the kernel passes from ring to ring, and how
# OpenSSL counts references.
UNSEEN = ("race:greeting_begin", "race:libcrypto.so")
# Between the copies of the superblock: OKV_SUPER_STRIDE_BYTES.
STRIDE = 256 << 10


class Failed(Exception):
    pass


@functools.cache
def sanitizer_options():
    """For the environment of octokvd."""
    handle, path = tempfile.mkstemp(prefix="octokvd-", suffix=".supp")
    atexit.register(os.unlink, path)
    with open(handle, "w", encoding="utf-8") as file:
        file.write("\n".join(UNSEEN) + "\n")
    return {"ASAN_OPTIONS": "quarantine_size_mb=16", "TSAN_OPTIONS": f"suppressions={path}"}


def expect(condition, text):
    if not condition:
        raise Failed(text)


class Daemon:
    """An octokvd on a device, or on a file in a folder of its own.

    The device is formatted before, unless @is_formatted, and the file too, unless @size is None.
    """

    def __init__(self, folder, *options, size="2g", port=PORT, device=None, program=OCTOKVD,
                 environment=None, is_formatted=False, **popen):
        self.data = device or os.path.join(folder, "octokv.img")
        self.port, self.options, self.size, self.program = port, options, size, program
        self.log = os.path.join(folder, "log")
        self.popen, self.environment = popen, environment or {}
        if device and not is_formatted:
            run_once("--data", device, "--format", "--force")
        self.start()

    def start(self):
        if self.size and not os.path.exists(self.data):
            run_once("--data", self.data, "--format", "--size", self.size)
        self.launch()
        until = time.monotonic() + START_S
        while "octokvd: serving" not in self.said():
            expect(self.child.poll() is None, f"ended with {self.child.returncode}: {self.said()}")
            expect(time.monotonic() < until, f"does not serve: {self.said()}")
            time.sleep(0.02)

    def launch(self):
        self.err = open(self.log, "a+", encoding="utf-8")
        self.child = subprocess.Popen([self.program, "--data", self.data, "--port", str(self.port),
                                      "--cores", "2", *self.options], stderr=self.err,
                                      env={**os.environ, **sanitizer_options(),
                                           **self.environment},
                                      **self.popen)

    def restart(self):
        """Start again what has ended by itself."""
        with open(self.log, "w", encoding="utf-8"):
            pass
        self.start()

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def client(self, **options):
        options.setdefault("socket_timeout", 60)
        options.setdefault("retry", None)
        return redis.Redis(port=self.port, **options)

    def end(self, sig=signal.SIGTERM):
        """Send @sig; returns the exit status."""
        self.child.send_signal(sig)
        status = self.child.wait(timeout=60)
        expect("Sanitizer" not in self.said() and "runtime error" not in self.said(),
               self.said()[-3000:])
        with open(self.log, "w", encoding="utf-8"):
            pass
        return status


@contextlib.contextmanager
def daemon(*options, **more):
    folder = tempfile.mkdtemp(prefix="octokv-", dir=BUILD)
    d = None
    try:
        d = Daemon(folder, *options, **more)
        yield d
        if d.child.poll() is None:
            expect(d.end() == 0, "did not end well")
    finally:
        if d and d.child.poll() is None:
            d.child.kill()
            d.child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def run_once(*arguments, status=0, **more):
    done = subprocess.run([OCTOKVD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60, check=False, **more)
    expect(done.returncode == status, f"{arguments}: status {done.returncode}: {done.stdout}")
    return done.stdout


def in_thread(function):
    """Run @function in a thread. Returns join(), which waits for it and raises what it raised."""
    raised = []

    def run():
        try:
            function()
        except Exception as error:      # of any kind: join() raises it
            raised.append(error)
    thread = threading.Thread(target=run)
    thread.start()

    def join():
        thread.join()
        if raised:
            raise raised[0]
    return join


def raw(port=PORT):
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def read_until_closed(sock):
    said = bytearray()
    try:
        while piece := sock.recv(65536):
            said += piece
    except ConnectionResetError:
        pass
    return bytes(said)


def refused(call, *words):
    try:
        call()
    except (redis.RedisError, ConnectionError) as error:
        expect(any(word in str(error) for word in words), f"{error} is none of {words}")
        return
    raise Failed(f"was not refused: {words}")


def users_file(folder, **options):
    path = os.path.join(folder, "users")
    with open(path, "w", encoding="utf-8") as handle:
        for number, (name, more) in enumerate(options.items(), 1):
            password = run_once("--hash-password", input=f"pw-{name}\n").strip()
            handle.write(f"{name} {number} {password} {more}\n")
    return path


def rss_kb(d):
    with open(f"/proc/{d.child.pid}/status", encoding="utf-8") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))
