# SPDX-License-Identifier: GPL-2.0
"""Progress of a benchmark, and the one kind of failure that is not a bug."""
import sys


class BenchError(Exception):
    """The benchmark cannot be done. The text is one sentence: why, and what to do about it."""


def say(text):
    """A progress line, on stderr: stdout is for the result."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def duration(seconds):
    """A time in seconds, or in minutes and seconds, as text."""
    seconds = int(seconds + 0.5)
    return f"{seconds} s" if seconds < 100 else f"{seconds // 60} min {seconds % 60:02} s"
