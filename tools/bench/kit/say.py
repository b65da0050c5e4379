# SPDX-License-Identifier: GPL-2.0
"""What a person sees of a benchmark while it runs, and the one kind of failure that is not a bug."""
import sys


class BenchError(Exception):
    """The benchmark can not be done; its text is one sentence that says why, and what to do where there is something."""


def say(text):
    """A progress line, on stderr: stdout is for the result."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def duration(seconds):
    """Seconds as a person says them."""
    seconds = int(seconds + 0.5)
    return f"{seconds} s" if seconds < 100 else f"{seconds // 60} min {seconds % 60:02} s"
