# SPDX-License-Identifier: GPL-2.0
"""cases.py - for each rule of rules/, trees that it finds fault with, and trees that it passes

CASES is {rule: [({path: text}, [start of an offence's line])]}. GIT in place of a path has the
messages of commits, oldest first: the tree is a git checkout then, and a message's commit adds one
file, whose name stands before the message.
"""
GIT = "@git"
C = "// SPDX-License-Identifier: GPL-2.0\n"
PY = "# SPDX-License-Identifier: GPL-2.0\n"
SH = "#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0\n"
LONG = C + "static void f(void)\n{\n" + "\tx();\n" * 71 + "}\n"
ESSAY = C + "/*\n" + " * words\n" * 24 + " */\n"
HOOKS = ("static int a_init(struct request_queue *q, struct elevator_queue *eq)\n"
         "{\n\treturn 0;\n}\n\n"
         "static void a_insert(struct blk_mq_hw_ctx *h, struct list_head *l, blk_insert_t f)\n"
         "{\n}\n\n"
         "static void a_finish(struct request *rq)\n{\n}\n\n")
SWAPPED = HOOKS.replace("a_insert", "@").replace("a_init", "a_insert").replace("@", "a_init")
TABLE = ("static struct elevator_type a = {\n\t.ops = {\n"
         "\t\t.init_sched = MQFAIR_INIT_SCHED(a_init),\n"
         "\t\t.insert_requests = a_insert,\n\t\t.finish_request = a_finish,\n\t},\n};\n")
ATTRS = ("static struct elv_fs_entry a_attrs[] = {\n\tA_ATTR(depth),\n"
         "\t__ATTR(max_wait_ns, 0644, s, t),\n\t__ATTR_NULL\n};\n")
ABI = "What:\t\t/sys/block/<disk>/queue/iosched/{}\nDescription:\n\t\tWords.\n\n"
RST = "{}\n{}\n\nWords.\n\n"

DKMS = {"dkms.conf": 'PACKAGE_VERSION="0.2"\nBUILD_EXCLUSIVE_KERNEL_MIN="6.12"\n'
                     'BUILD_EXCLUSIVE_KERNEL_MAX="7.3.999"\nBUILT_MODULE_NAME[0]="mq-a"\n',
        "CHANGELOG.md": "# Changelog\n\n## 0.2, unreleased\n",
        "SUPPORTED": "Minimum: 6.12\nMaximum: 7.3\n", "mq-a/Kbuild": "obj-m := mq-a.o\n",
        "tools/package/switch-away": SH + "modprobe -r mq-a\n"}


SIGNED = "Signed-off-by: A <a@example.org>\n"
TWO_COLUMNS = "== " + "=" * 100 + "\na  " + "word " * 40 + "\n== " + "=" * 100 + "\n"


def headings(*names):
    return "".join(RST.format(n, "-" * len(n)) for n in names)


# rule: [({path: text}, [start of an offence's line])]
CASES = {
    "barriers": [
        ({"mq-a/a.c": C + "void f(void)\n{\n\tsmp_mb();\n}\n"}, ["mq-a/a.c:4:"]),
        ({"lib/a.c": C + "void f(void)\n{\n\tx = atomic_cmpxchg(&a, 0, 1);\n"
                     "\ty = atomic_read_acquire(&b);\n}\n"},
         ["lib/a.c:4:", "lib/a.c:5:"]),
        ({"mq-a/a.c": C + "void f(void)\n{\n\t/* Pairs with g(). */\n\tsmp_mb();\n"
                      "\ta_release(&x);\n\tmutex_lock(&y);\n}\n"}, []),
    ],
    "bug_on": [
        ({"mq-a/a.c": C + "void f(void)\n{\n\tBUG_ON(x);\n\tVM_BUG_ON(y);\n}\n"},
         ["mq-a/a.c:4:", "mq-a/a.c:5:"]),
        ({"lib/a.c": C + "/* no BUG_ON() here */\nvoid f(void)\n{\n\tWARN_ON_ONCE(x);\n"
                     "\tBUILD_BUG_ON(y);\n}\n"}, []),
    ],
    "checkpatch": [
        ({"lib/a.c": C + "void f(void)\n{\n\tif(x) y();\n}\n"}, ["lib/a.c:4:", "lib/a.c:4:"]),
        ({"lib/a.c": C + "void f(void)\n{\n\tif (x)\n\t\ty();\n}\n"}, []),
    ],
    "dkms": [
        ({**DKMS, "dkms.conf": DKMS["dkms.conf"].replace("7.3.999", "7.2").replace("mq-a", "mq-b"),
          "CHANGELOG.md": "## 0.3, unreleased\n", "tools/package/switch-away": SH},
         ["dkms.conf:1: the newest", "dkms.conf:3: SUPPORTED", "dkms.conf:4: modules are mq-b",
          "tools/package/switch-away:1:"]),
        (DKMS, []),
    ],
    "function_length": [
        ({"lib/a.c": LONG}, ["lib/a.c:3: f has 71 lines"]),
        ({"lib/a.c": LONG.replace("static", "/* Longer than 70 lines: one list. */\nstatic")}, []),
        ({"lib/a.c": LONG.replace("\tx();\n", "", 1)}, []),
        ({"a.py": PY + "def f():\n" + "    x()\n" * 71}, ["a.py:2:"]),
    ],
    "kernel_version": [
        ({"mq-a/a.c": C + "#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)\n#endif\n"},
         ["mq-a/a.c:2:", "mq-a/a.c:2:"]),
        ({"compat/a.h": "#if LINUX_VERSION_CODE\n#endif\n",
          "lib/a.c": C + "/* LINUX_VERSION_CODE lies */\n"}, []),
    ],
    "leftovers": [
        ({"a.md": "first\n" + "TO" + "DO: the rest\n", "b.sh": SH + "# FIX" + "ME\n"},
         ["a.md:2:", "b.sh:3:"]),
        ({"a.md": "to do is not to be\n"}, []),
    ],
    "manual": [
        ({"README.md": "Words:\n\n```\nmake\n```\n\n"
                       "<!-- run by: k2/a -->\n```\nmake test\n```\n",
          "Documentation/a.rst": "Words::\n\n\t$ make\n\nWords.\n"},
         ["Documentation/a.rst:1:", "README.md:3:", "README.md:8:"]),
        ({"README.md": "<!-- run by: k2/a mq-a -->\n```\nmake\n```\n\n```text\nmake\n```\n",
          "tools/test/guest-tests/k2/a": "tools/test/manual k2/a /tmp/a\n",
          "Documentation/a.rst": ".. example: why\n\nTwo lines\nof words::\n\n\tmake\n\n"
                                 ".. run by: k2/a\n\n::\n\n\techo a\n\n"
                                 "A table::\n\n\ta  b\n\t1  2\n"},
         []),
        ({"Documentation/a.rst": ".. example: why\n\nWords.\n\nMore::\n\n\tmake\n",
          "Documentation/b/a.rst": "Words::\n\n\tmake\n"},
         ["Documentation/a.rst:5:", "Documentation/b/a.rst:1:"]),
    ],
    "module_params": [
        ({"tools/a/a.c": C + "module_param(size, int, 0);\n"},
         ["tools/a/a.c:2:", "tools/a/a.c:2:"]),
        ({"tools/a/a.c": C + 'module_param_named(size, s, int, 0);\n'
                         'MODULE_PARM_DESC(size, "bytes");\n',
          "Documentation/a.rst": "size is in bytes\n"}, []),
    ],
    "private_layouts": [
        ({"mq-a/a.h": "struct elv_fs_entry {\n\tint x;\n};\n",
          "mq-a/a.c": C + "extern int elv_register(struct e *);\n"},
         ["mq-a/a.c:2:", "mq-a/a.h:1:"]),
        ({"compat/a.h": "struct elv_fs_entry {\n\tint x;\n};\n",
          "mq-a/a.h": "struct a_data {\n\tstruct request *r;\n};\n"}, []),
    ],
    "section_order": [
        ({"mq-a/a.c": ESSAY + SWAPPED + TABLE}, ["mq-a/a.c:33:"]),
        ({"mq-a/a.c": C + HOOKS + TABLE}, ["mq-a/a.c:1:"]),
        ({"mq-a/a.c": ESSAY + HOOKS + TABLE + ATTRS}, ["mq-a/a.c:48:"]),
        ({"mq-a/a.c": ESSAY + HOOKS + ATTRS + TABLE}, []),
    ],
    "shellcheck": [
        ({"a.sh": SH + "cd $1\n", "b": SH + "[ $1 == 2 ]\n"}, ["a.sh:3:", "b:3:"]),
        ({"a.sh": SH + 'cd "$1" || exit\n'}, []),
    ],
    "sparse": [],
    "spdx": [
        ({"a.c": "int x;\n", "b.h": C, "c": "#!/bin/sh\ntrue\n", "Makefile": "all:\n"},
         ["Makefile:1:", "a.c:1:", "b.h:1:", "c:1:"]),
        ({"a.c": C, "b": SH, "c.md": "words\n"}, []),
    ],
    "tunables": [
        ({"mq-a/a.c": C + ATTRS, "Documentation/reference/mq-a.rst": headings("depth"),
          "Documentation/reference/ABI/sysfs-block-mq-a":
          ABI.format("max_wait_ns") + ABI.format("gone")},
         ["Documentation/reference/ABI/sysfs-block-mq-a:5:", "mq-a/a.c:3: depth has no entry",
          "mq-a/a.c:4: max_wait_ns has no heading"]),
        ({"mq-a/a.c": C + ATTRS,
          "Documentation/reference/mq-a.rst": headings("``depth`` (requests)", "max_wait_ns"),
          "Documentation/reference/ABI/sysfs-block-mq-a":
          ABI.format("max_wait_ns") + ABI.format("depth")},
         []),
    ],
}

# sparse builds modules: a module of one file, good and bad, in a tree with our build system.
MODULE = C + '#include <linux/module.h>\n{}MODULE_LICENSE("GPL");\nMODULE_DESCRIPTION("a");\n'
KBUILD = "# SPDX-License-Identifier: GPL-2.0\nobj-$(CONFIG_MQ_IOSCHED_K2) += mq-k2.o\n"
BUILD_FILES = ("Makefile", "Kbuild", "SUPPORTED", "compat")


