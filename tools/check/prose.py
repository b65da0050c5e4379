# SPDX-License-Identifier: GPL-2.0
"""prose.py - the sentences of the manual: .md, .rst and man pages without what is no prose

sentences() leaves out code, tables that are drawn, fields and comments. It counts a literal as one
word.
"""

import re

LITERAL = "literal"
# Directives whose content is prose; that of all others is not, nor are comments and targets.
PROSE = re.compile(
    r"\s*\.\. (?:note|warning|tip|important|glossary|seealso|topic|container|list-table)::"
)
BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)]|#\.)\s+")
FIELD = re.compile(r"\s*:[\w -]+:(?:\s|$)")
BORDER = re.compile(r"\s*=+( +=+)+\s*$")
UNDERLINE = re.compile(r"([-=~^\"'#*+.])\1{2,}\s*$")
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)[)\"']*\s+")


def indent(line):
    line = line.expandtabs(8)
    return len(line) - len(line.lstrip())


def skip_deeper(lines, at, depth):
    """The first line from @at on that is not blank and not indented deeper than @depth."""
    while at < len(lines) and (not lines[at].strip() or indent(lines[at]) > depth):
        at += 1
    return at


def skip_table(lines, at):
    """The line after the simple table that begins at @at: its last border has a blank after it."""
    at += 1
    while at < len(lines):
        if BORDER.match(lines[at]) and (at + 1 == len(lines) or not lines[at + 1].strip()):
            return at + 1
        at += 1
    return at


def rst_paragraphs(lines):
    """[(line, text)] of the units of text in an .rst file; each blank or bullet ends one."""
    at, unit, first = 0, [], 0

    def flush():
        nonlocal unit
        done, unit = unit, []
        return [(first + 1, "\n".join(done))] if done else []

    while at < len(lines):
        line = lines[at]
        if not line.strip():
            yield from flush()
        elif re.match(r"\s*\.\.(\s|$)", line):
            yield from flush()
            directive = PROSE.match(line)
            if not directive:
                at = skip_deeper(lines, at + 1, indent(line))
                continue
            if line[directive.end():].strip():
                first, unit = at, [line[directive.end():]]
        elif BORDER.match(line):
            yield from flush()
            at = skip_table(lines, at)
            continue
        elif FIELD.match(line):
            yield from flush()
            at = skip_deeper(lines, at + 1, indent(line))
            continue
        elif line.lstrip().startswith(("|", "+-", "+=")) or UNDERLINE.match(line):
            yield from flush()
        else:
            if unit and (BULLET.match(line) or indent(line) != indent(lines[at - 1])
                         and not BULLET.match(lines[at - 1])):
                yield from flush()
            if not unit:
                first = at
            unit.append(BULLET.sub("", line))
            if line.rstrip().endswith("::") and not (lines[at + 1:] or [""])[0].strip():
                depth = indent(line)
                yield from flush()
                at = skip_deeper(lines, at + 1, depth)
                continue
        at += 1
    yield from flush()


def md_paragraphs(lines):
    """The same of an .md file."""
    unit, first, fenced = [], 0, False
    for number, line in enumerate([*lines, ""], 1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        outside = fence or fenced or not line.strip()
        outside = outside or line.lstrip().startswith(("|", "#", "<!--"))
        if unit and (outside or BULLET.match(line)):
            yield first, "\n".join(unit)
            unit = []
        if not outside and not fence:
            first = first if unit else number
            unit.append(BULLET.sub("", line))


def man_paragraphs(lines):
    """The same of a man page: a line after .TP is a term, a unit of its own."""
    unit, first, verbatim, term = [], 0, False, False
    for number, line in enumerate([*lines, ".PP"], 1):
        macro, _, rest = line.partition(" ")
        verbatim = macro in (".nf", ".EX") or verbatim and macro not in (".fi", ".EE")
        font = re.fullmatch(r"\.([BIR]{1,2}|SM|SB)", macro)
        prose = not verbatim and (font or not line.startswith((".", "'")))
        if prose:
            first = first if unit else number
            unit.append(font_text(font[1], rest) if font else line)
        if unit and (term or not prose):
            yield first, "\n".join(unit)
            unit = []
        term = macro == ".TP"


def font_text(font, words):
    """What a font macro prints: of two fonts, the words without the blanks between them."""
    parts = re.findall(r'"([^"]*)"|(\S+)', words)
    return ("" if len(font) == 2 else " ").join(quoted or bare for quoted, bare in parts)


def plain(text):
    """@text with literals as one word each, links as their text, and no marks."""
    text = re.sub(r"``[^`]+``|(?<!`)`[^`<>_]+`(?!_|`)", LITERAL, text)
    text = re.sub(r":\w+:`([^`<]*?)\s*(<[^`]*>)?`", r"\1", text)
    text = re.sub(r"`([^`<]*?)\s*<[^`]*>`_+|`([^`]*)`_+", r"\1\2", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\\f[A-Z]|\\\||\\&|\*\*", "", text)
    return text.replace("\\-", "-")


def sentences(path, text):
    """[(line, number of words, sentence)] of a file of the manual."""
    if path.endswith(".md"):
        units = md_paragraphs(text.splitlines())
    elif path.endswith((".rst", ".inc")):
        units = rst_paragraphs(text.splitlines())
    else:
        units = man_paragraphs(text.splitlines())
    for line, unit in units:
        unit = re.sub(r":\w+:`[^`]*`|`[^`]*`", lambda m: m[0].replace("\n", " \1"), unit)
        start, bare = 0, plain(unit)
        for end in [m.end() for m in SENTENCE_END.finditer(bare)] + [len(bare)]:
            sentence = bare[start:end]
            words = [w for w in sentence.replace("\1", "").split() if re.search(r"\w", w)]
            before = bare[:start]
            yield line + before.count("\n") + before.count("\1"), len(words), " ".join(words)
            start = end
