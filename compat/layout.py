#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""layout.py - compares the declarations of compat/ with the target kernel

    layout.py probe IN.i OUT.c       OUT.c = IN.i, the preprocessed compat.h, plus a structure that
                                     names every declaration
    layout.py check PROBE.o VMLINUX  compares the declarations in PROBE.o, compiled from OUT.c, with
                                     those in a kernel image

The probe finds the declarations by itself, so none can be forgotten. The preprocessor marks from
which file each line came. Every type and prototype at file scope in a header of this directory
becomes a member of struct mqfair_layout_probe. A declaration of an unknown form stops the build.
Static functions and names with the prefix mqfair_ are our own and are not checked.

Exit status: 0 all equal, 1 a difference (printed with the names and both layouts), 2 the check
could not be made.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import btf  # noqa: E402

HERE = os.path.realpath(os.path.dirname(__file__))
PROBE = "mqfair_layout_probe"
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|'
                   r'\w+|->|<<|>>|[<>=!]=|&&|\|\||\.\.\.|[^\s\w]')
# How a report names the spaces that C has no word for: a function, and a typedef of a function.
NAMED = {"func": "function", "functype": "typedef"}
ATTRIBUTES = ("__attribute__", "__attribute", "__declspec", "_Alignas", "__asm__", "asm")


class Unclear(Exception):
    """A declaration that this file does not understand."""


def own_lines(text, directory=HERE):
    """The lines of preprocessed @text from files in @directory: (line, number in @text)."""
    # kbuild names files from the root of the filesystem, or from the directory above this one.
    above, ours = os.path.dirname(directory), False
    for number, line in enumerate(text.splitlines()):
        if line.startswith("# "):
            name = re.match(r'# \d+ "((?:\\.|[^"\\])*)"', line)
            if name:
                folder = os.path.join(above, os.path.dirname(name.group(1)))
                ours = os.path.realpath(folder) == directory
        elif ours:
            yield line, number


def tokens(text, directory=HERE):
    """[(token, number of its line, column)] of the lines that are ours."""
    return [(m.group(), number, m.start()) for line, number in own_lines(text, directory)
            for m in TOKEN.finditer(line)]


def match_close(toks, i):
    """Index of the bracket that closes the one at @i."""
    depth = 0
    for j in range(i, len(toks)):
        depth += (toks[j][0] in "([{") - (toks[j][0] in ")]}")
        if not depth:
            return j
    raise Unclear("bracket that is never closed")


def statements(toks):
    """Splits tokens into declarations at file scope; the body of a function ends one, too."""
    start = i = 0
    while i < len(toks):
        tok = toks[i][0]
        if tok in ("(", "[", "{"):
            close = match_close(toks, i)
            function = (tok == "{" and toks[i - 1][0] == ")"
                        and toks[start][0] not in ("struct", "union", "enum", "typedef"))
            i = close
            tok = ";" if function or (tok == "{" and toks[start][0] == "static") else tok
        if tok == ";":
            if i > start:
                yield toks[start:i + 1]
            start = i + 1
        i += 1
    if start < len(toks):
        raise Unclear("declaration without an end: "
                      + " ".join(t[0] for t in toks[start:start + 8]))


def without_attributes(stmt):
    """The words of a declaration without its attributes."""
    out, i = [], 0
    while i < len(stmt):
        if stmt[i][0] in ATTRIBUTES and i + 1 < len(stmt) and stmt[i + 1][0] == "(":
            i = match_close(stmt, i + 1)
        elif stmt[i][0] not in ("extern", "__extension__", "inline", "__inline", "__inline__"):
            out.append(stmt[i][0])
        i += 1
    return out


def lists_several(words):
    """Whether a comma outside of brackets separates declarators; only one would be found."""
    depth = 0
    for word in words:
        depth += (word in "([{") - (word in ")]}")
        if word == "," and not depth:
            return True
    return False


def classify(stmt):
    """(space, name) of one declaration, or None if it needs no check."""
    words = without_attributes(stmt)
    if words[0] in ("static", "_Static_assert") or words == [";"]:
        return None
    if lists_several(words):
        raise Unclear("one declaration at a time, please: " + " ".join(words)[:120])
    if words[0] == "typedef" and re.match(r"\w+$", words[-2]):
        return "typedef", words[-2]
    ends_in_paren = words[-2:] == [")", ";"]
    if words[0] == "typedef" and ends_in_paren and words.index("(") == words.index(")") - 2:
        return "functype", words[words.index("(") + 1]
    if words[0] in ("struct", "union", "enum"):
        if words[2] == ";":
            return None
        if words[2] == "{" and words[-2:] == ["}", ";"]:
            return words[0], words[1]
    paren = words.index("(") if "(" in words else 0
    if paren > 1 and re.match(r"\w+$", words[paren - 1]) and ends_in_paren and "{" not in words:
        return "func", words[paren - 1]
    raise Unclear("cannot tell what this declares, so it could not be checked: "
                  + " ".join(words)[:120])


def declarations(text, directory=HERE):
    """[(space, name)] of everything that the headers in @directory declare, in order, each once."""
    found = {}
    for stmt in statements(tokens(text, directory)):
        what = classify(stmt)
        if what and not what[1].startswith("mqfair_"):
            found[what] = True
    return list(found)


def probe_source(decls, suffix=""):
    """What to append to the preprocessed header: a structure with a member per declaration."""
    lines = [f"\nstruct {PROBE}{suffix} {{"]
    for space, name in decls:
        if space == "func":
            lines.append(f"\t__typeof__({name}{suffix}) *func_{name};")
        elif space == "typedef":
            lines.append(f"\t{name}{suffix} typedef_{name};")
        elif space == "functype":
            lines.append(f"\t{name}{suffix} *functype_{name};")
        else:
            lines.append(f"\t{space} {name}{suffix} {space}_{name};")
    return "\n".join(lines + [f"}} {PROBE}{suffix};", ""])


def listing(image, t):
    """The layout of a type as lines of text."""
    kind = image.kind(t)
    if kind in (btf.STRUCT, btf.UNION):
        for name, typ, offset, _ in image.members(t):
            yield name, f"{offset // 8:6}  {image.text(typ, name)}"
        yield None, f"{image.size(t):6}  bytes in all"
    elif kind in (btf.ENUM, btf.ENUM64):
        for name, value in image.values(t).items():
            yield name, f"{value:6}  {name}"
    else:
        yield None, "        " + image.text(image.ref(t) if kind in (btf.FUNC, btf.TYPEDEF) else t)


def report(what, e, ours, a, theirs, b, out):
    """Says what differs, and prints both layouts with an arrow at the member."""
    member = f", member {'.'.join(e.path)}" if e.path else ""
    print(f"layout: {what}{member}: {e.what}", file=out)
    for whose, image, t in (("compat/ declares", ours, a), ("the kernel has", theirs, b)):
        print(f"  {whose}:", file=out)
        for name, line in listing(image, t):
            print(f"  {'->' if e.path and name == e.path[0] else '  '}{line}", file=out)


def probed(ours, probe=None):
    """[(space, name, type)] of the declarations that the probe object lists.

    @probe is the type of the listing structure, if it is known.
    """
    found = [probe] if probe else ours.find("struct", PROBE)
    if len(found) != 1:
        raise btf.BtfError(f"the probe object has no struct {PROBE}: was it compiled with -gbtf by "
                           "gcc 12 or newer?")
    listed = []
    for name, typ, _, _ in ours.members(found[0]):
        space, _, plain = name.partition("_")
        # The member is a pointer; with "functype", a typedef stands before the function.
        target = ours.ref(typ) if space in ("func", "functype") else typ
        listed.append((space, plain, ours.ref(target) if space == "functype" else target))
    return listed


def check(ours, theirs, out=sys.stderr, probe=None):
    """Compares everything that the probe lists.

    Returns the number of declarations and the list of those that differ.
    """
    comparer = btf.Comparer(ours, theirs)
    listed, bad = probed(ours, probe), []
    for space, name, a in listed:
        what = f"{NAMED.get(space, space)} {name}"
        candidates = theirs.find("typedef" if space == "functype" else space, name)
        if not candidates:
            bad.append((what, None))
            print(f"layout: {what}: the kernel has none of that name", file=out)
        for b in candidates:
            try:
                comparer.compare(a, theirs.ref(b) if space in ("func", "functype") else b)
            except btf.Mismatch as e:
                bad.append((what, e))
                report(what, e, ours, a, theirs, b, out)
                break
    if not listed:
        raise btf.BtfError("the probe lists no declaration at all")
    return len(listed), bad


def names(ours):
    return [name for _, name, _ in probed(ours)]


def main(argv):
    try:
        if len(argv) == 4 and argv[1] == "probe":
            with open(argv[2], encoding="utf-8", errors="surrogateescape") as f:
                text = f.read()
            with open(argv[3], "w", encoding="utf-8", errors="surrogateescape") as f:
                f.write(text + probe_source(declarations(text)))
            return 0
        if len(argv) == 4 and argv[1] == "check":
            ours = btf.Btf(argv[2])
            number, bad = check(ours, btf.Btf(argv[3], names(ours)))
            if not bad:
                return 0
            print(f"layout: {len(bad)} of {number} declarations differ from {argv[3]}. Nothing was "
                  "linked: a module built with them would corrupt memory. Build for a kernel named "
                  "in SUPPORTED, or correct compat/.", file=sys.stderr)
            return 1
    except (btf.BtfError, Unclear) as e:
        print(f"layout: {e}", file=sys.stderr)
        return 2
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
