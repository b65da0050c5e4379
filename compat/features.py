#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""features.py - asks a kernel what it has, and prints features.h

    features.py btf VMLINUX     out-of-tree build: looks into the kernel image's type information
    features.py tree SRCTREE    in-tree build: searches the headers of the kernel's sources

Every stable kernel has backports, so its version says little about what it has. Each feature is one
entry of the table below with both questions, a BTF lookup and a pattern in a header. The lookups:
("func", NAME), there is such a function; ("member", STRUCT, NAME), such a member; and ("type",
STRUCT, NAME, TEXT), there is one and TEXT is in its type, written as C.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import btf  # noqa: E402

# macro, meaning, BTF question, (header, pattern)
FEATURES = [
    ("HAVE_ELV_CONST_ATTRS", "the tunables of a scheduler are const",
     ("type", "elevator_type", "elevator_attrs", "const struct"),
     ("block/elevator.h", r"\bconst struct elv_fs_entry \*elevator_attrs")),
    ("HAVE_ELV_INIT_QUEUE", "the block layer allocates elevator_queue, and init_sched() takes it",
     ("type", "elevator_mq_ops", "init_sched", "struct elevator_queue *"),
     ("block/elevator.h", r"\(\*init_sched\)\(struct request_queue \*, struct elevator_queue \*")),
    ("HAVE_ELV_TAGS", "elevator_queue holds its tags", ("member", "elevator_queue", "et"),
     ("block/elevator.h", r"\bstruct elevator_tags \*et;\s+void \*elevator_data")),
    ("HAVE_ELV_DEPTH_OF_QUEUE", "depth_updated() takes the request queue",
     ("type", "elevator_mq_ops", "depth_updated", "struct request_queue *"),
     ("block/elevator.h", r"\(\*depth_updated\)\(struct request_queue \*")),
    ("HAVE_ELV_ALLOC_SCHED_DATA", "hooks that allocate and free the scheduler's data",
     ("member", "elevator_mq_ops", "alloc_sched_data"),
     ("block/elevator.h", r"\(\*alloc_sched_data\)")),
    ("HAVE_FREEZE_QUEUE_MEMFLAGS",
     "blk_mq_freeze_queue() returns what blk_mq_unfreeze_queue() takes",
     ("func", "blk_mq_freeze_queue_nomemsave"),
     ("include/linux/blk-mq.h", r"\bblk_mq_freeze_queue_nomemsave\(")),
    ("HAVE_ELV_CHANGE_CTX",
     "a scheduler's debugfs files are removed after its exit_sched(), and without elevator_lock",
     ("member", "elv_change_ctx", "name"), ("block/elevator.c", r"\belevator_change_done\(")),
    ("HAVE_HRTIMER_SETUP", "hrtimer_setup() replaces hrtimer_init()",
     ("func", "hrtimer_setup"), ("include/linux/hrtimer.h", r"\bhrtimer_setup\(")),
]


def ask_btf(image, question):
    if question[0] == "func":
        return bool(image.find("func", question[1]))
    return any(name == question[2] and "".join(question[3:]) in image.text(typ)
               for t in image.find("struct", question[1])
               for name, typ, _, _ in image.members(t))


def ask_tree(srctree, question):
    try:
        with open(os.path.join(srctree, question[0]), encoding="utf-8") as f:
            return re.search(question[1], f.read()) is not None
    except OSError as e:
        raise btf.BtfError(f"cannot read {srctree}/{question[0]}: {e.strerror}") from e


def main(argv):
    if len(argv) != 3 or argv[1] not in ("btf", "tree"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        image = btf.Btf(argv[2], [f[2][1] for f in FEATURES]) if argv[1] == "btf" else None
        print("/* SPDX-License-Identifier: GPL-2.0 */\n"
              "/* Written by compat/features.py from what the kernel has. */")
        for macro, meaning, in_btf, in_tree in FEATURES:
            have = ask_btf(image, in_btf) if image else ask_tree(argv[2], in_tree)
            print(f"\n/* {meaning} */\n"
                  + (f"#define {macro} 1" if have else f"/* #undef {macro} */"))
    except btf.BtfError as e:
        print(f"features: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
