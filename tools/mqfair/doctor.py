# SPDX-License-Identifier: GPL-2.0
"""Find out why a scheduler of mqfair does not do what you expect, and say the remedy.

doctor checks the kernel against SUPPORTED, its type information and headers, the installed modules
and whether the kernel accepts them, DKMS, the scheduler of each disk, what else sets a scheduler
(TuneD, udev rules), the tunables of each disk with a scheduler of ours, what lies around it (ZFS,
md, bcache, isolated CPUs, other controllers), and the weights of cgroups: also those that systemd
and container runtimes set where mq-mqfq does not read them. It changes nothing and needs no root.

Each finding is "ok", "note" (works, but look at it) or "fault" (does not work). The exit status is
1 if there is a fault. With DEV only that disk is checked.

--kernel-report prints one text to send with a question or a report of a fault: versions,
configuration, layouts, disks and findings, without names of hosts or cgroups. The exit status is 0.
"""
import glob
import json
import os
import re
import subprocess
from dataclasses import asdict, dataclass

import kernel_report
import surroundings
from device import printable
from weights import DEFAULT, parse

ONE_LINE = "find faults in the installation, the kernel, the disks or the settings; say what to do"
DEVICE_OPTIONAL = True

OURS = ("mq-k2", "mq-mqfq", "mq-tabs", "mq-octofas")
OK, NOTE, FAULT = "ok", "note", "fault"
# The public half of the key with which DKMS signs.
MOK = "/var/lib/dkms/mok.pub"


@dataclass(frozen=True)
class Finding:
    """One checked thing."""
    verdict: str
    about: str
    text: str
    remedy: str = ""


class Machine:
    """The files that doctor reads, below @root: a test plants its faults in its own folder."""

    def __init__(self, root="/", release=None, run=None):
        self.root = root
        self.release = release or os.uname().release
        self.run = run or self._run

    def path(self, name):
        """@name below the root."""
        return os.path.join(self.root, name.lstrip("/"))

    def read(self, name):
        """Text of a file; empty if it does not exist or cannot be read."""
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as handle:
                return handle.read().strip()
        except OSError:
            return ""

    def exists(self, name):
        """Whether there is such a file."""
        return os.path.exists(self.path(name))

    def find(self, pattern):
        """Names, as seen from the root, that match."""
        return sorted("/" + os.path.relpath(path, self.root)
                      for path in glob.glob(self.path(pattern)))

    def walk(self, top, *names):
        """For each of @names the files of that name in the tree of folders @top."""
        found = [[] for _ in names]
        for folder, children, files in os.walk(self.path(top)):
            children.sort()
            for paths, name in zip(found, names):
                if name in files:
                    paths.append("/" + os.path.relpath(os.path.join(folder, name), self.root))
        return found

    def weights(self, name):
        """A file of weights; the default ones if it cannot be read."""
        try:
            return parse(self.read(name)) or DEFAULT
        except ValueError:
            return DEFAULT

    @staticmethod
    def _run(*argv):
        """Output of a program; None if it is not installed or fails."""
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, check=False, timeout=30)
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None


def series(text):
    """(6, 12) of "6.12.107+deb13-amd64"; None if @text has no such numbers."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def supported():
    """{"Minimum": (6, 12), ...} from SUPPORTED, beside this program or at the checkout's top."""
    here = os.path.dirname(os.path.realpath(__file__))
    for path in (f"{here}/SUPPORTED", f"{here}/../../SUPPORTED"):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as handle:
                found = re.findall(r"^(Minimum|Maximum): *(\S+)", handle.read(), re.M)
            return {name: series(value) for name, value in found}
    return {}


def kernel(machine):
    """The running kernel: version, type information, headers."""
    limits, running = supported(), series(machine.release)
    if limits and running and not limits["Minimum"] <= running <= limits["Maximum"]:
        span = " to ".join(".".join(map(str, limits[name])) for name in ("Minimum", "Maximum"))
        yield Finding(FAULT, "kernel", f"{machine.release} is outside the supported range {span}",
                      "boot a kernel in that range, or get an mqfair that names this one")
    else:
        yield Finding(OK, "kernel", machine.release)
    if not machine.exists("/sys/kernel/btf/vmlinux"):
        yield Finding(FAULT, "type information",
                      "this kernel has no BTF, so modules cannot be checked against it and are "
                      "not built", "use a kernel with CONFIG_DEBUG_INFO_BTF=y; Debian's have it")
    if not machine.exists(f"/lib/modules/{machine.release}/build/Makefile"):
        yield Finding(FAULT, "headers",
                      f"there are no headers of {machine.release}: no module can be built for it",
                      f"apt install linux-headers-{machine.release}")


def installed(machine):
    """{module: path} of our modules that are installed for the running kernel."""
    found = {}
    for pattern in ("updates/dkms", "updates", "extra", "updates/*"):
        for path in machine.find(f"/lib/modules/{machine.release}/{pattern}/mq-*.ko*"):
            found.setdefault(os.path.basename(path).split(".ko")[0], path)
    return {name: path for name, path in found.items() if name in OURS}


def build_refusal(machine):
    """Why a build for the running kernel is refused; empty if it is not, or nobody can say."""
    build = f"/lib/modules/{machine.release}/build"
    programs = machine.find("/usr/src/mqfair-*/compat/preflight")
    if not programs or not machine.exists(f"{build}/Makefile"):
        return ""
    said = machine.run("sh", "-c", 'sh "$0" --layout "$1" 2>&1 || true', programs[-1], build)
    return (said or "").strip().removeprefix("mqfair: ")


def modules(machine):
    """Modules: installed for this kernel, known to modprobe, accepted by the kernel."""
    found = installed(machine)
    if not found:
        others = sorted({path.split("/")[3] for pattern in ("**/mq-*.ko*", "mq-*.ko*")
                         for path in machine.find(f"/lib/modules/*/updates/{pattern}")})
        text = f"no module of mqfair is installed for {machine.release}"
        refusal = build_refusal(machine)
        if refusal:
            yield Finding(FAULT, "modules", f"{text}, and none can be built: {refusal}",
                          "do as it says, or boot a kernel that SUPPORTED names")
        elif machine.find("/var/lib/dkms/mqfair/*"):
            logs = machine.find("/var/lib/dkms/mqfair/*/build/make.log")
            text += "; DKMS knows mqfair but has not built it for this kernel"
            text += f" (see {logs[-1]})" if logs else ""
            yield Finding(FAULT, "modules", text, f"dkms autoinstall -k {machine.release}")
        else:
            text += f", only for {', '.join(others)}" if others else ""
            yield Finding(FAULT, "modules", text,
                          "install mqfair-dkms, or in a checkout: make && make install")
        return
    yield Finding(OK, "modules",
                  f"{', '.join(sorted(found))} in {os.path.dirname(next(iter(found.values())))}")
    aliases = machine.read(f"/lib/modules/{machine.release}/modules.alias")
    missing = [name for name in found if f"{name}-iosched" not in aliases]
    if missing:
        yield Finding(FAULT, "aliases",
                      f"modprobe does not know {', '.join(missing)}: writing the name to "
                      "queue/scheduler will not load the module", f"depmod {machine.release}")
    yield from signatures(machine, found)


def signatures(machine, found):
    """Signatures of the modules, if the kernel loads signed modules only."""
    lockdown = re.search(r"\[(\w+)\]", machine.read("/sys/kernel/security/lockdown"))
    locked = lockdown and lockdown[1] != "none"
    if not locked and machine.read("/sys/module/module/parameters/sig_enforce") != "Y":
        return
    version = (machine.find("/var/lib/dkms/mqfair/[0-9]*") or ["VERSION"])[-1].split("/")[-1]
    again = " && ".join(f"dkms {step} --force mqfair/{version} -k {machine.release}"
                        for step in ("build", "install"))
    enroll = f"mokutil --import {MOK}, reboot, and enroll the key when the firmware asks"
    for name, path in sorted(found.items()):
        if path.endswith(".ko"):
            with open(machine.path(path), "rb") as handle:
                handle.seek(max(0, os.path.getsize(machine.path(path)) - 64))
                signed = b"~Module signature appended~" in handle.read()
        else:
            signed = bool((machine.run("modinfo", "-F", "signer", name) or "").strip())
        if not signed:
            yield Finding(FAULT, "signature",
                          f"this kernel loads signed modules only (Secure Boot), and {name} is not "
                          "signed", f"dkms generate_mok && {again}; then {enroll}")
            return
    if "is not enrolled" in (machine.run("mokutil", "--test-key", MOK) or ""):
        yield Finding(FAULT, "signature",
                      "this kernel loads signed modules only (Secure Boot), and does not know the "
                      f"key {MOK} with which DKMS signs", enroll)
    elif not machine.exists("/usr/bin/mokutil"):
        yield Finding(NOTE, "signature",
                      "this kernel loads signed modules only (Secure Boot); ours are signed, but "
                      "there is no mokutil to ask whether the firmware knows the key",
                      f"apt install mokutil; if modprobe says \"Key was rejected\": {enroll}")


def active(machine, disk):
    """The scheduler in use on @disk; empty if it has none."""
    found = re.search(r"\[([\w-]+)\]", machine.read(f"/sys/block/{disk}/queue/scheduler"))
    return found[1] if found else ""


def path_disks(machine, disk):
    """The paths (nvme0c0n1, ...) of an NVMe drive with multipath."""
    found = re.fullmatch(r"(nvme\d+)(n\d+)", disk)
    if not found:
        return []
    return [path.split("/")[3] for path in machine.find(f"/sys/block/{found[1]}c*{found[2]}")]


def disks(machine, only):
    """Which disks use which scheduler, and which cannot have one."""
    if only and not machine.exists(f"/sys/block/{only}"):
        yield Finding(FAULT, only, "is no disk",
                      "name a disk of /sys/block; a partition has no scheduler of its own")
        return
    names = [path.split("/")[3] for path in machine.find("/sys/block/*")]
    if only:
        names = [only, *path_disks(machine, only)]
    ours = {name: active(machine, name) for name in names if active(machine, name) in OURS}
    for name in names:
        others = [path for path in path_disks(machine, name) if path not in ours]
        if others:
            yield Finding(NOTE, name, "has its scheduler on each of its paths, and these do not "
                          f"use one of mqfair: {', '.join(others)}",
                          f"echo mq-mqfq > /sys/block/{others[0]}/queue/scheduler, or load "
                          "nvme-core with multipath=N")
    if not ours and not only:
        yield Finding(NOTE, "disks", "none uses a scheduler of mqfair",
                      "echo mq-mqfq > /sys/block/DISK/queue/scheduler")
    elif not ours and active(machine, only):
        yield Finding(FAULT, only,
                      f"does not use a scheduler of mqfair, but {active(machine, only)}",
                      f"echo mq-mqfq > /sys/block/{only}/queue/scheduler")
    elif not ours and names == [only]:
        yield Finding(FAULT, only, "has no scheduler: it is no request-based disk (dm, md)",
                      "set the scheduler of the disks below it")
    for name, scheduler in ours.items():
        yield Finding(OK, name, f"uses {scheduler}")
        yield from tunables(machine, name, scheduler)
        for text, remedy in surroundings.check(machine, name, scheduler):
            yield Finding(NOTE, name, text, remedy)


def number(machine, disk, name):
    """A tunable, or a file of the queue, as a number; None if it is no number."""
    text = machine.read(f"/sys/block/{disk}/queue/{name}")
    return int(text) if text.isdigit() else None


def tunables(machine, disk, scheduler):
    """Settings with which a scheduler has no effect."""
    queues = max(1, len(machine.find(f"/sys/block/{disk}/mq/*")))
    deep = (number(machine, disk, "nr_requests") or 0) * queues
    if scheduler == "mq-k2":
        bound = number(machine, disk, "iosched/max_inflight")
        auto = any(number(machine, disk, f"iosched/{name}")
                   for name in ("target_p999_us", "target_bw_pct"))
        if bound is not None and bound >= deep > 0 and not auto:
            yield Finding(NOTE, disk, f"max_inflight is {bound}, and no more than {deep} requests "
                          "fit in its queues: the bound never acts",
                          f"echo 8 > /sys/block/{disk}/queue/iosched/max_inflight")
    elif scheduler == "mq-mqfq":
        slots = number(machine, disk, "iosched/slots")
        if slots is not None and slots >= deep > 0:
            yield Finding(NOTE, disk, f"slots is {slots}, and no more than {deep} requests fit in "
                          "its queues: requests wait in the drive, where no scheduler orders them",
                          f"mqfair calibrate {disk}")
        if machine.read(f"/sys/block/{disk}/queue/iosched/flow") == "cgroup":
            yield from weights(machine)
    elif scheduler == "mq-tabs":
        unset = [name for name in ("max_read_kbps", "max_fua_write_kbps")
                 if number(machine, disk, f"iosched/{name}") == 0]
        if unset:
            yield Finding(FAULT, disk,
                          f"{' and '.join(unset)} not set: mq-tabs holds no request back",
                          f"mqfair calibrate --tabs {disk}")
        queue = f"/sys/block/{disk}/queue"
        if (machine.read(f"{queue}/write_cache") == "write through"
                or machine.read(f"{queue}/fua") == "0"):
            yield Finding(NOTE, disk, "has no volatile write cache, or no FUA: there are no FUA "
                          "writes for mq-tabs to schedule", "use another scheduler")


def weights(machine):
    """Weights of cgroups: whether they can be set, and whether they are."""
    top = "/sys/fs/cgroup"
    if "io" not in machine.read(f"{top}/cgroup.controllers").split():
        yield Finding(FAULT, "weights",
                      "the io controller is not in cgroup2: cgroups cannot have weights",
                      "boot without cgroup_disable=io, and unmount the v1 hierarchy of blkio or "
                      "boot with cgroup_no_v1=io")
        return
    if "io" not in machine.read(f"{top}/cgroup.subtree_control").split():
        yield Finding(FAULT, "weights",
                      "the io controller is not enabled for cgroups: all tenants are one flow",
                      f"echo +io > {top}/cgroup.subtree_control")
        return
    ours, theirs, bfq = ({os.path.dirname(path): machine.weights(path) for path in paths}
                         for paths in machine.walk(top, "io.mqfair.weight", "io.weight",
                                                   "io.bfq.weight"))
    changed = sum(have != DEFAULT for have in ours.values())
    ignored = {folder: want for folder, want in theirs.items()
               if want != DEFAULT and ours.get(folder, want) != want}
    yield from bfq_weights(machine, bfq)
    if ignored:
        yield not_followed(ignored, ours, top)
    elif ours and not changed:
        yield Finding(NOTE, "weights",
                      f"all {len(ours)} cgroups have the default weight of 100: equal shares",
                      "mqfair weights set GROUP 300, which writes its io.mqfair.weight")
    elif ours:
        yield Finding(OK, "weights",
                      f"{changed} of {len(ours)} cgroups have a weight of their own")


def words(weights):
    """"default 300 8:0 50" of a parsed file of weights."""
    return " ".join(f"{key} {weight}" for key, weight in weights.items())


def not_followed(ignored, ours, top):
    """What to do about cgroups with an io.weight that mq-mqfq does not have."""
    remedy = ("systemctl enable --now mqfair-weights, or in a checkout: tools/mqfair/mqfair "
              "weights --follow")
    folder, want = next(((folder, want) for folder, want in ignored.items()
                         if ours[folder] == DEFAULT), next(iter(ignored.items())))
    first = f"{printable(os.path.relpath(folder, top))}, {words(want)}"
    if ours[folder] == DEFAULT:
        return Finding(FAULT, "weights",
                       f"{len(ignored)} cgroups have an io.weight, as by IOWeight= of systemd, "
                       f"that mq-mqfq does not read (one is {first})", remedy)
    return Finding(NOTE, "weights",
                   f"{len(ignored)} cgroups have an io.weight that differs from their "
                   f"io.mqfair.weight (one is {first}, not {words(ours[folder])})",
                   remedy)


def wants_bfq_weight(machine):
    """Whether mq-mqfq is to be loaded with bfq_weight=1."""
    files = [path for folder in ("/etc", "/run", "/usr/lib")
             for path in machine.find(f"{folder}/modprobe.d/*.conf")]
    option = re.compile(r"^options\s+mq[-_]mqfq\s(.*\s)?bfq_weight=[1yY]\b", re.M)
    return (any(option.search(machine.read(path)) for path in files)
            or re.search(r"\bmq[-_]mqfq\.bfq_weight=[1yY]\b", machine.read("/proc/cmdline")))


def bfq_weights(machine, bfq):
    """The file io.bfq.weight, which is bfq's or, with bfq_weight=1, mq-mqfq's."""
    if machine.read("/sys/module/mq_mqfq/parameters/bfq_weight") == "Y":
        return
    has_bfq = machine.exists("/sys/module/bfq")
    written = sum(weights != DEFAULT for weights in bfq.values())
    again = "modprobe -r mq-mqfq; modprobe mq-mqfq bfq_weight=1"
    without_bfq = f"choose another scheduler for the disks that use bfq; modprobe -r bfq; {again}"
    if wants_bfq_weight(machine):
        yield Finding(FAULT, "weights",
                      "mq-mqfq refused bfq_weight=1 because bfq is loaded: io.bfq.weight is bfq's"
                      if has_bfq else "mq-mqfq was loaded without bfq_weight=1, or refused it",
                      without_bfq if has_bfq else again)
    elif has_bfq and written:
        yield Finding(NOTE, "weights",
                      f"{written} cgroups have an io.bfq.weight, as by a container runtime, that "
                      "only bfq reads", without_bfq)


def tuned_elevator(machine, profile, seen=()):
    """The scheduler that a profile of TuneD sets, itself or by an included profile; or None."""
    folders = ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned")
    text = next(filter(None,
                       (machine.read(f"{folder}/{profile}/tuned.conf") for folder in folders)), "")
    found = re.search(r"^elevator\s*=\s*(\S+)", text, re.M)
    if found:
        return found[1]
    included = re.search(r"^include\s*=\s*(.+)", text, re.M)
    names = re.split(r"[,;\s]+", included[1].strip()) if included else []
    names = [name for name in names if name not in seen]
    # A profile that is included later overrides the earlier ones.
    return next(filter(None, (tuned_elevator(machine, name, (*seen, profile))
                              for name in reversed(names))), None)


def rivals(machine):
    """Other programs that choose a scheduler, now or at the next boot."""
    profiles = machine.read("/etc/tuned/active_profile").split()
    schedulers = (tuned_elevator(machine, name) for name in reversed(profiles))
    chosen = next(filter(None, schedulers), None)
    if chosen and chosen not in OURS:
        yield Finding(FAULT, "TuneD",
                      f"the profile {' '.join(profiles)} sets the scheduler {chosen}, and will do "
                      "so again", "put elevator=mq-mqfq into a profile of yours that includes "
                      f"{', '.join(profiles)}, and choose your profile")
    for path in [path for folder in ("/etc", "/run", "/usr/lib")
                 for path in machine.find(f"{folder}/udev/rules.d/*.rules")]:
        for line in machine.read(path).splitlines():
            found = re.search(r'ATTR\{queue/scheduler\}="([\w-]+)"', line)
            if found and not line.startswith("#") and found[1] not in OURS:
                yield Finding(NOTE, "udev",
                              f"{path} sets the scheduler {found[1]} when a disk appears",
                              "put the rule of mqfair into /etc/udev/rules.d/ under a name that "
                              f"sorts after {os.path.basename(path)}")
    for word in machine.read("/proc/cmdline").split():
        if word.startswith("elevator="):
            yield Finding(NOTE, "kernel command line", f"{word} has had no effect since 5.0",
                          "use a udev rule")


def examine(machine, only=None):
    """All findings, in the order in which one would look."""
    return [*kernel(machine), *modules(machine), *disks(machine, only), *rivals(machine)]


def arguments(parser):
    """The options of this command."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true",
                      help="findings as JSON: verdict, about, text, remedy")
    form.add_argument("--kernel-report", action="store_true",
                      help="a text about this kernel, to send with a question")


def run(args):
    """Examine and print; 1 if there is a fault."""
    # A name in /dev or sysfs, or a link to one (/dev/disk/by-id/...).
    machine = Machine()
    found = examine(machine,
                    os.path.basename(os.path.realpath(args.device)) if args.device else None)
    if args.kernel_report:
        print("\n".join(kernel_report.lines(machine, found, supported())), end="")
        return 0
    if args.json:
        print(json.dumps([asdict(finding) for finding in found], indent=2))
    else:
        for finding in found:
            print(f"{finding.verdict:6}{finding.about}: {finding.text}"
                  + (f"\n{'':8}do: {finding.remedy}" if finding.remedy else ""))
    return int(any(finding.verdict == FAULT for finding in found))
