#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""litmus.py - can the exists clause of a litmus test come true under the kernel's memory model?

usage: litmus.py [--drop N] FILE...

For machines without herd7, and for the few instructions that *.litmus here use: marked reads and
writes, atomic operations with and without a value, the barriers, if. It tries every order of writes
and every source of each read, and keeps what the model's axioms allow: coherence, atomicity,
happens-before and propagates-before, with control dependencies but not data or address
dependencies. herd7 is the authority: check_models uses it where it is installed.

Prints a line per file. Exits with 1 if a result is not the one that the file says ("Result:
Never"). --drop removes the Nth barrier, or takes the ordering from the Nth operation that returns a
value, and turns the expectation round, unless the file says "Not needed alone: N". Exits with 2 if
there are not so many.
"""
import itertools
import re
import sys

ORDERED = r"(?:atomic_(?:inc_return|dec_return|add_return|sub_return)|xchg)"
BARRIER = re.compile(
    r"\bsmp_(mb|rmb|wmb|mb__before_atomic|mb__after_atomic)\(\);|\b" + ORDERED + r"\("
)
TOKEN = re.compile(r"\s*(\w+|[{}();=<>!]=?|&&|\|\||[-+*,])")


def parse(text):
    text = re.sub(r"\(\*.*?\*\)", "", text, flags=re.S)
    init = {
        k: int(v)
        for k, v in re.findall(r"(\w+)\s*=\s*(-?\d+);", text[text.index("{") : text.index("}")])
    }
    threads = []
    for m in re.finditer(r"P\d+\([^)]*\)\s*\{(.*?)\n\}", text, re.S):
        threads.append(block(tokens(m.group(1))))
    exists = re.search(r"exists\s*(\(.*\))", text, re.S).group(1)
    return init, threads, exists


def tokens(body):
    body = re.sub(r"\bint\s+(\w+)\s*;", "", body)
    return TOKEN.findall(re.sub(r"\bint\s+", "", body).replace("*", ""))


def block(toks):
    """Statements: ("if", condition, statements) or ("do", text)."""
    out = []
    while toks and toks[0] != "}":
        if toks[0] == "if":
            depth, i = 0, 1
            while True:
                depth += {"(": 1, ")": -1}.get(toks[i], 0)
                i += 1
                if not depth:
                    break
            condition = " ".join(toks[2:i - 1])
            del toks[:i]
            if toks[0] == "{":
                toks.pop(0)
                out.append(("if", condition, block(toks)))
                toks.pop(0)
            else:
                end = toks.index(";") + 1
                out.append(("if", condition, block(toks[:end])))
                del toks[:end]
        else:
            end = toks.index(";")
            out.append(("do", "".join(toks[:end])))
            del toks[:end + 1]
    return out


READ = re.compile(r"(?:(\w+)=)?(READ_ONCE|atomic_read)\((\w+)\)$")
WRITE = re.compile(r"(?:WRITE_ONCE|atomic_set)\((\w+),(-?\d+)\)$")
RMW = re.compile(
    r"(?:(\w+)=)?(weak_)?(atomic_(inc|dec|add|sub)(_return)?|xchg)"
    r"\((?:(-?\d+),)?(\w+)(?:,(-?\d+))?\)$"
)


def runs(statements, values, regs, events, ctrl):
    """All ways through a thread: each read gets each value that any location could have."""
    if not statements:
        yield events, regs
        return
    kind, *rest = statements[0]
    after = statements[1:]
    if kind == "if":
        taken = eval(rest[0], {}, regs)
        seen = frozenset(i for i, e in enumerate(events) if e[0] in ("R", "U"))
        yield from runs(rest[1] + after if taken else after, values, regs, events, ctrl | seen)
        return
    text = rest[0]
    m = re.fullmatch(r"smp_(\w+)\(\)", text)
    if m:
        name = "mb" if m.group(1).startswith("mb") else m.group(1)
        yield from runs(after, values, regs, events + [("F", name, None, None, None, ctrl)], ctrl)
        return
    m = re.fullmatch(r"(\w+)=(-?\d+)", text)
    if m:
        yield from runs(after, values, dict(regs, **{m.group(1): int(m.group(2))}), events, ctrl)
        return
    m = WRITE.match(text)
    if m:
        yield from runs(
            after, values, regs, events + [("W", m.group(1), None, int(m.group(2)), "", ctrl)], ctrl
        )
        return
    m = READ.match(text)
    if m:
        for v in values:
            yield from runs(after, values, dict(regs, **{m.group(1) or "_": v}),
                            events + [("R", m.group(3), v, None, "", ctrl)], ctrl)
        return
    m = RMW.match(text)
    if not m:
        raise SystemExit(f"not understood: {text}")
    full = (m.group(3) == "xchg" or bool(m.group(5))) and not m.group(2)
    for v in values:
        n = int(m.group(6) or m.group(8) or 1)
        new = n if m.group(3) == "xchg" else v + (-n if m.group(4) in ("dec", "sub") else n)
        result = v if m.group(3) == "xchg" else new
        more = [("U", m.group(7), v, new, "full" if full else "", ctrl)]
        if full:
            more = (
                [("F", "mb", None, None, None, ctrl)] + more + [("F", "mb", None, None, None, ctrl)]
            )
        yield from runs(
            after, values, dict(regs, **{m.group(1) or "_": result}), events + more, ctrl
        )


def closure(r):
    r = set(r)
    while True:
        more = {(a, d) for a, b in r for c, d in r if b == c} - r
        if not more:
            return r
        r |= more


def cyclic(r):
    return any(a == b for a, b in closure(r))


def seq(a, b):
    return {(x, z) for x, y in a for w, z in b if y == w}


def allowed(events, po, rf, co):
    """The axioms of the kernel's model, over events (thread, kind, location, ...)."""
    ident = {(i, i) for i in range(len(events))}
    same = lambda a, b: events[a][2] == events[b][2]
    is_r = lambda i: events[i][1] in "RU"
    is_w = lambda i: events[i][1] in "WUI"
    fr = {(r, w) for s, r in rf for t, w in co if s == t and r != w}
    ext = lambda rel: {(a, b) for a, b in rel if events[a][0] != events[b][0]}
    memory = {(a, b) for a, b in po if events[a][1] != "F" and events[b][1] != "F"}
    if cyclic({(a, b) for a, b in memory if same(a, b)} | rf | co | fr):
        return False
    if any(
        (s, w) in co and (w, u) in co
        for s, u in rf
        if events[u][1] == "U"
        for w in range(len(events))
        if w != u
    ):
        return False

    def fenced(kind):
        return {
            (a, b)
            for f, e in enumerate(events)
            if e[1] == "F" and e[2] == kind
            for a, x in po
            if x == f and events[a][1] != "F"
            for y, b in po
            if y == f and events[b][1] != "F"
        }
    mb = fenced("mb")
    rmb = {(a, b) for a, b in fenced("rmb") if is_r(a) and is_r(b)}
    wmb = {(a, b) for a, b in fenced("wmb") if is_w(a) and is_w(b)}
    dep = {(a, b) for a, b in memory if is_w(b) and a in events[b][6]}
    ppo = mb | rmb | wmb | dep | {(a, b) for a, b in memory if same(a, b) and is_w(b)}
    rfe = ext(rf)
    cumul = seq(rfe | ident, mb | wmb)
    overwrite = ext(co | fr)
    prop = seq(seq(overwrite | ident, closure(cumul) | ident), rfe | ident)
    hb = (
        ppo
        | rfe
        | {(a, b) for a, b in prop if a != b and events[a][0] == events[b][0] and events[a][0] >= 0}
    )
    if cyclic(hb):
        return False
    return not cyclic(seq(seq(prop, mb), closure(hb) | ident))


def sometimes(init, threads, exists):
    locations = sorted(
        {loc for t in threads for loc in re.findall(r"[(,]([a-z]\w*)[,)]", repr(t))} | set(init)
    )
    values = range(-2, 4)
    condition = re.sub(r"(\d+):(\w+)\s*=\s*(-?\d+)", r"(r[\1].get('\2') == \3)", exists)
    condition = re.sub(r"\b([a-z]\w*)\s*=\s*(-?\d+)", r"(last['\1'] == \2)", condition)
    condition = condition.replace("/\\", " and ").replace("\\/", " or ").replace("~", " not ")
    for combination in itertools.product(
        *[list(runs(t, values, {}, [], frozenset())) for t in threads]
    ):
        events = [(-1, "I", loc, None, init.get(loc, 0), "", frozenset()) for loc in locations]
        po = set()
        for number, (thread, _) in enumerate(combination):
            base = len(events)
            for k, l, old, new, how, ctrl in thread:
                events.append((number, k, l, old, new, how, frozenset(base + i for i in ctrl)))
            po |= {(a, b) for a in range(base, len(events)) for b in range(a + 1, len(events))}
        reads = [i for i, e in enumerate(events) if e[1] in "RU"]
        writes = {
            loc: [i for i, e in enumerate(events) if e[1] in "WUI" and e[2] == loc]
            for loc in locations
        }
        sources = [
            [w for w in writes[events[r][2]] if events[w][4] == events[r][3] and w != r]
            for r in reads
        ]
        if not all(sources):
            continue
        regs = [regs for _, regs in combination]
        orders = [[(w[0],) + p for p in itertools.permutations(w[1:])] for w in writes.values()]
        for source in itertools.product(*sources):
            for order in itertools.product(*orders):
                last = {loc: events[o[-1]][4] for loc, o in zip(writes, order)}
                if not eval(condition, {"r": regs, "last": last}):
                    continue
                co = {(a, b) for o in order for i, a in enumerate(o) for b in o[i + 1:]}
                if allowed(events, po, set(zip(source, reads)), co):
                    return True
    return False


def main():
    args, drop, status = sys.argv[1:], None, 0
    if args[:1] == ["--drop"]:
        drop, args = int(args[1]), args[2:]
    for path in args:
        with open(path) as f:
            text = f.read()
        want = re.search(r"Result: (\w+)", text).group(1)
        if drop is not None:
            at = list(BARRIER.finditer(text, text.index("\nP0")))
            if drop >= len(at):
                return 2
            m = at[drop]
            text = text[:m.start()] + ("" if m.group(1) else "weak_" + m.group()) + text[m.end():]
            spare = re.search(r"Not needed alone: ([\d ]+)", text)
            want = "Never" if spare and str(drop) in spare.group(1).split() else "Sometimes"
        got = "Sometimes" if sometimes(*parse(text)) else "Never"
        print(f"{'ok' if got == want else 'not ok'}: {path.rsplit('/', 1)[-1]}"
              f"{'' if drop is None else f' without barrier {drop}'}: {got}")
        status |= got != want
    return status


if __name__ == "__main__":
    sys.exit(main())
