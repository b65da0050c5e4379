# SPDX-License-Identifier: GPL-2.0
"""The kernels: Debian's stock kernels, and those that the lab builds from Debian's linux-source.

  6.12, 7.2, ...   stock Debian kernels, for --backend vm; series beyond the two in the base root
                   are added on demand, and so are Debian's flavours, such as 6.12-rt and 6.12-cloud
  uml              7.2 for User-Mode Linux, with KUnit
  uml-debug        the same with KASAN and lockdep
  debug            7.2 with KASAN and lockdep, for --backend vm
  kcsan            7.2 with the concurrency sanitizer and kmemleak
  sealed           7.2 for --backend vm --virtual-time, to compare with a patched one
  sealed-upstream  the same with the patches of Documentation/design/upstream
  uml-upstream     uml with those patches
"""
import glob
import os
import re
from dataclasses import dataclass

from . import cache
from .root import (SERIES, base_root, derived_root, enter_argv, installed_series,
                   package_version)
from .say import LabError, run_logged

LAB_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG_DIR = os.path.join(LAB_DIR, "config")
UPSTREAM_DIR = os.path.join(os.path.dirname(os.path.dirname(LAB_DIR)),
                            "Documentation", "design", "upstream")
BUILT = {
    "uml": ("um", ("common", "uml")),
    "uml-debug": ("um", ("common", "uml", "debug")),
    "debug": ("x86_64", ("common", "vm", "debug")),
    "kcsan": ("x86_64", ("common", "vm", "kcsan")),
    "sealed": ("x86_64", ("vm", "sealed")),
    "sealed-upstream": ("x86_64", ("vm", "sealed")),
    "uml-upstream": ("um", ("common", "uml")),
}
SEALED = ("sealed", "sealed-upstream")
PATCHED = ("sealed-upstream", "uml-upstream")
SOURCE_SERIES = "7.2"
FLAVOURS = ("cloud", "rt")


@dataclass(frozen=True)
class Kernel:
    """A kernel that a guest can boot; all paths are as seen inside @root."""
    name: str
    release: str
    root: str           # root filesystem that it boots on
    image: str          # vmlinuz, bzImage or the UML program
    kdir: str           # what modules build against
    modules: str        # its own modules
    identity: str       # changes when any of it does
    initramfs: bool     # drivers are modules: an initramfs has to mount the root


def get(name):
    """The kernel @name; made when it is missing."""
    return _built(name) if name in BUILT else _stock(name)


def headers_only(series):
    """Like get(), for building only: the headers of a series are enough, without its image."""
    return _stock(series, needs_image=False)


def _stock(series, needs_image=True):
    name, (series, _, flavour) = series, series.partition("-")
    if not re.fullmatch(r"[0-9]+\.[0-9]+", series) or flavour not in ("", *FLAVOURS):
        raise LabError(f"unknown kernel {name}; there are 6.12, 7.2, {', '.join(BUILT)}, "
                       "and any series that Debian's backports carry, such as 7.3")
    if tuple(map(int, series.split("."))) < tuple(map(int, SERIES[0].split("."))):
        raise LabError(f"kernel {series} is too old: mqfair's schedulers need {SERIES[0]} or newer")
    root = base_root()
    if flavour:
        root = derived_root(root, f"with-{name}", _ADD_FLAVOUR, series, flavour)
    elif series not in SERIES:
        root = _root_with(root, series)
    release = installed_series(root, flavour).get(series)
    image = f"/boot/vmlinuz-{release}"
    if needs_image and not os.path.exists(root + image):
        raise LabError(f"the archive has headers but no kernel image of series {series}; "
                       f"modules can be built for it (lab build --kernel {series}), but no guest "
                       "can boot it")
    if needs_image and flavour and not os.path.isdir(f"{root}/lib/modules/{release}/kernel/fs/9p"):
        raise LabError(f"kernel {name} has no 9p, by which a guest mounts its root; modules can be "
                       f"built for it (lab build --kernel {name}), but no guest can boot it")
    return Kernel(name, release, root, image, f"/lib/modules/{release}/build",
                  f"/lib/modules/{release}", release, True)


# Cache keys are digests of this script and of the others here: a changed byte makes everybody build
# again. So a line that is too wide goes on in a second literal.
_ADD_SERIES = (r"""
set -e
apt-get -q update
newest() { apt-cache pkgnames "$1-$series." | """
               r"""grep -xE "$1-$series\.[0-9.]+\+deb13(\.[0-9]+)?-amd64" | sort -V | tail -n 1; }
series=$1
headers=$(newest linux-headers) image=$(newest linux-image)
[ -n "$headers" ] || { echo "the archive has no linux-headers of series $series"; exit 1; }
INITRD=No apt-get -q install -y --no-install-recommends -t trixie-backports "$headers" $image
mkdir -p "/usr/lib/modules/${headers#linux-headers-}"
[ -e "/usr/lib/modules/${headers#linux-headers-}/build" ] || """
               r"""ln -s "/usr/src/$headers" "/usr/lib/modules/${headers#linux-headers-}/build"
rm -f /boot/initrd.img-*
""")


_ADD_FLAVOUR = r"""
set -e
apt-get -q update
newest() {
    apt-cache pkgnames "$1-$series." | sort -V |
        grep -xE "$1-$series\.[0-9.]+\+deb13(\.[0-9]+)?-$flavour-amd64" | tail -n 1
}
series=$1 flavour=$2
headers=$(newest linux-headers) image=$(newest linux-image)
[ -n "$headers" ] && [ -n "$image" ] ||
    { echo "the archive has no linux-headers and linux-image of $series-$flavour"; exit 1; }
[ $series = 6.12 ] && from=trixie || from=trixie-backports
INITRD=No apt-get -q install -y --no-install-recommends -t $from "$headers" "$image"
rm -f /boot/initrd.img-*
"""


def _root_with(base, series):
    """A second root with one more series."""
    return derived_root(base, f"with-{series}", _ADD_SERIES, series)


def _source_versions(root):
    """What a kernel is made of besides its configuration: Debian's source and the compiler."""
    return [package_version(root, f"linux-source-{SOURCE_SERIES}"),
            package_version(root, "gcc-14")]


# Three places in Debian's source are patched, all for User-Mode Linux with several CPUs.
#
# A stack trace, which KASAN keeps of each kmalloc() and kfree(), reads the stack up to the next
# multiple of THREAD_SIZE. That is the end of a kernel stack. But a secondary CPU starts on a stack
# of its host thread, where the page at that address does not exist. The first patch stops at the
# end of the page there.
#
# Each word of the stack is looked up, with system calls for lockdep each time. Only return
# addresses of frames are kept anyway: the second patch looks up these alone.
#
# flush_tlb_mm() walks an address space that may be another task's without a lock, which lockdep
# reports when AIO's ring is unmapped. The third patch holds the RCU read lock.
_UNPACK = (r"""
set -e
tar -C "$1" --strip-components=1 -xf "$2"
cd "$1/arch/um/kernel"
sed -i -e 's/(THREAD_SIZE-1)) != 0)/"""
           r"""((tsk->stack == (void *)((long) sp \& -THREAD_SIZE) ? THREAD_SIZE : PAGE_SIZE)"""
           r""" - 1)) != 0)/' \
	-e 's/if (__kernel_text_address(addr))/"""
           r"""if ((unsigned long) sp == bp + sizeof(long) \&\& __kernel_text_address(addr))/'"""
           r""" stacktrace.c
sed -i '/^void flush_tlb_mm(/,/^}/{s/^\tfor_each_vma/\trcu_read_lock();\n&/;"""
           r"""s/^}/\trcu_read_unlock();\n}/}' tlb.c
[ "$(grep -c 'tsk->stack ==\|sizeof(long) &&\|rcu_read_' stacktrace.c tlb.c | tr '\n' ' ')" """
           r"""= "stacktrace.c:2 tlb.c:2 " ] ||
	{ echo "arch/um/kernel has changed: """
           r"""look how it walks stacks and address spaces now"; exit 1; }
""")


# $1 the folder, $2 the package, then the patches.
_PATCH = r"""
set -e
folder=$1; shift 2
for patch; do
    patch -d "$folder" -p1 --no-backup-if-mismatch -F0 -i "$patch" ||
        { echo "${patch##*/} does not apply"; exit 1; }
done
"""


def upstream_patches():
    """The patches for the kernel, in their order."""
    return sorted(glob.glob(os.path.join(UPSTREAM_DIR, "*.patch")))


def _diff(text):
    """What a patch changes: its message makes no other kernel."""
    return text[text.index("\ndiff --git "):text.rindex("\n-- \n")]


def _texts(paths):
    found = []
    for path in paths:
        with open(path, encoding="utf-8") as handle:
            found.append(handle.read())
    return found


def source(root, patched=False):
    """The kernel source of SOURCE_SERIES, unpacked once; @patched: with our patches for it."""
    package = f"/usr/src/linux-source-{SOURCE_SERIES}.tar.xz"
    patches = upstream_patches() if patched else []
    name = f"linux-{SOURCE_SERIES}" + ("-upstream" if patched else "")
    scripts = [_UNPACK, *([_PATCH, *map(_diff, _texts(patches))] if patched else [])]

    def make(path):
        for script in scripts[:2]:
            run_logged(f"kernel source {SOURCE_SERIES}: unpacking" if script is _UNPACK else
                       f"kernel source {SOURCE_SERIES}: {len(patches)} patches",
                       enter_argv(root, ["sh", "-c", script, "unpack", path, package, *patches],
                                  [UPSTREAM_DIR], "/"),
                       os.path.join(cache.cache_dir(), "log", "source.log"))
    return cache.artifact(name, cache.key_of(_source_versions(root)[0], *scripts), make, 4 << 30)


# $1 source, $2 output folder, $3 architecture, then the fragments; a later one overrides those
# before it.
# olddefconfig silently drops options that cannot be set: the script reports them.
_COMPILE = (r"""
set -e
source=$1 out=$2 arch=$3; shift 3
cd "$source"
[ $arch = um ] && base=defconfig || base=tinyconfig
make -s O="$out" ARCH=$arch $base
"$source/scripts/kconfig/merge_config.sh" -m -O "$out" "$out/.config" "$@"
make -s O="$out" ARCH=$arch olddefconfig
for option in $(awk -F= '/^CONFIG_[A-Z0-9_]*=/ { last[$1] = $0 } """
            r"""END { for (name in last) print last[name] }' "$@"); do
    grep -qxF "$option" "$out/.config" || { echo "the kernel configuration lost $option"; exit 1; }
done
[ $arch = um ] && targets="linux modules" || targets="bzImage modules"
make O="$out" ARCH=$arch -j"$(nproc)" $targets
make -s O="$out" ARCH=$arch INSTALL_MOD_PATH="$out/install" DEPMOD=true modules_install
# The folder is renamed when it is complete: let its Makefile find it by itself. """
            r"""It knows its architecture, so that
# `make KDIR=$out` needs no word about it.
cat > "$out/Makefile" <<END
export ARCH := $arch
export KBUILD_OUTPUT := \$(patsubst %/,%,\$(dir \$(realpath \$(lastword \$(MAKEFILE_LIST)))))
include $source/Makefile
END
find "$out" -name '*.o' -not -path '*/scripts/*' -not -path '*/tools/*' -delete
find "$out" \( -name '.*.o.cmd' -o -name '.*.o.d' -o -name '*.a' -o -name '.tmp_*' """
            r"""-o -name 'vmlinux.unstripped' \) -not -path '*/scripts/*' -delete
""")


def _options(fragment):
    """The lines of a configuration fragment that set options: a comment makes no other kernel."""
    return "\n".join(line for line in fragment.splitlines() if re.match(r"(# )?CONFIG_", line))


def _built(name):
    arch, fragments = BUILT[name]
    root = base_root()
    paths = [os.path.join(CONFIG_DIR, f"{fragment}.config") for fragment in fragments]
    texts, patched = _texts(paths), name in PATCHED
    patches = [_PATCH, *map(_diff, _texts(upstream_patches()))] if patched else []

    def make(path):
        unpacked = source(root, patched)
        copies = []
        for fragment, text in zip(fragments, texts):
            copies.append(os.path.join(path, f"{fragment}.fragment"))
            with open(copies[-1], "w", encoding="utf-8") as handle:
                handle.write(text)
        run_logged(f"kernel {name}: building {SOURCE_SERIES} from Debian's source (5 to 15 min on "
                   "2 cores)",
                   enter_argv(root, ["sh", "-c", _COMPILE, "compile", unpacked, path, arch,
                                     *copies], [], "/"),
                   os.path.join(cache.cache_dir(), "log", f"kernel-{name}.log"))

    out = cache.artifact(f"kernel-{name}", cache.key_of(*_source_versions(root), _UNPACK, _COMPILE,
                                                        *map(_options, texts), *patches),
                         make, 5 << 30)
    source(root, patched)      # modules build against it
    release = os.listdir(os.path.join(out, "install/lib/modules"))[0]
    image = os.path.join(out, "linux" if arch == "um" else "arch/x86/boot/bzImage")
    return Kernel(name, release, root, image, out,
                  os.path.join(out, "install/lib/modules", release), os.path.basename(out), False)
