# SPDX-License-Identifier: GPL-2.0
"""Our modules for one kernel, as a folder to mount at /lib/modules/RELEASE in a guest.

They are built from a copy of the checkout by its own Makefile, so the tests run the modules that a
user's `make` builds. The folder holds the kernel's own modules as hard links, ours below updates/,
and a fresh modules.dep, so that modprobe in the guest finds both.
"""
import glob
import hashlib
import os
import shutil

from . import cache
from .root import enter_argv
from .say import run_logged

SOURCES = ("Makefile", "Kbuild", "Kconfig", "SUPPORTED", "compat", "lib", "mq-*", "kunit",
           "tools/ssdsim", "tools/check")
KEPT_BUILDS = 4

_BUILD = r"""
set -e
kdir=$1 release=$2 source=$3 out=$4 modules=$5
work=$(mktemp -d)
cp -r "$source/." "$work"
make -C "$work" KDIR="$kdir" modules
mkdir -p "$out/lib/modules/$release"
cp -al "$modules/." "$out/lib/modules/$release/" 2>/dev/null ||
	cp -a "$modules/." "$out/lib/modules/$release/"
rm -f "$out/lib/modules/$release/build" "$out/lib/modules/$release/source"
rm -rf "$out/lib/modules/$release/updates"
mkdir "$out/lib/modules/$release/updates"
find "$work" -name '*.ko' -exec cp {} "$out/lib/modules/$release/updates/" \;
rm -f "$out/lib/modules/$release"/modules.*.bin "$out/lib/modules/$release"/modules.dep
depmod -b "$out" "$release"
"""


def _source_files(checkout):
    for pattern in SOURCES:
        for top in sorted(glob.glob(os.path.join(checkout, pattern))):
            if os.path.isfile(top):
                yield top
            for folder, folders, names in os.walk(top):
                folders.sort()
                for name in sorted(names):
                    if name.endswith((".c", ".h", ".py", ".sh", "Kbuild", "Kconfig",
                                      "Makefile")) or "." not in name:
                        yield os.path.join(folder, name)


def _snapshot(checkout, target):
    """Copy what a module build reads; return its digest."""
    digest = hashlib.sha256()
    for path in _source_files(checkout):
        if not os.path.isfile(path):
            continue
        relative = os.path.relpath(path, checkout)
        copy = os.path.join(target, relative)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy2(path, copy)
        with open(path, "rb") as handle:
            digest.update(relative.encode() + b"\0" + handle.read() + b"\0")
    return digest.hexdigest()


def build(checkout, kernel):
    """The folder for /lib/modules/RELEASE in a guest with @kernel; built if the sources changed."""
    with cache.scratch("tmp", "source-") as source:
        key = cache.key_of(_snapshot(checkout, source), kernel.identity)
        name = f"modules-{kernel.name}"
        log = os.path.join(cache.cache_dir(), "log", f"{name}.log")

        def make(path):
            argv = ["sh", "-c", _BUILD, "build", kernel.kdir, kernel.release, source, path,
                    kernel.modules]
            run_logged(f"modules for {kernel.release}: building",
                       enter_argv(kernel.root, argv, [], "/"), log,
                       hint=f"the build's output is in {log}")

        final = cache.artifact(name, key, make, needed_bytes=300 << 20)
        os.utime(final)
        with cache.lock(f"prune-{name}"):
            cache.prune(name, KEPT_BUILDS)
    return os.path.join(final, "lib/modules", kernel.release)
