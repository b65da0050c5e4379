# SPDX-License-Identifier: GPL-2.0
"""A kernel's type information that can be altered: kernels that are not at hand, or that none is

Members are dropped and given other types; what follows them moves, also in the structures that
embed theirs.
"""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../compat"))
sys.dont_write_bytecode = True
import btf      # noqa: E402

POINTER_BITS = 64
NAMES = ("elevator_mq_ops", "elevator_type", "elevator_queue", "elv_fs_entry", "request_queue",
         "blk_mq_hw_ctx", "elevator_alloc", "elv_register")


class Types(btf.Btf):
    """The types of an image, as records that can be altered and written."""

    def __init__(self, path):
        super().__init__(path, NAMES)
        ends = [*self.starts[2:], len(self.words)]
        self.records = [[], *(list(self.words[start:end])
                              for start, end in zip(self.starts[1:], ends))]

    def one(self, space, name):
        found = self.find(space, name)
        if len(found) != 1:
            sys.exit(f"altered_types: {len(found)} types {space} {name}, where one was expected")
        return found[0]

    def add(self, kind, ref, tail=(), vlen=0):
        """A new type without a name; returns its number."""
        self.records.append([0, kind << 24 | vlen, ref, *tail])
        return len(self.records) - 1

    def pointer(self, target):
        return self.add(btf.PTR, target)

    def hook(self, result, *params):
        """A pointer to a function."""
        tail = [word for param in params for word in (0, param)]
        return self.pointer(self.add(btf.FUNC_PROTO, result, tail, len(params)))

    def place(self, owner, member):
        """Where the record of @owner has @member: the index of its first word."""
        record = self.records[owner]
        for at in range(3, len(record), 3):
            if self.string(record[at]) == member:
                return at
        return sys.exit(f"altered_types: {self.name(owner)} has no member {member}")

    def embedding(self, inner):
        """(number, index in its record) of the members that are an @inner, not a pointer to one."""
        for owner, record in enumerate(self.records):
            if owner and record[1] >> 24 & 31 == btf.STRUCT:
                for at in range(3, len(record), 3):
                    if record[at + 1] == inner:
                        yield owner, at

    def grow(self, owner, start, bits):
        """Members of @owner from word @start on move by @bits, as does what embeds @owner."""
        record = self.records[owner]
        for at in range(start, len(record), 3):
            record[at + 2] += bits
        record[2] += bits // 8
        for outer, at in list(self.embedding(owner)):
            self.grow(outer, at + 3, bits)

    def drop(self, owner, member):
        """Takes a member of the size of a pointer away."""
        at, record = self.place(owner, member), self.records[owner]
        del record[at:at + 3]
        record[1] -= 1
        self.grow(owner, at, -POINTER_BITS)

    def retype(self, owner, member, typ):
        self.records[owner][self.place(owner, member) + 1] = typ

    def write(self, path):
        types = b"".join(struct.pack(f"<{len(r)}I", *r) for r in self.records)
        head = struct.pack("<HBBIIIII", 0xeb9f, 1, 0, 24, 0, len(types), len(types),
                           len(self.strings))
        with open(path, "wb") as handle:
            handle.write(head + types + self.strings)


def half_of_the_hooks(types):
    """A form that no kernel has: an elevator without the second of a pair of hooks."""
    types.drop(types.one("struct", "elevator_mq_ops"), "free_sched_data")
