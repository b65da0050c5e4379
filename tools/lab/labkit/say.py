# SPDX-License-Identifier: GPL-2.0
"""What the lab prints: a line per step, a heartbeat while a step runs, a sentence if it fails."""
import os
import signal
import subprocess
import sys
import time

HEARTBEAT_S = 30


class LabError(Exception):
    """A failure; its text is one sentence that says what happened and what to do."""


def say(text):
    """A progress line, on stderr: stdout belongs to the command that runs in the guest."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def _last_line(path):
    with open(path, "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - 4096))
        lines = log.read().decode(errors="replace").replace("\r", "\n").splitlines()
    return next((line.strip()[:100] for line in reversed(lines) if line.strip()), "")


def end_group(process, first=signal.SIGTERM, grace_s=10):
    """End @process and its children; signal @first lets them clean up, for @grace_s seconds."""
    for number in (first, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=grace_s)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def run_logged(what, argv, log_path, hint="", **popen):
    """Run @argv with its output in @log_path and a heartbeat every HEARTBEAT_S.

    Raise LabError if it fails; @hint is what the user can do about a failure.
    """
    say(what)
    started = beat = time.monotonic()
    os.makedirs(os.path.dirname(log_path), exist_ok=True)
    with open(log_path, "wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True, **popen)
        try:
            while True:
                try:
                    status = process.wait(timeout=1)
                    break
                except subprocess.TimeoutExpired:
                    if time.monotonic() - beat >= HEARTBEAT_S:
                        beat = time.monotonic()
                        say(f"  {beat - started:4.0f} s  {_last_line(log_path)}")
        except BaseException:
            end_group(process)
            raise
    if status != 0:
        raise LabError(failure_sentence(what, status, log_path, hint))
    return time.monotonic() - started


def failure_sentence(what, status, log_path, hint):
    """Why a logged step failed, with the cause if its log names a known one."""
    with open(log_path, errors="replace") as log:
        text = log.read()
    if "No space left on device" in text:
        hint = ("the disk is full: free some space "
                f"(a whole lab takes about 15 GB of {cache_hint()})")
    elif any(mark in text
             for mark in ("Temporary failure resolving", "Could not resolve", "Unable to connect",
                          "Could not connect", "Network is unreachable")):
        hint = ("the package archive cannot be reached: check the network, "
                "then run the same command again")
    last = _last_line(log_path)
    return f"{what}: failed with status {status} ({last}); " + (hint or f"see {log_path}")


def cache_hint():
    """The cache folder, short, for messages."""
    return os.environ.get("XDG_CACHE_HOME", "~/.cache") + "/mqfair"
