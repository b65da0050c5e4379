#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""power_cut.py DISK ATTR SEED ROUNDS - writes, flushes, cuts the power, and checks what is left

Every 512-byte sector that is written carries its number and the serial number of its write. Four
writers run at once: two write through the volatile cache and flush now and then, one writes with
O_DSYNC (FUA), one zeroes and discards. The power is cut in the middle. Then each sector must hold
the last write to it that was durable, or any write that came later or was not acknowledged. A
durable write is a FUA write that was acknowledged, or a write that was acknowledged before a flush
began that was acknowledged. Exit: 0, 1.
"""
import ctypes
import fcntl
import mmap
import os
import random
import struct
import sys
import threading

SECTOR = 512
AREA = 512               # sectors of each writer
BLKDISCARD = 0x1277


class Writer(threading.Thread):
    """One area of the disk, one thread; remembers for each sector what may be there."""

    def __init__(self, disk, index, kind, seed):
        super().__init__()
        self.first = index * AREA
        self.kind = kind
        self.random = random.Random(seed * 16 + index)
        flags = os.O_RDWR | os.O_DIRECT | (os.O_DSYNC if kind == "fua" else 0)
        self.fd = os.open(disk, flags)
        self.buffer = mmap.mmap(-1, 64 * SECTOR)
        self.durable = [0] * AREA
        self.later = [set() for _ in range(AREA)]
        self.latest = [0] * AREA
        self.serial = 0
        self.writes = 0
        self.flushes = 0

    def content(self, sector, serial):
        return (
            struct.pack("<QQ", self.first + sector, serial) * (SECTOR // 16)
            if serial
            else bytes(SECTOR)
        )

    def write(self):
        count = self.random.choice((1, 1, 3, 8, 8, 32, 64))
        start = self.random.randrange(AREA - count + 1)
        self.serial += 1
        for i in range(count):
            self.buffer[i * SECTOR:(i + 1) * SECTOR] = self.content(start + i, self.serial)
            self.later[start + i].add(self.serial)
        os.pwritev(
            self.fd, [memoryview(self.buffer)[: count * SECTOR]], (self.first + start) * SECTOR
        )
        self.writes += 1
        for i in range(start, start + count):
            self.latest[i] = self.serial
            if self.kind == "fua":
                self.durable[i] = self.serial
                self.later[i].clear()

    def discard(self):
        start, count = 8 * self.random.randrange(AREA // 8 - 4), 8 * self.random.randint(1, 4)
        for i in range(start, start + count):
            self.later[i].add(0)
        fcntl.ioctl(
            self.fd, BLKDISCARD, struct.pack("<QQ", (self.first + start) * SECTOR, count * SECTOR)
        )
        for i in range(start, start + count):
            self.latest[i] = 0

    def flush(self):
        # All earlier writes of this thread are acknowledged; what it makes durable is the latest of
        # each sector.
        os.fsync(self.fd)
        self.flushes += 1
        for i in range(AREA):
            self.durable[i] = self.latest[i]
            self.later[i].clear()

    def run(self):
        try:
            while True:
                dice = self.random.random()
                if self.kind != "fua" and dice < 0.08:
                    self.flush()
                elif self.kind == "zero" and dice < 0.35:
                    self.discard()
                else:
                    self.write()
        except OSError:
            pass            # the power is gone

    def check(self, disk):
        """Compares the area with what may be there. Returns (wrong, kept, lost, torn requests)."""
        wrong = kept = lost = mixed = 0
        data = mmap.mmap(-1, AREA * SECTOR)
        os.preadv(disk, [data], self.first * SECTOR)
        for group in range(0, AREA, 8):
            fates = set()
            for i in range(group, group + 8):
                found = data[i * SECTOR:(i + 1) * SECTOR]
                allowed = {self.durable[i]} | self.later[i]
                serial = next((s for s in allowed if found == self.content(i, s)), None)
                if serial is None:
                    wrong += 1
                    head = struct.unpack("<QQ", found[:16])
                    print(
                        f"sector {self.first + i} holds write {head[1]} of sector {head[0]}; "
                        f"allowed {sorted(allowed)}, durable {self.durable[i]} ({self.kind})"
                    )
                elif self.later[i]:
                    fates.add(serial == max(self.later[i]))
                    kept += serial != self.durable[i]
                    lost += serial == self.durable[i]
            mixed += len(fates) == 2
        return wrong, kept, lost, mixed


def attribute(path, value):
    with open(path, "w", encoding="ascii") as f:
        f.write(value)


def one_round(disk, attr, seed):
    fd = os.open(disk, os.O_RDWR | os.O_DIRECT)
    fcntl.ioctl(fd, BLKDISCARD, struct.pack("<QQ", 0, 4 * AREA * SECTOR))
    os.fsync(fd)
    writers = [
        Writer(disk, i, kind, seed) for i, kind in enumerate(("cached", "cached", "fua", "zero"))
    ]
    for w in writers:
        w.start()
    threading.Event().wait(0.05 + random.Random(seed).random() * 0.3)
    attribute(f"{attr}/power_cut", "1")
    for w in writers:
        w.join()
    try:
        os.pread(fd, 0, 0)
        os.preadv(fd, [mmap.mmap(-1, 4096)], 0)
        print("a read succeeded while the power was off")
        return 1, 0, 0, 0, 0
    except OSError:
        pass
    attribute(f"{attr}/power_cut", "0")
    result = [w.check(fd) for w in writers]
    for w in writers:
        os.close(w.fd)
    os.close(fd)
    return (*(sum(column) for column in zip(*result)), sum(w.writes for w in writers))


def main(argv):
    if len(argv) != 5:
        print(__doc__, file=sys.stderr)
        return 2
    disk, attr, seed, rounds = argv[1], argv[2], int(argv[3]), int(argv[4])
    total = [0] * 5
    for r in range(rounds):
        total = [a + b for a, b in zip(total, one_round(disk, attr, seed + r))]
    wrong, kept, lost, mixed, writes = total
    print(
        f"{rounds} power cuts, {writes} writes acknowledged: {wrong} sectors wrong; "
        f"of those not durable {kept} kept, {lost} lost, {mixed} units torn"
    )
    if wrong:
        return 1
    if not (kept and lost and mixed and writes):
        print("the cuts kept everything or lost everything: that tests nothing")
        return 1
    return 0


if __name__ == "__main__":
    ctypes.CDLL(None).sync()
    sys.exit(main(sys.argv))
