# SPDX-License-Identifier: GPL-2.0
"""Cases of octokvd: wrong ways to start it end with a sentence and a status."""
import ctypes
import itertools
import os
import struct
import subprocess
import tempfile

from kit import BUILD, PORT, STRIDE, Daemon, daemon, expect, run_once

NR_SUPERS = 4
# struct okv_super_disk: sum, magic, version, copy, generation, uuid, key, secret, size, offset of
# the data, four counts.
SUPER = struct.Struct("<QQIIQ16s16sQQQIIII")
MORE_BYTES = 24        # behind it since version 8
ROOT_BYTES = 3920      # of struct okv_root_disk, up to the place of moves
NOWHERE = (1 << 40) - 1


def case_wrong_start():
    """port taken, file in use, too small, read-only, no store, ...: a sentence and a status"""
    with daemon() as d, tempfile.TemporaryDirectory(dir=BUILD) as folder:
        other = os.path.join(folder, "other.img")
        run_once("--data", other, "--format", "--size", "256m")
        expect("--port" in run_once("--data", other, "--port", str(d.port), status=1), "port taken")
        expect("in use" in run_once("--data", d.data, "--port", str(PORT + 1), status=1),
               "file in use")
        expect("--force" in run_once("--data", other, "--format", status=1), "format of a store")
        run_once("--data", other, "--format", "--force")
        small = os.path.join(folder, "small.img")
        with open(small, "wb") as handle:
            handle.truncate(64 << 10)
        expect("too small" in run_once("--data", small, "--format", status=1), "too small")
        expect("no store" in run_once("--data", small, status=1), "no store on it")
        text = os.path.join(folder, "text")
        with open(text, "wb") as handle:
            handle.write(b"precious" * 10000)
            handle.truncate(64 << 20)
        expect("--force" in run_once("--data", text, "--format", status=1),
               "format of something else")
        expect("--users" in run_once("--data", other, "--bind", "0.0.0.0", status=1),
               "a public address without users")
        expect("neither" in run_once("--data", "/dev/null", status=1), "no file, no block device")
        run_once("--data", other, "--nonsense", status=2)
        expect("is it connected" in run_once("--data", "/dev/nvme99n1", "--format", status=1) and
               not os.path.exists("/dev/nvme99n1"), "a device that is not there")
        expect("power of two" in run_once("--data", other, "--partitions", "3", status=2),
               "--partitions 3")
        readonly = os.path.join(folder, "ro")
        os.mkdir(readonly)
        subprocess.run(["mount", "--bind", folder, readonly], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", readonly], check=True)
        try:
            expect("read-only" in run_once("--data", os.path.join(readonly, "other.img"), status=1),
                   "read-only")
        finally:
            subprocess.run(["umount", readonly], check=True)
        return "12 ways"


def case_first_start():
    """a first start that fails leaves no file: the next one, with good options, makes a store"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        image = os.path.join(folder, "octokv.img")
        for more in (["--size", "1m"], ["--size", "256m", "--partitions",
                                        "256"], ["--size", "1m", "--format"]):
            expect("too small" in run_once("--data", image, "--port", str(PORT), *more, status=1),
                   f"{more}")
            expect(not os.path.exists(image), f"{more}: a file is left")
        d = Daemon(folder, "--size", "256m", size=None)
        try:
            expect(d.client().set("k", "v") and d.end() == 0, "the good one")
        finally:
            d.child.kill()
            d.child.wait()
        return "3 ways"


def hash_of(data, seed):
    """The checksum of the store's structures."""
    libxxhash = ctypes.CDLL("libxxhash.so.0")
    libxxhash.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    libxxhash.XXH3_64bits_withSeed.argtypes = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64
    return libxxhash.XXH3_64bits_withSeed(data, len(data), seed)


def signed(data, seed):
    """@data, which begins with the checksum of the rest of it, with the right one."""
    return struct.pack("<Q", hash_of(data[8:], seed)) + data[8:]


def set_version(image, change):
    """Give all superblocks of @image the version that @change makes of theirs.

    What only later ones have is zeros: an earlier octokvd writes nothing there.
    """
    with open(image, "r+b") as handle:
        for copy in range(NR_SUPERS):
            handle.seek(copy * STRIDE)
            _, magic, version, *rest = SUPER.unpack(handle.read(SUPER.size))
            changed = SUPER.pack(0, magic, change(version), *rest)
            handle.seek(copy * STRIDE)
            handle.write(signed(changed, magic + copy) + bytes(MORE_BYTES))


def set_earlier_roots(image):
    """Make the roots of @image, which was closed, those of a store of version 6 to 9."""
    with open(image, "r+b") as handle:
        fields = SUPER.unpack(handle.read(SUPER.size))
        secret, nr_partitions = fields[7], fields[11]
        for partition, slot in itertools.product(range(nr_partitions), range(2)):
            at = (1 << 20) + (slot << 17) + partition * 4096
            handle.seek(at)
            root = b"rot3".rjust(12, b"\0") + handle.read(ROOT_BYTES)[12:]
            seed = hash_of(struct.pack("<3Q", partition, NOWHERE, slot), secret)
            handle.seek(at)
            handle.write(signed(root, seed) + bytes(4096 - ROOT_BYTES))


def case_later_version():
    """a store of a later version: octokvd, --check and --format refuse it and do not change it"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        image = os.path.join(folder, "later.img")
        run_once("--data", image, "--format", "--size", "256m")
        set_version(image, lambda version: version + 100)
        with open(image, "rb") as handle:
            before = handle.read(SUPER.size)
        for more in ([], ["--check"], ["--format"]):
            said = run_once("--data", image, *more, status=1)
            expect(("--force" if more == ["--format"] else "another version") in said,
                   f"{more}: {said}")
        with open(image, "rb") as handle:
            expect(handle.read(SUPER.size) == before, "the superblock was changed")
        return "refused"


def case_upgrade():
    """--upgrade: an earlier store keeps its keys and gets journals"""
    with daemon() as d:
        d.client().set("k", "old")
        expect(d.end() == 0, "the exit status")
        set_version(d.data, lambda version: version - 4)
        set_earlier_roots(d.data)
        expect("format 6" in run_once("--data", d.data, "--check"), "not an earlier store")
        d.start()
        d.client().set("bare", "new")
        expect(d.client().info("all")["journaled_batches"] == 0 and d.end() == 0, "journals")
        expect("of this version now" in run_once("--data", d.data, "--upgrade"), "the first time")
        expect("already" in run_once("--data", d.data, "--upgrade"), "the second time")
        d.start()
        c = d.client()
        pipe = c.pipeline(transaction=False)
        for i in range(200):
            pipe.set(f"k{i}", i)
        pipe.execute()
        nr = c.info("all")["journaled_batches"]
        expect(c.get("k") == b"old" and c.get("bare") == b"new" and c.get("k199") == b"199", "keys")
        absent = d.data + ".absent"
        expect("no store" in run_once("--data", absent, "--upgrade", status=1), "no store")
        expect(not os.path.exists(absent), "a file is left")
        # None where the device does not gain by it.
        return f"{nr} batches of 200 puts journaled"


def refuse_io_uring():
    """From now on io_uring_setup() fails with EPERM in this process, as in a container."""
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7fff0000)]
    text = b"".join(struct.pack("HBBI", *one) for one in code)
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code), text)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
        os._exit(9)


def case_no_io_uring():
    """io_uring is refused: the message names the knob"""
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        said = run_once("--data", os.path.join(folder, "x.img"), "--size", "256m", status=1,
                        preexec_fn=refuse_io_uring)
        expect("seccomp" in said or "kernel.io_uring_disabled" in said, said)
        return said.strip()


def case_sysctl():
    """io_uring is disabled for all: the message names the knob and its value"""
    knob = "/proc/sys/kernel/io_uring_disabled"

    def disable(value):
        with open(knob, "w", encoding="ascii") as handle:
            handle.write(value)
    run_once("--data", os.environ["DEVICE"], "--format", "--force")
    disable("2")
    try:
        said = run_once("--data", os.environ["DEVICE"], status=1)
    finally:
        disable("0")
    expect("kernel.io_uring_disabled is 2" in said, said)
    return said.strip()


def case_mounted():
    """the device is mounted: refused, also --format --force; its file system is unharmed"""
    device = os.environ["DEVICE"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mkfs.ext4", "-q", "-F", device], check=True)
        subprocess.run(["mount", device, folder], check=True)
        try:
            for more in ([], ["--check"], ["--format", "--force"]):
                said = run_once("--data", device, *more, status=1)
                expect("in use: mounted" in said, f"{more}: {said}")
        finally:
            subprocess.run(["umount", folder], check=True)
        subprocess.run(["fsck.ext4", "-fn", device], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        expect("--force" in run_once("--data", device, "--format", status=1),
               "format over a file system")
        return "refused"
