# SPDX-License-Identifier: GPL-2.0
"""cases.py - for each rule of rules/, trees with offences, and trees without

CASES is {rule: [({path: text}, [start of an offence's line])]}. A tree with GIT in place of a path
is a git checkout. GIT has pairs of a file and a message, oldest first: the commit with this message
adds this file.
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
        "tools/package/switch-away": SH + "modprobe -r mq-a\n",
        "tools/package/PKGBUILD": "pkgver=0.2\n", "tools/package/mqfair.spec": "Version:\t0.2\n"}


SIGNED = "Signed-off-by: A <a@example.org>\n"
WORDS = "word " * 40
TABLE_RST = "== " + "=" * 100 + f"\na  {WORDS}\n== " + "=" * 100 + "\n"
# The words that plain_english forbids, so that this file has none of them.
WHO, AGAIN, HE = "who" + "m", "a" + "new", "h" + "e"
OCTOKV = "tools/octokv/"
SCHEDULER = {f"mq-k2/{name}": C for name in (
    "k2.c", "k2_policy.c", "k2_policy.h", "k2_sysfs.c", "k2_debugfs.c", "trace.h",
    "k2_tuner.c")}


def body(name, *calls):
    """A C function that calls others."""
    return f"void {name}(void)\n{{\n" + "".join(f"\t{call}();\n" for call in calls) + "}\n"


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
    "comment_names": [
        ({"lib/a.c": C + "/* Pairs with gone() and b_one(). */\n/* See b.h, lib/b.h and c.h. */\n",
          "lib/b.h": "int b_one(void);\n", "tools/check/outside_names": "sched\nfree()\n"},
         ["lib/a.c:2: gone()", "lib/a.c:3: c.h", "tools/check/outside_names:1: is not sorted",
          "tools/check/outside_names:1: no file", "tools/check/outside_names:2: no file"]),
        ({"lib/a.c": C + "/*\n * Pairs with _one(), p->ops->two() and free().\n"
                     " * See ../x/b.h.\n */\nx = f->two(1);\n",
          "x/b.h": "int b_one(void);\n", "tools/check/outside_names": "free()\n"},
         []),
    ],
    "commits": [
        ({GIT: ["a", "first\n", "a.c", "lib: add a\n\nIt is needed.\n\n" + SIGNED,
                "b.c", "lib: add b; and c\n\nBoth are needed.\n\n" + SIGNED,
                "c.c", "lib: add c\n\n" + SIGNED, "d.c", "lib: add d\n\nIt is needed.\n",
                "e.md", "Add e\n\n" + SIGNED, "f.md", f"lib: {WORDS}\n\n" + SIGNED]},
         ["lib: add b; and c:", "lib: add c:", "lib: add d:", "Add e:", "lib: word"]),
        ({GIT: ["a", "first\n", "a.c", "lib, mq-a: add a\n\nIt is needed.\n\n" + SIGNED,
                "Documentation/a", "a: say b\n\n" + SIGNED]},
         []),
    ],
    "dkms": [
        ({**DKMS, "dkms.conf": DKMS["dkms.conf"].replace("7.3.999", "7.2").replace("mq-a", "mq-b"),
          "CHANGELOG.md": "## 0.3, unreleased\n", "tools/package/switch-away": SH,
          "tools/package/PKGBUILD": "pkgname=a\npkgver=0.1\n"},
         ["dkms.conf:1: the newest", "dkms.conf:3: SUPPORTED", "dkms.conf:4: modules are mq-b",
          "tools/package/switch-away:1:", "tools/package/PKGBUILD:2: the version"]),
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
    "line_length": [
        ({"a.c": C + "\t" * 12 + "a b c\n", "b.md": f"{WORDS}\n",
          "c.rst": TABLE_RST + f"\n{WORDS}\n"},
         ["a.c:2: 101 columns", "b.md:1:", "c.rst:5:"]),
        ({"a.c": C + "\t" * 12 + "a bc\n", "b.md": f"| {WORDS} |\n", "c.rst": TABLE_RST,
          "d.json": WORDS, "e.sh": SH + "# https://example.org/" + "a" * 90 + "\n"},
         []),
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
    "old_names": [
        ({"README.md": "See tools/b and lib/a.\n", "lib/a.h": C + "/* guest test " + "012 */\n",
          "a.sh": SH + "cat compat/{a,b}.h\n# k2_" + "adapt\n", "compat/a.h": C,
          "b.py": PY + "# c/a.h and b.c, but not a.h or NAME.c; every/" + "012\n"},
         ["README.md:1: there is no tools/b", "a.sh:3: there is no compat/{a,b}.h", "a.sh:4:",
          "b.py:2: every/", "b.py:2: no file is called b.c", "b.py:2: no file is called c/a.h",
          "lib/a.h:2:"]),
        ({"README.md": "lib/*.h lib/NAME tools/$x tools/<x> tools/test_b lib/a.o tools/outside\n",
          "lib/a.h": C, "tools/test/guest-tests/tools/test_b": SH, ".gitignore": "*.o\n",
          "tools/check/outside_names": "tools/outside\n"},
         []),
    ],
    "plain_english": [
        ({"a.c": C + f"/* The queue for {WHO}. */\n/* Measured " + "is the depth. */\n",
          "b.py": PY + f'"""b - runs {AGAIN}; Not done ' + f'is this. And then {HE} waits."""\n',
          "README.md": f"# Title\n\nOne.\nThe {WORDS}.\n",
          "Documentation/a.rst": f"Title\n=====\n\n- one\n- {WORDS}\n\n  {WORDS}\n",
          "Documentation/b.rst": f".. list-table::\n   :widths: 1 2\n\n   * - a\n     - {WORDS}\n",
          "tools/man/a.8": f".SH NAME\n.TP\n.B a\n{WORDS}\n"},
         ["a.c:2:", "a.c:3:", "b.py:2:", "b.py:2:", "b.py:2:", "README.md:4:",
          "Documentation/a.rst:5:", "Documentation/a.rst:7:", "Documentation/b.rst:5:",
          "tools/man/a.8:4:"]),
        ({"a.c": C + "/* The depth is measured here. Speed " + "is: the theme, whose. */\n",
          "README.md": f"One ``{WORDS}``.\n\n```\n{WORDS}\n```\n\n| {WORDS} |\n",
          "Documentation/a.rst": f":field: {WORDS}\n\nOne ``{WORDS}``::\n\n\t{WORDS}\n\n"
                                 f"{TABLE_RST}\n.. {WORDS}\n\n.. code-block:: sh\n\n   {WORDS}\n",
          "tools/man/a.8": f".nf\n{WORDS}\n.fi\nOne.\n"},
         []),
    ],
    "private_layouts": [
        ({"mq-a/a.h": "struct elv_fs_entry {\n\tint x;\n};\n",
          "mq-a/a.c": C + "extern int elv_register(struct e *);\n"},
         ["mq-a/a.c:2:", "mq-a/a.h:1:"]),
        ({"compat/a.h": "struct elv_fs_entry {\n\tint x;\n};\n",
          "mq-a/a.h": "struct a_data {\n\tstruct request *r;\n};\n"}, []),
    ],
    "readme": [
        ({"README.md": "word " * 549 + "[a](b.md) ![c](d.svg)\n",
          "Documentation/a.rst": ":doc:`b`\n\n.. image:: c.svg\n\n.. include:: d.inc\n\n"
                                 ".. toctree::\n   :maxdepth: 1\n\n   e\n"},
         ["README.md:1: 551 words", "README.md:1: b.md", "README.md:1: d.svg",
          "Documentation/a.rst:1:", "Documentation/a.rst:3:", "Documentation/a.rst:5:",
          "Documentation/a.rst:10:"]),
        ({"README.md": "word " * 547 + "[a](Documentation/a.rst#b) [c](https://d) [e](#f)\n",
          "Documentation/a.rst": ":doc:`text <b/c>` and :doc:`/b/c`\n\n.. image:: /d.svg\n\n"
                                 ".. toctree::\n\n   b/c\n",
          "Documentation/b/c.rst": ".. include:: ../d.svg\n", "Documentation/d.svg": ""},
         []),
    ],
    "rooms": [
        ({"lib/a.c": C + '#include "compat.h"\n#include "b.h"\n' + body("a", "c", "x->a"),
          "lib/b.h": "", "compat/compat.h": "", "mq-k2/k2.c": C + '#include "../mq-tabs/tabs.h"\n',
          "mq-tabs/tabs.h": "", "mq-k2/c.c": C + body("c")},
         ["lib/a.c:2: includes", "lib/a.c:6: calls c()", "mq-k2/k2.c:2: includes"]),
        ({OCTOKV + "store/a.c": C + '#include "server/b.h"\n' + body("a", "c"),
          OCTOKV + "store/c.c": C + '#include "c.h"\n' + body("c"),
          OCTOKV + "store/c.h": "static inline " + body("d", "a"), OCTOKV + "server/b.h": ""},
         [OCTOKV + "store/a.c:2:", OCTOKV + "store/a.c:5:", OCTOKV + "store/c.h:3:"]),
        ({"tools/bench/cases/a.py":
          PY + "from kit import lab\nfrom cases import b\nfrom . import c\n",
          "tools/bench/kit/lab.py": PY + "from . import fio\nimport cases.a\n"},
         ["tools/bench/cases/a.py:3:", "tools/bench/cases/a.py:4:", "tools/bench/kit/lab.py:3:"]),
        ({"lib/a.c": C + '#include "a.h"\n' + body("a", "b"), "lib/a.h": "void a(void);\n",
          "lib/b.c": C + body("b"), "mq-k2/k2.h": '#include "a.h"\n', "compat/shims.h": "",
          "mq-k2/k2.c": C + '#include "k2.h"\n#include "shims.h"\n' + body("b2", "a", "t"),
          "mq-k2/k2_t.c": C + '#include "k2.h"\nstatic ' + body("b", "p->b2") + body("t", "b")},
         []),
    ],
    "section_order": [
        ({"mq-a/a.c": ESSAY + SWAPPED + TABLE}, ["mq-a/a.c:33:"]),
        ({"mq-a/a.c": C + HOOKS + TABLE}, ["mq-a/a.c:1:"]),
        ({"mq-a/a.c": ESSAY + HOOKS + TABLE + ATTRS}, ["mq-a/a.c:48:"]),
        ({"mq-a/a.c": C + "/*\n" + " * words\n" * 119 + " */\n" + HOOKS + TABLE}, ["mq-a/a.c:1:"]),
        ({"mq-a/a.c": ESSAY + HOOKS + ATTRS + TABLE}, []),
    ],
    "shape": [
        ({path: text for path, text in SCHEDULER.items() if "tuner" not in path} |
         {"mq-k2/k2.h": "struct k2_queue *q;\nvoid f(u32 a, u32 q);\nstruct request_queue *q;\n"},
         ["mq-k2/k2.h:1:", "mq-k2/k2.h:2:", "mq-k2/k2_tuner.c:1:"]),
        (SCHEDULER | {"mq-k2/k2.h": "void f(struct request_queue *q, u32 q_depth); /* u32 q; */\n"},
         []),
    ],
    "shellcheck": [
        ({"a.sh": SH + "cd $1\n", "b": SH + "[ $1 == 2 ]\n"}, ["a.sh:3:", "b:3:"]),
        ({"a.sh": SH + 'cd "$1" || exit\n'}, []),
    ],
    "sizes": [
        ({"a.c": C + "\n" * 900, "b.py": "\n" * 1000, **{f"c/{n}.h": "" for n in range(31)}},
         ["a.c:1: 901 lines", "c:1: 31 files"]),
        ({**{f"a/{n}": "" for n in range(899)}, GIT: ["b", "first\n"]}, [".:1: 900 tracked"]),
        ({"a.c": C + "\n" * 899, **{f"b/{n}.h": "" for n in range(30)},
          **{f"tools/test/guest-tests/c/{n}": SH for n in range(31)}, GIT: ["d", "first\n"]},
         []),
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
          "Documentation/reference/mq-a.rst":
          headings("``depth`` (requests)") + "Range 1\nto 9, default 2.\n\n" +
          headings("max_wait_ns (word)") + "Default: no.\n",
          "Documentation/reference/ABI/sysfs-block-mq-a":
          ABI.format("max_wait_ns") + ABI.format("depth") + "\t\trange 1 to\n\t\t9, default 2.\n"},
         []),
        ({"mq-a/a.c": C + ATTRS,
          "Documentation/reference/mq-a.rst":
          headings("depth (requests)") + "Range 1 to 9, default 2.\n\n" + headings("max_wait_ns"),
          "Documentation/reference/ABI/sysfs-block-mq-a":
          ABI.format("max_wait_ns") + ABI.format("depth") + "\t\trange 1 to 8, default 2.\n"},
         ["Documentation/reference/mq-a.rst:1: depth: range 1 to 9, default 2 here, range 1 to 8",
          "Documentation/reference/mq-a.rst:8: max_wait_ns: no default",
          "Documentation/reference/mq-a.rst:8: the heading of max_wait_ns"]),
    ],
}

# sparse builds modules: a module of one file, good and bad, in a tree with our build system.
MODULE = C + '#include <linux/module.h>\n{}MODULE_LICENSE("GPL");\nMODULE_DESCRIPTION("a");\n'
KBUILD = "# SPDX-License-Identifier: GPL-2.0\nobj-$(CONFIG_MQ_IOSCHED_K2) += mq-k2.o\n"
BUILD_FILES = ("Makefile", "Kbuild", "SUPPORTED", "compat")


