# SPDX-License-Identifier: GPL-2.0
"""checklib.py - what the rules share: finding sources, reading C without comments, reporting

A rule is a program that starts in the root of the tree that it looks at. It prints one line
"file:line: what is wrong" per offence. It exits with 1 if there was one, with 0 if there was none,
and with 77 and a line "skipped: why" if it cannot look. rule() does that for a generator of
offences.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys

SKIP = 77
GENERATED = ("*.mod.c", "features.h", "layout.checked*", "*.i", "*.o", "*.ko", "*.a", "*.d",
             "*.cmd", "*.mod", "*.order", "*.symvers")
NOT_OURS = {".git", "__pycache__", ".tmp_versions"}
BUILT = {"results"}


class Skip(Exception):
    """The rule cannot look; the text says why."""


def rule(offences):
    """Prints what the generator @offences yields as (file, line, text), and exits accordingly."""
    try:
        found = sorted(set(offences()))
    except Skip as e:
        print(f"skipped: {e}")
        sys.exit(SKIP)
    for path, line, text in found:
        print(f"{path}:{line}: {text}")
    sys.exit(1 if found else 0)


def generated(name):
    return any(fnmatch.fnmatch(name, pattern) for pattern in GENERATED)


def files(*patterns, under=".", out_of=()):
    """Paths of the tree's own files that match one of @patterns and are not below @out_of."""
    for folder, folders, names in os.walk(under):
        top = os.path.normpath(folder) == "."
        folders[:] = sorted(f for f in folders if f not in NOT_OURS and not (top and f in BUILT))
        for name in sorted(names):
            path = os.path.normpath(os.path.join(folder, name))
            if any(path.startswith(top + "/") for top in out_of) or generated(name):
                continue
            if not patterns or any(fnmatch.fnmatch(name, p) for p in patterns):
                yield path


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def tracked():
    """Paths of the files that git tracks; without git, of all files that no build makes."""
    if not os.path.exists(".git") or not shutil.which("git"):
        return list(files())
    done = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, text=True, check=True)
    return [path for path in done.stdout.splitlines() if os.path.isfile(path)]


# Data, drawings, and the words of others: nobody reads these files line by line.
DATA = ("*.json", "*.svg", "*.patch", "*.png", "*/seeds/*", "COPYING")


def written():
    """{path: text} of the files that people write and read: all that is tracked, except DATA."""
    texts = {}
    for path in tracked():
        if not any(fnmatch.fnmatch(path, pattern) for pattern in DATA):
            text = read(path)
            if "\0" not in text:
                texts[path] = text
    return texts


def scripts(*interpreters):
    """Files that start with #! and one of @interpreters."""
    for path in files():
        with open(path, "rb") as f:
            first = f.readline(200)
        if first.startswith(b"#!") and any(
            re.search(rb"[/ ]" + i.encode() + rb"[\d.]*\s*( |$)", first.rstrip())
            for i in interpreters
        ):
            yield path


def without_comments(text, strings=False):
    """C text with comments, and with @strings the inside of strings, made blank; no line moves."""
    def blank(match):
        s = match.group()
        if s[0] in "\"'" and not strings:
            return s
        inner = re.sub(r"[^\n]", " ", s)
        return s[0] + inner[1:-1] + s[-1] if s[0] in "\"'" else inner
    return re.sub(
        r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', blank, text, flags=re.S
    )


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def comments(text):
    """[(first line, last line, text)] of the comments in C text."""
    pattern = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*'
    return [(line_of(text, m.start()), line_of(text, m.end()), m.group())
            for m in re.finditer(pattern, text, re.S) if m.group()[0] == "/"]


def functions(text):
    """[(name, line of the opening brace, line of the closing brace)] of C text in kernel style."""
    lines = without_comments(text, strings=True).splitlines()
    found, start = [], None
    for number, line in enumerate(lines, 1):
        if line.rstrip() == "{":
            start = number
        elif line.startswith("}") and start:
            head = " ".join(lines[max(0, start - 8):start - 1])
            head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head)
            names = re.findall(r"(\w+)\s*\([^;{}]*\)[^;{}]*$", re.split(r"[;}]", head)[-1])
            found.append((names[0] if names else "?", start, number))
            start = None
    return found


def schedulers():
    """[(folder, {path: text})] of the elevators in the tree."""
    for folder in sorted(os.listdir(".")):
        if folder.startswith("mq-") and os.path.isdir(folder):
            yield folder, {p: read(p) for p in files("*.c", "*.h", under=folder)}


def tunables(text):
    """[(name, line)] of the tunables in the elv_fs_entry tables of C text."""
    clean = without_comments(text)
    for table in re.finditer(
        r"struct\s+elv_fs_entry\s+\w+\s*\[\s*\]\s*=\s*\{(.*?)\n\}", clean, re.S
    ):
        for entry in re.finditer(r"\b(?!__ATTR_NULL)\w*ATTR\w*\s*\(\s*(\w+)", table.group(1)):
            yield entry.group(1), line_of(clean, table.start(1) + entry.start(1))


def hooks(text):
    """{hook: (function, line of its definition)} of the elevator_type in C text."""
    clean = without_comments(text, strings=True)
    table = re.search(r"struct\s+elevator_type\s+\w+\s*=\s*\{(.*?)\n\}", clean, re.S)
    found = {}
    for hook, name in (
        re.findall(r"\.(\w+)\s*=\s*(?:\w+\()?(\w+)\)?\s*,", table.group(1)) if table else ()
    ):
        place = re.search(rf"^(?:static\s[^;{{]*?)?\b{name}\s*\([^;]*?\)\s*\n\{{", clean, re.M)
        if place:
            found[hook] = (name, line_of(clean, clean.index(name, place.start())))
    return found


COMMAND = re.compile(
    r"\$ |(sudo|echo|make|modprobe|rmmod|mqfair|tools/\S+|fio|perf|bpftrace|ionice|apt|apt-get|"
    r"docker|systemctl|git|nvme|redis-cli)(\s|$)"
)


def _fenced(lines):
    """(line, block, marker) of the fenced blocks of a .md file that name no other language."""
    start = None
    for number, line in enumerate(lines):
        if line.startswith("```") and start is None:
            start = number
        elif line.startswith("```"):
            if lines[start][3:].strip() in ("", "sh", "console"):
                above = next((text for text in reversed(lines[:start]) if text.strip()), "")
                marker = re.fullmatch(r"<!--\s*(.*?)\s*-->", above.strip())
                yield start + 1, lines[start + 1:number], marker.group(1) if marker else ""
            start = None


def _indented(lines):
    """(line, block, marker) of the literal blocks of an .rst file that have a command.

    The marker is the comment above their paragraph.
    """
    for number, line in enumerate(lines):
        if (
            not line.rstrip().endswith("::")
            or line.lstrip().startswith(".. ")
            and not re.match(r"\s*\.\. code-block::", line)
        ):
            continue
        end = number + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(("\t", " "))):
            end += 1
        block = [text for text in lines[number + 1:end] if text.strip()]
        if not any(COMMAND.match(text.strip()) for text in block):
            continue
        first = number
        while first and lines[first - 1].strip():
            first -= 1
        above = next((text for text in reversed(lines[:first]) if text.strip()), "")
        marker = re.match(r"\.\. ((?:run by|example)\b.*)", above)
        yield number + 1, block, marker.group(1) if marker else ""


def command_blocks(path):
    """[(line, [command], marker)] of the blocks of commands in a document.

    The marker is "run by: TEST [WORD]" or "example: why".
    """
    lines = read(path).splitlines()
    return [
        (number, [re.sub(r"^\s*(\$ )?", "", text) for text in block], marker)
        for number, block, marker in (_fenced(lines) if path.endswith(".md") else _indented(lines))
    ]


def documents():
    """The documents whose blocks of commands the rule `manual` looks at."""
    return [
        path
        for path in files("*.rst", "README.md")
        if path == "README.md" or path.startswith("Documentation/")
    ]
