# SPDX-License-Identifier: GPL-2.0
"""btf.py - reads BTF, the type information of a kernel image, and compares types of two images

BTF is a table of type records, numbered from 1, and a table of strings. Records refer to each other
by number. A kernel has some 150000 of them. To stay well under a second in Python, opening an image
walks the records once to learn where each starts. Only the records that the caller will ask for are
collected by name. Everything else is decoded when a comparison reaches it.

Two types are equal when a compiler would lay them out and type-check them alike:

 - integers agree in name, width and signedness, arrays in length;
 - pointers and functions agree in everything that they mention, parameter by parameter;
 - typedefs and qualifiers agree too, which is stricter than layout needs;
 - an embedded structure is compared member by member, a pointed-to structure by its name (one that
   we declare is on the list of types to compare, and is compared there);
 - what no layout depends on is ignored: names of parameters, annotations such as __user, and
   whether a type that is only pointed to is complete.

Format: Documentation/bpf/btf.rst in the kernel's sources.
"""
import struct

(INT, PTR, ARRAY, STRUCT, UNION, ENUM, FWD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNC, FUNC_PROTO,
 VAR, DATASEC, FLOAT, DECL_TAG, TYPE_TAG, ENUM64) = range(1, 20)

# Words that follow the three of each record: a fixed number, and a number per member.
FIXED = {INT: 1, ARRAY: 3, VAR: 1, DECL_TAG: 1}
PER_MEMBER = {STRUCT: 3, UNION: 3, ENUM: 2, FUNC_PROTO: 2, DATASEC: 3, ENUM64: 3}

QUALIFIERS = {VOLATILE: "volatile", CONST: "const", RESTRICT: "restrict"}
# Name spaces of C: a structure and a typedef may have the same name.
SPACES = {STRUCT: "struct", UNION: "union", ENUM: "enum", ENUM64: "enum", FWD: "struct",
          TYPEDEF: "typedef", FUNC: "func", VAR: "var"}

SIGNED, CHAR, BOOL = 1, 2, 4


class BtfError(Exception):
    """The file cannot be used; the text is a sentence for the user."""


def elf_section(data, wanted):
    """Returns the bytes of an ELF section, or None if there is none of that name."""
    if data[:4] != b"\x7fELF":
        return None
    end = "<" if data[5] == 1 else ">"
    if data[4] == 2:
        shoff, = struct.unpack_from(end + "Q", data, 40)
        shentsize, shnum, shstrndx = struct.unpack_from(end + "HHH", data, 58)
        fmt, where = end + "IIQQQQ", (0, 4, 5)
    else:
        shoff, = struct.unpack_from(end + "I", data, 32)
        shentsize, shnum, shstrndx = struct.unpack_from(end + "HHH", data, 46)
        fmt, where = end + "IIIIII", (0, 4, 5)
    heads = []
    for i in range(shnum):
        fields = struct.unpack_from(fmt, data, shoff + i * shentsize)
        heads.append([fields[w] for w in where])
    names = heads[shstrndx][1] if shnum else 0
    for name, offset, size in heads:
        start = names + name
        if data[start:data.index(b"\0", start)] == wanted:
            return data[offset:offset + size]
    return None


class Btf:
    """The types of one image. @names limits what can be looked up by name; None stands for all."""

    def __init__(self, path, names=None):
        try:
            with open(path, "rb") as f:
                data = f.read()
        except OSError as e:
            raise BtfError(f"cannot read {path}: {e.strerror}") from e
        try:
            blob = data if data[:2] in (b"\x9f\xeb", b"\xeb\x9f") else elf_section(data, b".BTF")
            if not blob:
                raise BtfError(f"{path} has no BTF section")
            self._load(blob)
            self._index(names)
        except (struct.error, IndexError, ValueError) as e:
            raise BtfError(f"{path} is damaged or cut short") from e

    def _load(self, blob):
        """Takes the header apart, finds the two tables."""
        end = "<" if blob[:2] == b"\x9f\xeb" else ">"
        header = struct.unpack_from(end + "IIIII", blob, 4)
        header_len, type_off, type_len, str_off, str_len = header
        types = blob[header_len + type_off:header_len + type_off + type_len]
        self.words = struct.unpack(f"{end}{type_len // 4}I", types)
        self.strings = blob[header_len + str_off:header_len + str_off + str_len]

    def _index(self, names):
        """Finds where each record starts, and which records carry one of @names."""
        wanted = None
        if names is not None:
            wanted = set()
            for name in names:
                needle, at = name.encode() + b"\0", -1
                while (at := self.strings.find(needle, at + 1)) >= 0:
                    wanted.add(at)
        words, total = self.words, len(self.words)
        starts, self.by_name, pos = [0], {}, 0
        fixed = [FIXED.get(k, 0) + 3 for k in range(32)]
        per_member = [PER_MEMBER.get(k, 0) for k in range(32)]
        while pos < total:
            info = words[pos + 1]
            kind = info >> 24 & 31
            if kind > ENUM64 or not kind:
                raise BtfError(f"record {len(starts)} of the BTF is of unknown kind {kind}: "
                               "compat/btf.py must learn it")
            if words[pos] and (wanted is None or words[pos] in wanted) and kind in SPACES:
                key = (SPACES[kind], self.string(words[pos]))
                self.by_name.setdefault(key, []).append(len(starts))
            starts.append(pos)
            pos += fixed[kind] + per_member[kind] * (info & 0xffff)
        self.starts = starts

    def string(self, offset):
        return self.strings[offset:self.strings.index(b"\0", offset)].decode()

    def find(self, space, name):
        """Numbers of the complete types of that name."""
        return [t for t in self.by_name.get((space, name), []) if self.kind(t) != FWD]

    def kind(self, t):
        return self.words[self.starts[t] + 1] >> 24 & 31 if t else 0

    def name(self, t):
        return self.string(self.words[self.starts[t]]) if t else "void"

    def vlen(self, t):
        return self.words[self.starts[t] + 1] & 0xffff

    def kind_flag(self, t):
        return self.words[self.starts[t] + 1] >> 31

    def size(self, t):
        return self.words[self.starts[t] + 2]

    def ref(self, t):
        """The type that a pointer, typedef, qualifier, function, or function's return refers to."""
        return self.words[self.starts[t] + 2]

    def encoding(self, t):
        """Of an integer: (kind of integer, bits)."""
        word = self.words[self.starts[t] + 3]
        return word >> 24 & 15, word & 0xff

    def array(self, t):
        at = self.starts[t] + 3
        return self.words[at], self.words[at + 2]

    def members(self, t):
        """Of a struct or union: (name, type, bit offset, bit-field width or 0) in order."""
        at, flag = self.starts[t] + 3, self.kind_flag(t)
        for i in range(self.vlen(t)):
            name, typ, off = self.words[at + 3 * i:at + 3 * i + 3]
            yield (self.string(name), typ, *((off & 0xffffff, off >> 24) if flag else (off, 0)))

    def params(self, t):
        """The types of a prototype's parameters; a nameless 0 at the end stands for '...'."""
        at = self.starts[t] + 3
        return [self.words[at + 2 * i + 1] for i in range(self.vlen(t))]

    def values(self, t):
        """Of an enum: {name: value modulo 2**32 or 2**64}."""
        at, wide = self.starts[t] + 3, self.kind(t) == ENUM64
        step = 3 if wide else 2
        out = {}
        for i in range(self.vlen(t)):
            record = self.words[at + step * i:at + step * i + step]
            out[self.string(record[0])] = record[1] | (record[2] << 32 if wide else 0)
        return out

    def skip_tags(self, t):
        while self.kind(t) == TYPE_TAG:
            t = self.ref(t)
        return t

    def text(self, t, inner=""):
        """The type as a C declaration of @inner."""
        t = self.skip_tags(t)
        kind = self.kind(t)
        if not t:
            return f"void {inner}".rstrip()
        if kind == PTR:
            target = self.skip_tags(self.ref(t))
            if self.kind(target) in (FUNC_PROTO, ARRAY):
                return self.text(target, f"(*{inner})")
            return self.text(target, f"*{inner}")
        if kind == ARRAY:
            element, count = self.array(t)
            return self.text(element, f"{inner}[{count}]")
        if kind == FUNC_PROTO:
            params = ", ".join(self.text(p) if p else "..." for p in self.params(t)) or "void"
            return self.text(self.ref(t), f"{inner}({params})")
        if kind in QUALIFIERS:
            if self.kind(self.skip_tags(self.ref(t))) == PTR:
                return self.text(self.ref(t), f"{QUALIFIERS[kind]} {inner}".rstrip())
            return f"{QUALIFIERS[kind]} {self.text(self.ref(t), inner)}"
        word = {STRUCT: "struct ", UNION: "union ", ENUM: "enum ", ENUM64: "enum "}.get(kind, "")
        if kind == FWD:
            word = "union " if self.kind_flag(t) else "struct "
        name = self.name(t)
        if not name and kind in (STRUCT, UNION):
            name = "{" + ", ".join(m[0] for m in self.members(t)) + "}"
        return f"{word}{name} {inner}".rstrip()


class Mismatch(Exception):
    """Two types differ. path: the members that lead to the difference, outermost first."""

    def __init__(self, path, what):
        super().__init__(what)
        self.path, self.what = path, what


class Comparer:
    """Compares types of @ours with types of @theirs; remembers the pairs that were equal."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs, self.equal = ours, theirs, set()

    def differ(self, path, what, a, b):
        raise Mismatch(path, f"{what}: ours is '{self.ours.text(a)}', "
                             f"the kernel's is '{self.theirs.text(b)}'")

    def compare(self, a, b, path=(), pointee=False):
        """Returns if the types are equal, raises Mismatch if not."""
        ours, theirs = self.ours, self.theirs
        a, b = ours.skip_tags(a), theirs.skip_tags(b)
        if (a, b, pointee) in self.equal:
            return
        kinds = [FWD if pointee and k in (STRUCT, UNION, FWD) and n.name(t) else k
                 for n, t, k in ((ours, a, ours.kind(a)), (theirs, b, theirs.kind(b)))]
        if kinds[0] != kinds[1]:
            self.differ(path, "types differ", a, b)
        self.equal.add((a, b, pointee))
        try:
            if kinds[0] in (TYPEDEF, *QUALIFIERS):
                self.transparent(a, b, path, pointee)
            else:
                self.COMPARE.get(kinds[0], Comparer.nothing)(self, a, b, path)
        except Mismatch:
            self.equal.discard((a, b, pointee))
            raise

    def nothing(self, a, b, path):
        if a or b:
            raise Mismatch(path, "a kind of type that no C declaration has")

    def int_(self, a, b, path):
        def facts(btf, t):
            words = set(btf.name(t).split())
            enc, bits = btf.encoding(t)
            return (words - {"int"} or words, btf.size(t), bits, enc & BOOL,
                    words == {"char"} or enc & SIGNED)
        if facts(self.ours, a) != facts(self.theirs, b):
            self.differ(path, "integers differ", a, b)

    def float_(self, a, b, path):
        if (self.ours.name(a), self.ours.size(a)) != (self.theirs.name(b), self.theirs.size(b)):
            self.differ(path, "types differ", a, b)

    def pointer(self, a, b, path):
        try:
            self.compare(self.ours.ref(a), self.theirs.ref(b), path, pointee=True)
        except Mismatch as e:
            if e.path == path:
                self.differ(path, "pointers differ", a, b)
            raise

    def array_(self, a, b, path):
        (ea, na), (eb, nb) = self.ours.array(a), self.theirs.array(b)
        if na != nb:
            self.differ(path, "lengths of the array differ", a, b)
        self.compare(ea, eb, path)

    def named(self, a, b, path):
        """Pointed-to structures and unions: same word, same name."""
        if self.ours.text(a) != self.theirs.text(b):
            self.differ(path, "types differ", a, b)

    def record(self, a, b, path):
        ours, theirs = self.ours, self.theirs
        if ours.name(a) != theirs.name(b):
            self.differ(path, "types differ", a, b)
        sizes = f"size: ours is {ours.size(a)} bytes, the kernel's is {theirs.size(b)}"
        for ma, mb in zip(ours.members(a), theirs.members(b)):
            here = path + (ma[0],)
            if ma[0] != mb[0]:
                raise Mismatch(here, f"the kernel has '{theirs.text(mb[1], mb[0])}' in this place")
            if ma[2:] != mb[2:]:
                raise Mismatch(here, "offset: ours is {}, the kernel's is {}".format(*(
                    f"{m[2] // 8}" + (f" bit {m[2] % 8} width {m[3]}" if m[3] or m[2] % 8 else "")
                    for m in (ma, mb))))
            self.compare(ma[1], mb[1], here)
        na, nb = ours.vlen(a), theirs.vlen(b)
        if na != nb:
            btf, t, owner = (ours, a, "we have") if na > nb else (theirs, b, "the kernel has")
            extra = list(btf.members(t))[min(na, nb)]
            raise Mismatch(path + (extra[0],), f"only {owner} this member; {sizes}")
        if ours.size(a) != theirs.size(b):
            raise Mismatch(path, sizes)

    def enum_(self, a, b, path):
        ours, theirs = self.ours, self.theirs
        if ours.name(a) != theirs.name(b) or ours.size(a) != theirs.size(b):
            self.differ(path, "enums differ", a, b)
        va, vb = ours.values(a), theirs.values(b)
        for name in [n for n in vb if va.get(n) != vb[n]] + [n for n in va if n not in vb]:
            raise Mismatch(path + (name,),
                           f"value: ours is {va.get(name, 'missing')}, "
                           f"the kernel's is {vb.get(name, 'missing')}")

    def reference(self, a, b, path):
        self.compare(self.ours.ref(a), self.theirs.ref(b), path)

    def transparent(self, a, b, path, pointee):
        """Typedefs and qualifiers: @pointee holds for the type behind them, too."""
        if self.ours.name(a) != self.theirs.name(b):
            self.differ(path, "types differ", a, b)
        self.compare(self.ours.ref(a), self.theirs.ref(b), path, pointee)

    def prototype(self, a, b, path):
        pa, pb = self.ours.params(a), self.theirs.params(b)
        if len(pa) != len(pb):
            self.differ(path, "numbers of parameters differ", a, b)
        try:
            self.compare(self.ours.ref(a), self.theirs.ref(b), path)
            for x, y in zip(pa, pb):
                self.compare(x, y, path)
        except Mismatch as e:
            if e.path == path:
                self.differ(path, "prototypes differ", a, b)
            raise

    COMPARE = {INT: int_, FLOAT: float_, PTR: pointer, ARRAY: array_, STRUCT: record, UNION: record,
               FWD: named, ENUM: enum_, ENUM64: enum_, FUNC_PROTO: prototype, FUNC: reference}
