# SPDX-License-Identifier: GPL-2.0
"""Guests under virtual time: sealed, so that two runs agree to the last digit.

Under virtual time QEMU counts instructions, and one is one nanosecond. What a guest does then
depends on its own instructions alone, if nothing comes from outside. A host that answers a request
for a file does so when it likes: meanwhile the guest's clock runs to its next timer, and each later
event has moved. So while the command runs, nothing is asked of the host:

files	are in two images: the lab's root filesystem, made once, and one for the run, with the
	checkout, our modules and the command. They are persistent memory in the guest: a read is a
	load from memory.
output	goes to serial ports, which take a byte at the instruction that writes it. The lab reads
	it at once and keeps what our own reader does not take yet: with 64 KiB unread QEMU would
	let the guest wait.
chance	comes from QEMU's own generator, whose seed is 1 or that of `lab run --seed N`, and the
	clock starts at a fixed date.
code	is kept in a cache of fixed size. QEMU's own size follows the host's memory. If the cache is
	full, blocks are cut elsewhere, and another CPU gets its turn only at the end of a block.
turns	of QEMU's two threads have an order: tools/lab/sealed/turns.c says which, and what happened
	without it.

When the command has ended, the guest mounts the run folder by 9p and leaves its results there. The
checkout is what git tracks, or would: files that it ignores stay out, for they differ from run to
run. `lab run --carry PATH` takes some along. What the command writes to the checkout is lost.
"""
import os
import shutil
import subprocess

from . import cache, library
from .root import enter_argv
from .say import LabError, cache_hint, run_logged

TURNS_DIR = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "sealed")
RUN, CHECKOUT = "/lab/run", "/lab/checkout"
IMAGE_BYTES = 2 << 20           # persistent memory comes in such pieces
# What no command in a guest needs: kernels to boot, and sources to build against.
NOT_IN_ROOT = ("boot", "usr/src")
UUID = "6d716661-6972-4000-8000-000000000000"
START = "2026-01-01T00:00:00"
CODE_CACHE_MIB = 512
KEPT_IMAGES = 2                 # of root filesystems, of 2 GB each

# $1 the image, $2 its folder, then more options. The folder is mounted once more, since others are
# mounted in the root filesystem while it is in use.
_MAKE = r"""
set -e
image=$1 folder=$2; shift 2
mkdir /lab/image
mount --bind "$folder" /lab/image
mkfs.erofs --quiet -U """ + UUID + r""" -x-1 "$@" "$image.part" /lab/image
truncate -s %""" + str(IMAGE_BYTES) + r""" "$image.part"
mv "$image.part" "$image"
"""


def _make_argv(root, image, folder, options):
    return enter_argv(root, ["sh", "-c", _MAKE, "make", image, folder, *options], [folder], "/")


def _root_image(root):
    """The image of the root filesystem @root; made when it is missing."""
    def make(path):
        run_logged("root filesystem: an image for virtual time",
                   _make_argv(root, path + "/image", root, ["-T0", "--mkfs-time"] + [
                       f"--exclude-regex=^{name}/." for name in NOT_IN_ROOT]),
                   os.path.join(cache.cache_dir(), "log", "root-image.log"))

    key = cache.key_of(os.path.basename(root), _MAKE, *NOT_IN_ROOT)
    final = cache.artifact("root-image", key, make)
    os.utime(final)
    with cache.lock("prune-root-image"):
        cache.prune("root-image", KEPT_IMAGES)
    return final + "/image"


def _below(checkout, path):
    """@path if it is a file, else the files below it; relative to the checkout."""
    top = os.path.join(checkout, path)
    if not os.path.isdir(top):
        return [path]
    return [os.path.relpath(os.path.join(folder, name), checkout)
            for folder, _, names in os.walk(top) for name in names]


def _tracked(checkout):
    """The files that git tracks or would; of an unpacked archive all but results."""
    if not os.path.exists(os.path.join(checkout, ".git")):
        return [name for top in os.listdir(checkout) if top != "results"
                for name in _below(checkout, top) if "__pycache__" not in name]
    if not shutil.which("git"):
        raise LabError(f"--virtual-time asks git for the files of {checkout}: install git")
    done = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                          cwd=checkout, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"git does not list the files of {checkout}: {done.stderr.strip()}")
    return [name for name in done.stdout.split("\0") if name]


def _checkout_files(checkout, carried):
    """The files of the checkout that a guest sees, as relative paths, in a fixed order."""
    names = set(_tracked(checkout))
    for path in carried:
        if os.path.relpath(os.path.join(checkout, path), checkout) != os.path.normpath(path) or \
                path.startswith("..") or not os.path.lexists(os.path.join(checkout, path)):
            raise LabError(f"--carry {path}: there is no such path in the checkout, from its top")
        names.update(_below(checkout, os.path.normpath(path)))
    # Another repository in the tree is listed as a folder.
    return sorted(name for name in names if os.path.isfile(os.path.join(checkout, name)) or
                  os.path.islink(os.path.join(checkout, name)))


def _run_image(run, kernel, modules, request):
    """The image of this run, from the files of its folder @run."""
    stage = os.path.join(run, "stage")
    os.makedirs(os.path.join(stage, "run"))
    for name in os.listdir(run):
        if name != "stage" and os.path.isfile(os.path.join(run, name)):
            shutil.copy(os.path.join(run, name), os.path.join(stage, "run"))
    if request.counted:
        os.makedirs(os.path.join(stage, "run", "coherence", "symbols"))
    for name in _checkout_files(request.checkout, request.carried):
        target = os.path.join(stage, "checkout", name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(os.path.join(request.checkout, name), target, follow_symlinks=False)
    # The command starts there, also if it has no file.
    os.makedirs(os.path.join(stage, "checkout", os.path.relpath(request.cwd, request.checkout)),
                exist_ok=True)
    # A stock kernel's own modules are in the root filesystem.
    own = ("updates",) if kernel.initramfs else ("updates", "kernel")
    for folder in own:
        shutil.copytree(os.path.join(modules, folder), os.path.join(stage, "modules", folder))
    for name in os.listdir(modules):
        if name.startswith("modules."):
            shutil.copy(os.path.join(modules, name), os.path.join(stage, "modules"))
    image = os.path.join(run, "image")
    done = subprocess.run(_make_argv(kernel.root, image, stage, ["-T0", "--all-root"]),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode != 0:
        said = (done.stdout.strip().splitlines() or ["it said nothing"])[-1]
        raise LabError(f"no image of the checkout could be made in {cache_hint()}: {said}")
    shutil.rmtree(stage)
    return image


def prefix(root):
    """What stands before QEMU's name: it preloads the library that orders its threads."""
    return ["env", "LD_PRELOAD=" + library.build(root, "turns", TURNS_DIR, ("turns.c",))]


def argv(kernel, modules, request, run):
    """QEMU's arguments for a sealed guest, without those of the kernel and its output."""
    found = ["-machine", "q35,nvdimm=on", "-m", f"{request.mem},slots=2,maxmem=64G",
             "-accel", f"tcg,thread=single,tb-size={CODE_CACHE_MIB}",
             "-icount", "shift=0,sleep=off", "-rtc", f"base={START},clock=vm",
             "-seed", str(request.seed),
             # The seed reaches the guest's kernel by RDRAND. Under a hypervisor the kernel's
             # spinlocks spin on one word; otherwise they queue.
             "-cpu", "qemu64,+rdrand" + (",-hypervisor" if request.counted else "")]
    for name, image in (("root", _root_image(kernel.root)),
                        ("run", _run_image(run, kernel, modules, request))):
        found += ["-object", f"memory-backend-file,id={name},mem-path={image},"
                             f"size={os.path.getsize(image)},readonly=on,share=off",
                  "-device", f"nvdimm,memdev={name},unarmed=on"]
    return found + ["-fsdev", f"local,id=run,path={run},security_model=none",
                    "-device", "virtio-9p-pci,fsdev=run,mount_tag=run"]
