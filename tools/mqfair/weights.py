# SPDX-License-Identifier: GPL-2.0
"""List the weights of cgroups, set one, or let mq-mqfq follow io.weight.

mq-mqfq reads io.mqfair.weight. Other programs write the kernel's own io.weight: systemd for
IOWeight=, container runtimes for a block I/O weight. Both files have the same form, a line
"default N" and lines "MAJ:MIN N" for single disks, with N from 1 to 10000.

  mqfair weights                         print both files of all cgroups, as a tree
  mqfair weights set CGROUP WEIGHT       write io.mqfair.weight; with --device for one disk, and
                                         there the WEIGHT "default" removes the disk's line
  mqfair weights --once                  copy each io.weight into io.mqfair.weight, to the digit
  mqfair weights --follow                the same, and again whenever an io.weight changes

A cgroup whose io.weight was never set has its 100 and no line for a disk. Its io.mqfair.weight is
left alone, until its io.weight is set for the first time. An attribute of the cgroup's folder
(user.mqfair.follows) says that it was, so that an io.weight that is taken back is copied as well.

--follow sleeps until the kernel tells it (inotify) that an io.weight was written, or a cgroup made
or removed. The kernel tells of both, also if another mount of cgroup2 was used, as in a container.
It does not tell of files that appear because a module is loaded: that is looked for each second.
In case that something was missed, all cgroups are looked at each --interval seconds.
"""
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import select
import struct
import sys
import time

from device import Device, DeviceError, printable, read

ONE_LINE = "list or set the weights of cgroups, or let mq-mqfq follow io.weight"
TAKES_DEVICE = False

CGROUPS, MODULE = "/sys/fs/cgroup", "/sys/module/mq_mqfq"
LOCK = "/run/mqfair/weights.lock"
THEIRS, OURS = "io.weight", "io.mqfair.weight"
FOLLOWS = "user.mqfair.follows"
DEFAULT = {"default": 100}
LEAST, MOST = 1, 10000
# Events of this time are handled together: a cgroup that is made, set and removed costs once.
GATHER_S = 0.05
MODULE_CHECK_S = 1.0
# A cgroup can go away between any two steps: open() says ENOENT then, read() and write() ENODEV.
GONE = (errno.ENOENT, errno.ENODEV)


def arguments(parser):
    """The options of this command."""
    parser.add_argument("action", nargs="?", choices=("set",), help="write one weight")
    parser.add_argument("cgroup", nargs="?", metavar="CGROUP",
                        help="with set: a folder below /sys/fs/cgroup")
    parser.add_argument("weight", nargs="?", metavar="WEIGHT", help="with set: 1 to 10000")
    parser.add_argument("--device", metavar="DEV", help="with set: for this disk only")
    parser.add_argument("--follow", action="store_true",
                        help="copy io.weight into io.mqfair.weight, now and at each change")
    parser.add_argument("--once", action="store_true", help="copy once, and end")
    parser.add_argument("--interval", type=float, default=60.0, metavar="S",
                        help="with --follow: seconds between two looks at all cgroups (default 60)")
    parser.add_argument("--json", action="store_true",
                        help="an array of cgroups; with --follow and --once an object a change")


def parse(text):
    """{"default": 100, "259:0": 50} of a file of weights."""
    weights = {}
    for line in text.splitlines():
        found = re.fullmatch(r"(default|\d+:\d+) (\d+)", line.strip())
        if not found:
            raise ValueError(line)
        weights[found[1]] = int(found[2])
    return weights


def changes(have, want):
    """The lines to write, one at a time, that make @want of @have."""
    return ([f"{key} {weight}" for key, weight in want.items() if have.get(key) != weight]
            + [f"{key} default" for key in have if key not in want])


def read_small(path):
    """Text of a file of a cgroup; None if there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, 1 << 16).decode()
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise


def weights_of(folder, name):
    """The parsed file @name of a cgroup; None if it has no such file."""
    text = read_small(os.path.join(folder, name))
    return None if text is None else parse(text)


# ---- changes, as the kernel tells of them ----

class Watch:
    """Tells which cgroups changed, by inotify. Without a free watch, it tells of fewer."""

    EVENT = struct.Struct("iIII")
    MODIFY, CREATE, DELETE = 0x2, 0x100, 0x200
    OVERFLOW, IGNORED, ONLY_FOLDER, IS_FOLDER = 0x4000, 0x8000, 0x1000000, 0x40000000

    def __init__(self, complain):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.complain = complain
        self.path_of, self.is_complete = {}, True
        self.descriptor = self.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.descriptor < 0:
            self._incomplete("inotify_init")

    def _incomplete(self, what):
        if self.is_complete:
            self.complain(f"{what}: {os.strerror(ctypes.get_errno())}: some changes are seen late: "
                          "raise fs.inotify.max_user_watches, or give a short --interval")
        self.is_complete = False

    def add(self, folder):
        """Watch a cgroup: its files, and the cgroups in it."""
        if self.descriptor < 0:
            return
        mask = self.MODIFY | self.CREATE | self.DELETE | self.ONLY_FOLDER
        number = self.libc.inotify_add_watch(self.descriptor, os.fsencode(folder), mask)
        if number >= 0:
            self.path_of[number] = folder
        elif ctypes.get_errno() not in GONE:
            self._incomplete("inotify_add_watch")

    def _events(self):
        """(folder, mask, name) of the events that wait."""
        while True:
            try:
                data = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return
            while data:
                number, mask, _, length = self.EVENT.unpack_from(data)
                name = data[self.EVENT.size:self.EVENT.size + length].rstrip(b"\0")
                data = data[self.EVENT.size + length:]
                yield self.path_of.get(number), mask, os.fsdecode(name)
                if mask & self.IGNORED:
                    self.path_of.pop(number, None)

    def wait(self, timeout_s):
        """Wait for a change: the folders to look at, at once; None if events were lost."""
        if self.descriptor < 0:
            time.sleep(timeout_s)
            return set()
        if not select.select([self.descriptor], [], [], timeout_s)[0]:
            return set()
        time.sleep(GATHER_S)
        folders, lost = set(), False
        for folder, mask, name in self._events():
            lost = lost or bool(mask & self.OVERFLOW)
            if folder and mask & self.IS_FOLDER and mask & (self.CREATE | self.DELETE):
                folders.add(os.path.join(folder, name))
            elif folder and mask & self.MODIFY and name == THEIRS:
                folders.add(folder)
        return None if lost else folders


# ---- copying ----

class Cgroup:
    """What is known of one cgroup: its inode, whether it follows io.weight, the folders in it."""

    def __init__(self, inode, follows):
        self.inode, self.follows = inode, follows
        self.children, self.complaint = set(), None


class Follower:
    """Copies io.weight into io.mqfair.weight, for all cgroups below @root."""

    def __init__(self, root=CGROUPS, tell=lambda folder, line: None, complain=lambda text: None):
        self.root, self.tell, self.complain = root, tell, complain
        self.known = {}
        self.watch = None

    def follow(self, interval_s):
        """Copy until a signal ends it."""
        self.watch = Watch(self.complain)
        folders, due, module = None, 0.0, None
        while True:
            now, before, module = time.monotonic(), module, load_of(MODULE)
            if folders is None or now >= due or module != before:
                self.look([self.root], everywhere=True)
                due = now + interval_s
            else:
                self.look(folders)
            folders = self.watch.wait(min(MODULE_CHECK_S, max(0.0, due - time.monotonic())))

    def look(self, folders, everywhere=False):
        """Look at these cgroups, and at those below them: all with @everywhere, else new ones."""
        waiting = list(folders)
        while waiting:
            folder = waiting.pop()
            try:
                children = self._look_at(folder)
            except OSError as error:
                if error.errno not in GONE:
                    raise
                self._forget(folder)
            else:
                waiting += children if everywhere else children - self.known.keys()

    def _look_at(self, folder):
        """Look at one cgroup; returns the folders in it."""
        status, cgroup = os.stat(folder), self.known.get(folder)
        is_new = cgroup is None or cgroup.inode != status.st_ino
        if is_new:
            self._forget(folder)
            cgroup = self.known[folder] = Cgroup(status.st_ino, has_mark(folder))
            above = self.known.get(os.path.dirname(folder))
            if above:
                above.children.add(folder)
            if self.watch:      # before the folder is read, or a child could be missed
                self.watch.add(folder)
        # A folder has a link for each folder in it, and two of its own.
        if is_new or status.st_nlink - 2 != len(cgroup.children):
            with os.scandir(folder) as entries:
                found = {entry.path for entry in entries if entry.is_dir(follow_symlinks=False)}
            for gone in cgroup.children - found:
                self._forget(gone)
            cgroup.children = found
        self._copy(folder, cgroup)
        return cgroup.children

    def _forget(self, folder):
        """A cgroup is gone, and all below it."""
        above, waiting = self.known.get(os.path.dirname(folder)), [folder]
        if above:
            above.children.discard(folder)
        while waiting:
            cgroup = self.known.pop(waiting.pop(), None)
            waiting += cgroup.children if cgroup else ()

    def _copy(self, folder, cgroup):
        """Make io.mqfair.weight of a cgroup what its io.weight is."""
        path = os.path.join(folder, OURS)
        try:
            want = weights_of(folder, THEIRS)
            if want is None or (want == DEFAULT and not cgroup.follows):
                return
            have = weights_of(folder, OURS)
            if have is None:        # the module is not loaded
                return
            if not cgroup.follows:
                set_mark(folder, True)
                cgroup.follows = True
            for line in changes(have, want):
                write_line(path, line)
                self.tell(folder, line)
            if want == DEFAULT:
                set_mark(folder, False)
                cgroup.follows = False
            cgroup.complaint = None
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in GONE:
                raise
            self._complain_once(cgroup, f"{printable(path)}: "
                                f"{getattr(error, 'strerror', None) or f'unknown line {error}'}")

    def _complain_once(self, cgroup, text):
        """Say what is wrong with a cgroup, unless it was said before."""
        if cgroup.complaint != text:
            self.complain(text)
        cgroup.complaint = text


def load_of(module):
    """What tells one load of a kernel module from another; None while it is not loaded."""
    try:
        status = os.stat(module)
        return status.st_ino, status.st_ctime_ns
    except FileNotFoundError:
        return None


def has_mark(folder):
    """Whether io.mqfair.weight of this cgroup was copied, by us or one that ran before."""
    try:
        return bool(os.getxattr(folder, FOLLOWS))
    except OSError:
        return False


def set_mark(folder, follows):
    """Keep with the cgroup whether its io.mqfair.weight is copied."""
    with contextlib.suppress(OSError):      # the mark matters after a restart only
        if follows:
            os.setxattr(folder, FOLLOWS, b"1")
        else:
            os.removexattr(folder, FOLLOWS)


def write_line(path, line):
    """Write one line to a file of weights."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


# ---- one copier at a time ----

@contextlib.contextmanager
def the_only_one():
    """Hold the lock of --follow and --once."""
    os.makedirs(os.path.dirname(LOCK), exist_ok=True)
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DeviceError("mqfair weights --follow runs already") from error
        yield
    finally:
        os.close(descriptor)


def is_followed():
    """Whether a mqfair weights --follow runs."""
    try:
        descriptor = os.open(LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def require_files(root, is_copying=False):
    """Complain if cgroups cannot have weights here."""
    if "io" not in (read_small(os.path.join(root, "cgroup.controllers")) or "").split():
        raise DeviceError(f"there is no cgroup2 with the io controller at {root}: cgroups have no "
                          "weights; mqfair doctor says more")
    if is_copying and not os.path.exists(os.path.join(root, "io.cost.qos")):
        raise DeviceError("this kernel has no io.weight (CONFIG_BLK_CGROUP_IOCOST): there is "
                          "nothing to follow")
    control = os.path.join(root, "cgroup.subtree_control")
    if is_copying and not os.access(control, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), control)
    if not os.path.exists(MODULE):
        raise DeviceError("mq-mqfq is not loaded, so there is no io.mqfair.weight: modprobe "
                          "mq-mqfq")


# ---- the command ----

def relative(folder, root):
    """The name of a cgroup for people."""
    name = os.path.relpath(folder, root)
    return "/" if name == "." else printable(name)


def disk_name(number):
    """nvme0n1 of "259:0"; empty if there is no such device."""
    path = f"/sys/dev/block/{number}"
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def every_cgroup(root):
    """[{"cgroup", "io_weight", "mqfair_weight"}] of the cgroups below @root, parents first."""
    found = []
    for folder, children, _ in os.walk(root):
        children.sort()
        with contextlib.suppress(OSError, ValueError):      # it may be removed meanwhile
            both = {"io_weight": weights_of(folder, THEIRS),
                    "mqfair_weight": weights_of(folder, OURS)}
            if any(both.values()):
                found.append({"cgroup": relative(folder, root), **both})
    return found


def tree(found):
    """The lines that show every_cgroup()."""
    lines = [f"{'cgroup':50} {THEIRS:>10} {OURS:>17}"]
    for cgroup in found:
        theirs, ours = cgroup["io_weight"] or {}, cgroup["mqfair_weight"] or {}
        depth = cgroup["cgroup"].count("/")
        name = "  " * depth + cgroup["cgroup"].rsplit("/", 1)[-1]
        for key in {**DEFAULT, **theirs, **ours}:
            if key != "default":
                disk = disk_name(key)
                name = "  " * (depth + 1) + (f"{disk} ({key})" if disk else key)
            lines.append(f"{name:50} {theirs.get(key, '-'):>10} {ours.get(key, '-'):>17}")
    return lines


def folder_of(name, root):
    """The folder of the cgroup that a user calls @name."""
    folder = os.path.normpath(name if name.startswith(root + "/")
                              else os.path.join(root, name.lstrip("/")))
    if folder == root or not folder.startswith(root + "/"):
        raise DeviceError(f"{printable(name)} is no cgroup that has a weight: name one below "
                          f"{root}")
    if not os.path.isdir(folder):
        raise DeviceError(f"there is no cgroup {printable(name)} in {root}; systemctl show -p "
                          "ControlGroup UNIT prints the name of a unit's")
    return folder


def set_one(args, root):
    """Write the weight of a cgroup."""
    if args.weight is None:
        raise DeviceError("say which cgroup and which weight: mqfair weights set CGROUP WEIGHT")
    is_number = re.fullmatch(r"[0-9]+", args.weight) and LEAST <= int(args.weight) <= MOST
    if not is_number and not (args.device and args.weight == "default"):
        raise DeviceError(f"a weight is a number from {LEAST} to {MOST}, not "
                          f"{printable(args.weight)!r}")
    folder = folder_of(args.cgroup, root)
    line = f"default {args.weight}"
    if args.device:
        line = f"{read(Device(args.device).file('dev'))} {args.weight}"
    if not os.path.exists(os.path.join(folder, OURS)):
        raise DeviceError(f"{relative(folder, root)} has no {OURS}: enable the io controller for "
                          f"it: echo +io > {os.path.dirname(folder)}/cgroup.subtree_control")
    if is_followed() and weights_of(folder, THEIRS) not in (None, DEFAULT):
        raise DeviceError(f"mqfair weights --follow copies {THEIRS} of {relative(folder, root)}, "
                          "which is set: change that (of a systemd unit: IOWeight=)")
    try:
        write_line(os.path.join(folder, OURS), line)
    except PermissionError:
        raise
    except OSError as error:
        raise DeviceError(f"{OURS} of {relative(folder, root)} refuses {line!r}: "
                          f"{error.strerror}") from error


def copy(args, root):
    """--once and --follow."""
    copied = 0

    def tell(folder, line):
        nonlocal copied
        copied += 1
        print(json.dumps({"cgroup": relative(folder, root), "line": line}) if args.json
              else f"{relative(folder, root)}: {line}", flush=True)

    def complain(text):
        print(f"mqfair: {text}", file=sys.stderr, flush=True)

    follower = Follower(root, tell, complain)
    with the_only_one():
        if args.once:
            follower.look([root], everywhere=True)
            print(f"{len(follower.known)} cgroups, {copied} lines written", file=sys.stderr)
            return
        with contextlib.suppress(KeyboardInterrupt):        # a service ends by a signal
            follower.follow(args.interval)


def run(args):
    """List, set, or copy."""
    if bool(args.action) + args.follow + args.once > 1:
        raise DeviceError("set, --follow and --once exclude each other")
    if args.device and not args.action:
        raise DeviceError("--device goes with set")
    if args.interval <= 0:
        raise DeviceError("--interval must be more than 0")
    require_files(CGROUPS, args.follow or args.once)
    if args.action:
        set_one(args, CGROUPS)
    elif args.follow or args.once:
        copy(args, CGROUPS)
    else:
        found = every_cgroup(CGROUPS)
        print(json.dumps(found, indent=1) if args.json else "\n".join(tree(found)))
