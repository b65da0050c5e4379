# SPDX-License-Identifier: GPL-2.0
"""Count the cache lines that move between the CPUs of a guest: build the plugin, read its log.

tools/lab/coherence/plugin.c says what is counted. A guest opens windows by the markers of marker.h:
iocount does, and tools/lab/coherence/window.py does it for any command. Beside the log lie the
symbols that the guest had when a window began (symbols/WINDOW): modules lie elsewhere in each run.
"""
import bisect
import collections
import json
import os
import subprocess
from dataclasses import dataclass

from . import library
from .root import enter_argv
from .say import LabError, cache_hint, say

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "coherence")
SOURCES, HEADERS = ("plugin.c", "lines.c"), ("lines.h", "marker.h", "qemu_api.h")
# With one byte of APIC numbers.
MOST_CPUS = 255
LINE_SHIFT = 6
SLICE_INSNS = 100
TOP_LINES, TOP_FUNCTIONS = 40, 60


@dataclass(frozen=True)
class Coherence:
    """What `lab run --coherence` was asked for."""
    path: str           # the result file
    slice_insns: int    # a CPU's turn; 0: as QEMU does it


def check(coherence, backend, virtual_time):
    """Refuse what cannot be counted, before anything is made."""
    if backend != "vm" or not virtual_time:
        raise LabError("--coherence counts in QEMU's virtual time: add --backend vm "
                       "--virtual-time")
    if coherence.slice_insns < 0:
        raise LabError(f"--slice {coherence.slice_insns}: a turn has at least one instruction, "
                       "and 0 leaves turns to QEMU")
    folder = os.path.dirname(os.path.abspath(coherence.path))
    if not os.access(folder, os.W_OK):
        raise LabError(f"--coherence: no file can be made in {folder}")


def check_cpus(cpus):
    """Refuse more CPUs than a stock kernel can boot."""
    if not 1 <= cpus <= MOST_CPUS:
        raise LabError(f"--cpus {cpus}: this guest can boot 1 to {MOST_CPUS} CPUs")


def plugin(root):
    """The plugin, built for the QEMU of @root."""
    return library.build(root, "coherence", FOLDER, SOURCES, HEADERS, "-fvisibility=hidden")


def argv(root, coherence, run):
    """QEMU's arguments; the log goes to the run folder."""
    os.makedirs(os.path.join(run, "coherence", "symbols"))
    return ["-plugin", f"{plugin(root)},log={run}/coherence/log,slice={coherence.slice_insns}"]


# ---- symbols ----

class Symbols:
    """Addresses to symbols and modules, as the guest's /proc/kallsyms had them."""

    def __init__(self, lines):
        found = []
        for line in lines:
            address, kind, name, *module = line.split()
            if kind not in "aUu":
                found.append((int(address, 16), name, module[0][1:-1] if module else "kernel"))
        found.sort(key=lambda entry: entry[0])
        self._found, self._starts = found, [entry[0] for entry in found]

    def at(self, address):
        """(symbol, module, offset) of @address; the symbol is empty if there is none."""
        place = bisect.bisect_right(self._starts, address) - 1
        if place < 0 or address < 1 << 63:
            return "", "user" if address < 1 << 63 else "kernel", 0
        start, name, module = self._found[place]
        # All symbols at one address: the first is the one that the source has.
        while place and self._starts[place - 1] == start:
            place -= 1
            name, module = self._found[place][1:]
        if address - start > 1 << 20:
            return "", "kernel", 0
        return name, module, address - start


def _symbols(folder, windows):
    """{window: Symbols}: a window without a file has those of the one before it."""
    last, out = Symbols([]), {}
    for name in windows:
        path = os.path.join(folder, "symbols", name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as handle:
                last = Symbols(handle)
        out[name] = last
    return out


# ---- the log ----

def _read(path):
    """(windows, last line): a window is its name, its numbers, its transfers and its blocks."""
    windows, line = [], ""
    with open(path, encoding="utf-8") as handle:
        for line in handle:
            kind, *words = line.split()
            if kind == "window":
                windows.append({"name": " ".join(words), "transfers": [], "blocks": []})
            elif kind in ("cpus", "turns"):
                words = [kind, *words]
                windows[-1].update({key: int(number)
                                    for key, number in zip(words[::2], words[1::2])})
            elif kind == "transfer":
                pc, vaddr, access, cause, count, cpus, number, owner, sharers = words
                windows[-1]["transfers"].append(
                    (int(pc, 16), int(vaddr, 16), access, cause == "caused", int(count),
                     int(cpus), int(number, 16), int(owner), int(sharers)))
            elif kind == "block":
                windows[-1]["blocks"].append((int(words[0], 16), int(words[1]), int(words[2])))
    return windows, line.strip()


def _place(symbols, address):
    name, module, offset = symbols.at(address)
    return f"{name}+{offset:#x}" if name else f"{address:#x}", module


def _lines(window, symbols):
    """The lines that moved most often, each with the code that moved it."""
    by_line = collections.defaultdict(list)
    for transfer in window["transfers"]:
        by_line[transfer[6]].append(transfer)
    busiest = sorted(by_line.values(), key=lambda found: -sum(one[4] for one in found))
    out = []
    for found in busiest[:TOP_LINES]:
        data = symbols.at(found[0][1])
        sites = []
        for pc, vaddr, access, caused, count, cpus, *_ in sorted(found, key=lambda one: -one[4]):
            place, module = _place(symbols, pc)
            sites.append({"code": place, "module": module, "access": access, "caused": caused,
                          "offset": vaddr & ((1 << LINE_SHIFT) - 1), "count": count,
                          "cpus": cpus})
        out.append({"address": f"{found[0][1] & -(1 << LINE_SHIFT):#x}",
                    "symbol": f"{data[0]}+{data[2]:#x}" if data[0] else "",
                    "transfers": sum(one[4] for one in found), "owner": found[0][7],
                    "sharers": found[0][8], "sites": sites})
    return out


def _digest(window, symbols):
    """A window as the result file has it."""
    modules, functions = collections.Counter(), collections.Counter()
    insns, calls = collections.Counter(), collections.Counter()
    for pc, _, _, _, count, *_ in window["transfers"]:
        name, module, _ = symbols.at(pc)
        modules[module] += count
        functions[f"{name or hex(pc)} [{module}]"] += count
    for pc, nr_insns, runs in window["blocks"]:
        name, module, offset = symbols.at(pc)
        insns[module] += nr_insns * runs
        if not offset and name:
            calls[f"{name} [{module}]"] += runs
    lines = _lines(window, symbols)
    return {"name": window["name"], "cpus": window["cpus"], "slice": window["slice"],
            "turns": window["turns"], "turns_ended": window["ended"], "insns": window["insns"],
            "transfers": sum(modules.values()),
            "caused": sum(one[4] for one in window["transfers"] if one[3]),
            "hottest_line": lines[0]["transfers"] if lines else 0,
            "transfers_by_module": dict(modules.most_common()),
            "transfers_by_function": dict(functions.most_common(TOP_FUNCTIONS)),
            "insns_by_module": dict(insns.most_common()), "calls": dict(calls.most_common()),
            "lines": lines}


# ---- source lines ----

def _frames(text):
    """Frames of addr2line -a -i -f, from the innermost: {address: [(function, path, line)]}."""
    found, frames, name = {}, None, None
    for line in text.splitlines():
        if line.startswith("0x"):
            frames, name = found.setdefault(int(line, 16), []), None
        elif name is None:
            name = line
        else:
            path, _, number = line.split(" (")[0].rpartition(":")
            frames.append((name, path, number))
            name = None
    return found


def _own_source(frames, checkout):
    """path:line and its text of the innermost frame of @frames that is in @checkout, or None."""
    for _, path, number in frames:
        parts = path.split("/")
        for start in range(1, len(parts)):
            ours = os.path.join(*parts[start:])
            real = os.path.join(checkout, ours)
            if os.path.isfile(real) and number.isdigit():
                with open(real, encoding="utf-8") as handle:
                    lines = handle.read().splitlines()
                return f"{ours}:{number}", lines[int(number) - 1].strip()
    return None


def _in_root(root, argv):
    return subprocess.run(enter_argv(root, argv, [], "/"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          check=False).stdout


def add_sources(windows, root, modules, checkout):
    """Give the sites of our own modules their line of source, by the modules' DWARF.

    The line says which field is touched. A stock kernel comes without DWARF.
    """
    sites = [site for window in windows for line in window["lines"] for site in line["sites"]]
    for name in sorted({site["module"] for site in sites}):
        files = [os.path.join(modules, "updates", f"{spelled}.ko")
                 for spelled in (name, name.replace("_", "-"))]
        path = next((path for path in files if os.path.exists(path)), None)
        if not path:
            continue
        places = {}
        for line in _in_root(root, ["objdump", "-t", path]).splitlines():
            words = line.replace(" F ", " ").split()
            if len(words) == 5 and words[2].startswith("."):
                places[words[4]] = (words[2], int(words[0], 16))
        by_section = collections.defaultdict(list)
        for site in sites:
            symbol, _, offset = site["code"].partition("+")
            if site["module"] == name and symbol in places:
                section, start = places[symbol]
                by_section[section].append((start + int(offset, 16), site))
        for section, wanted in by_section.items():
            addresses = [f"{address:#x}" for address in sorted({one[0] for one in wanted})]
            frames = _frames(_in_root(root, ["addr2line", "-a", "-i", "-f", "-j", section, "-e",
                                             path, *addresses]))
            for address, site in wanted:
                source = _own_source(frames.get(address, ()), checkout)
                if source:
                    site["source"], site["text"] = source


# ---- the result ----

def _console(run):
    """What the plugin complained about, or None."""
    with open(os.path.join(run, "console"), encoding="utf-8", errors="replace") as handle:
        for line in handle:
            if "coherence: " in line:
                return line[line.index("coherence: ") + len("coherence: "):].strip()
            if "Could not load plugin" in line:
                return line[line.index("Could not load plugin"):].strip()
    return None


def finish(coherence, run, root=None, modules=None, checkout=None):
    """The guest has ended: write the result file, or say why there is none."""
    complaint = _console(run)
    if complaint:
        raise LabError(f"--coherence: {complaint}")
    folder = os.path.join(run, "coherence")
    windows, last = _read(os.path.join(folder, "log"))
    if last.startswith("open "):
        raise LabError(f"--coherence: window {last.removeprefix('open ')} was never closed")
    if last != "done":
        raise LabError("--coherence: the plugin's log is cut short; is there space left in "
                       f"{cache_hint()}?")
    symbols = _symbols(folder, [window["name"] for window in windows])
    found = [_digest(window, symbols[window["name"]]) for window in windows]
    if root:
        add_sources(found, root, modules, checkout)
    part = f"{coherence.path}.part"
    with open(part, "w", encoding="utf-8") as handle:
        json.dump({"windows": found}, handle, indent=1)
        handle.write("\n")
    os.replace(part, coherence.path)
    for window in found:
        say(f"window {window['name']}: {window['transfers']} transfers, {window['caused']} of them "
            f"caused by the named module, {window['insns']} instructions")
    if not found:
        say("the guest opened no window; see tools/lab/coherence/window.py")
