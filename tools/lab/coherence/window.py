#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Run a command in a guest of `lab run --coherence`, in a window in which transfers count.

  window.py NAME [--cause MODULE] -- COMMAND...

Transfers caused by MODULE are told apart: those of its own code and of what it calls. MODULE is a
module of the kernel, or mq-deadline, which is built in. The window also has the start and the end
of the command. A program that wants less opens it by itself (marker.h), as iocount does.
"""
import argparse
import ctypes
import mmap
import os
import re
import struct
import subprocess
import sys

ARM, OPEN, CLOSE = 0x4d510001, 0x4d510002, 0x4d510003
NAME_BYTES, MOST_RANGES = 64, 8
PAGE = 4096
# Built-in schedulers, by the prefixes of their functions.
BUILT_IN = {"mq-deadline": ("dd_", "deadline_")}
# Modules whose name is not the scheduler's.
MODULES = {"kyber": "kyber-iosched"}


_LAST = {"modules": None, "symbols": b""}


def save_symbols(folder, name):
    """The kernel's symbols as they are now, kept for window @name.

    They take a second to read. If no module has come or gone since the window before, they are its.
    """
    with open("/proc/modules", encoding="ascii") as handle:
        modules = [line.split()[::5] for line in handle]        # name and address
    if modules != _LAST["modules"]:
        with open("/proc/kallsyms", "rb") as source:
            _LAST.update(modules=modules, symbols=source.read())
        with open(os.path.join(folder, "symbols", name), "wb") as target:
            target.write(_LAST["symbols"])
    return _LAST["symbols"]


def ranges(symbols, module):
    """[(start, end)] of the code of @module in the text of /proc/kallsyms.

    The code of a module has pages of its own. Built-in functions are found by their prefix: a range
    ends at the next symbol, and those that touch are one.
    """
    if module not in BUILT_IN:
        tag = MODULES.get(module, module).replace("-", "_").encode()
        places = [int(found[1], 16) for found in
                  re.finditer(rb"^(\w+) [tT] \S+\t\[%b\]$" % re.escape(tag), symbols, re.M)]
        return [(min(places) & -PAGE, (max(places) | (PAGE - 1)) + 1)] if places else []
    found = []
    for match in re.finditer(rb"^(\w+) [tT] (?:__pfx_)?(?:%b)\w+$(?=(?:\n\1 .*)*\n(\w+))"
                             % "|".join(BUILT_IN[module]).encode(), symbols, re.M):
        start, end = int(match[1], 16), int(match[2], 16)
        if found and found[-1][1] >= start:
            found[-1][1] = max(end, found[-1][1])
        else:
            found.append([start, end])
    # Cold parts lie elsewhere; of too many ranges the largest count.
    return sorted(found, key=lambda pair: pair[0] - pair[1])[:MOST_RANGES]


def marker(number):
    """A function that executes a marker: its argument, in RDI, is the window's address."""
    code = mmap.mmap(-1, PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes((0x0f, 0x1f, 0x84, 0)) + struct.pack("<I", number) + b"\xc3")
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address), code


def description(name, found):
    """A struct mark_window."""
    flat = [number for pair in found for number in pair]
    flat += [0] * (2 * MOST_RANGES - len(flat))
    return struct.pack(f"<{NAME_BYTES}sQ{2 * MOST_RANGES}Q", name.encode(), len(found), *flat)


def main(argv):
    parser = argparse.ArgumentParser(prog="window.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--cause", metavar="MODULE")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND")
    args = parser.parse_args(argv)
    folder = os.environ.get("MQFAIR_COHERENCE")
    if not folder:
        sys.exit("window.py: this is no guest of lab run --coherence")
    symbols = save_symbols(folder, args.name)
    found = ranges(symbols, args.cause) if args.cause else []
    if args.cause and not found:
        sys.exit(f"window.py: the kernel has no code of {args.cause}")
    arm, opens, close = (marker(number) for number in (ARM, OPEN, CLOSE))
    text = ctypes.create_string_buffer(description(args.name, found))
    arm[0](ctypes.addressof(text))
    opens[0](None)
    status = subprocess.run(args.command, check=False).returncode
    close[0](None)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
