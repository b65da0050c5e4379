# SPDX-License-Identifier: GPL-2.0
"""Libraries in C that the lab gives to QEMU: each is built once, in the root filesystem."""
import os

from . import cache
from .root import enter_argv, package_version
from .say import run_logged

CFLAGS = "-std=gnu11 -O2 -Wall -Wextra -Wno-unused-parameter -fPIC -shared"
NEEDED_BYTES = 100 << 20


def build(root, name, folder, sources, headers=(), flags=""):
    """The path of library @name for the QEMU of @root, from the files of @folder."""
    texts = []
    for file in (*sources, *headers):
        with open(os.path.join(folder, file), encoding="utf-8") as handle:
            texts.append(handle.read())

    def make(path):
        argv = ["gcc", *CFLAGS.split(), *flags.split(), "-o", f"{path}/{name}.so",
                *(os.path.join(folder, file) for file in sources)]
        run_logged(f"{name}: building the library for QEMU", enter_argv(root, argv, [folder], "/"),
                   os.path.join(cache.cache_dir(), "log", f"{name}.log"))

    key = cache.key_of(package_version(root, "qemu-system-x86"), CFLAGS, flags, *texts)
    return cache.artifact(name, key, make, NEEDED_BYTES) + f"/{name}.so"
