# SPDX-License-Identifier: GPL-2.0
"""One text about a kernel and its disks, to send with a question or a report of a fault.

It has what decides whether the modules can be built, loaded and used: versions, the configuration
as far as it matters, the layouts of the structures that mqfair shares with the block layer, the
disks, and doctor's findings. It has no name of the host, no serial number, no cgroup, and of the
kernel's command line only the words that are named here.
"""
import gzip
import os
import re
import sys

from weights import DEFAULT

HERE = os.path.dirname(os.path.realpath(__file__))
OPTIONS = re.compile(
    r"^(?:# )?(CONFIG_(?:BLK_\w+|IOSCHED_\w+|MQ_IOSCHED_\w+|BFQ_\w+|CGROUPS|MEMCG|64BIT|KUNIT|"
    r"DEBUG_INFO_BTF\w*|CC_IS_\w+|GCC_VERSION|CLANG_VERSION|PAHOLE_VERSION|"
    r"MODULE_SIG(?:_FORCE|_ALL|_SHA\w*)?|MODVERSIONS|PREEMPT\w*|HZ|NR_CPUS|NVME_\w+|BCACHE|LTO_\w+|CFI_CLANG|RUST|GENDWARFKSYMS))"
    r"(?:=| is not set).*$",
    re.M)
COMMAND_LINE = re.compile(r"(isolcpus|nohz_full|rcu_nocbs|cgroup_\w+|elevator|nvme\w*\.\w+|"
                          r"mq[-_]\w+\.\w+|scsi_mod\.\w+|preempt|mitigations|module\.\w+)=")
# What mqfair shares with the block layer: compat/ declares these, or reads their members.
STRUCTS = ("elevator_type", "elevator_mq_ops", "elevator_queue", "elevator_tags", "elv_change_ctx",
           "elv_fs_entry", "blk_mq_ctx", "blk_mq_alloc_data", "blk_mq_hw_ctx", "blk_mq_tags",
           "blk_mq_debugfs_attr", "rq_qos", "request", "request_queue", "blkcg", "blkcg_policy",
           "blkcg_gq", "sbitmap", "sbitmap_queue")
FUNCTIONS = ("elv_register", "elv_unregister", "elv_rqhash_add", "elv_rb_add",
             "blk_mq_sched_try_merge", "blk_mq_sched_try_insert_merge", "blk_bio_list_merge",
             "blk_mq_sched_mark_restart_hctx", "blk_stat_enable_accounting", "wbt_disable_default",
             "blkcg_policy_register", "blk_mq_freeze_queue", "blk_mq_freeze_queue_nomemsave")
QUEUE = ("scheduler", "nr_requests", "rotational", "write_cache", "fua", "zoned", "wbt_lat_usec",
         "io_poll", "rq_affinity", "nomerges", "max_sectors_kb", "logical_block_size")


def _config(machine):
    """The kernel's configuration; empty if it is not to be found."""
    for path in (f"/boot/config-{machine.release}", f"/lib/modules/{machine.release}/config",
                 f"/lib/modules/{machine.release}/build/.config"):
        text = machine.read(path)
        if text:
            return path, text
    try:
        with gzip.open(machine.path("/proc/config.gz"), "rt", encoding="utf-8") as handle:
            return "/proc/config.gz", handle.read()
    except OSError:
        return "", ""


def _versions(machine, limits):
    """Of the kernel, the compiler, the distribution and mqfair, which supports @limits."""
    span = [".".join(map(str, limits[name])) for name in ("Minimum", "Maximum") if name in limits]
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)', machine.read("/etc/os-release"), re.M)
    # "(user@host)" of a kernel that somebody built.
    version = re.sub(r"\([^()\s]+@[^()\s]+\) ?", "", machine.read("/proc/version"))
    command_line = [word for word in machine.read("/proc/cmdline").split()
                    if COMMAND_LINE.match(word)]
    return [f"kernel: {machine.release}, {os.uname().machine}",
            f"version: {version}",
            f"distribution: {pretty[1] if pretty else 'not known'}",
            f"mqfair supports: {' to '.join(span) or 'not known'}",
            f"CPUs: {machine.read('/sys/devices/system/cpu/possible')}, isolated: "
            f"{machine.read('/sys/devices/system/cpu/isolated') or 'none'}",
            f"command line, in part: {' '.join(command_line) or 'nothing of interest'}"]


def _options(machine):
    path, text = _config(machine)
    found = [match[0] for match in OPTIONS.finditer(text)]
    return [f"from {path}", *found] if found else ["the configuration was not found"]


def _disks(machine):
    """A line per disk that has hardware queues."""
    for path in machine.find("/sys/block/*/mq"):
        folder = os.path.dirname(path)
        words = [f"{name} {machine.read(f'{folder}/queue/{name}')}" for name in QUEUE
                 if machine.exists(f"{folder}/queue/{name}")]
        model = machine.read(f"{folder}/device/model")
        yield (f"{os.path.basename(folder)}: {model + ', ' if model else ''}"
               f"{len(machine.find(path + '/*'))} hardware queues; {'; '.join(words)}")
        for tunable in machine.find(f"{folder}/queue/iosched/*"):
            yield f"    {os.path.basename(tunable)} {machine.read(tunable)}"


def _reader():
    """compat/btf.py, which lies beside this program or in the checkout."""
    sys.path[:0] = [HERE, os.path.join(HERE, "../../compat")]
    import btf      # pylint: disable=import-outside-toplevel,import-error
    return btf


def _layouts(machine):
    """Members with their offsets in bytes, and prototypes, as the kernel's type information has."""
    btf = _reader()
    image = machine.path("/sys/kernel/btf/vmlinux")
    try:
        types = btf.Btf(image, (*STRUCTS, *FUNCTIONS))
    except btf.BtfError as error:
        yield str(error)
        return
    for name in STRUCTS:
        if not types.find("struct", name):
            yield f"struct {name}: none"
        for number in types.find("struct", name):
            yield f"struct {name}, {types.size(number)} bytes"
            for member, kind, bits, _ in types.members(number):
                yield f"    {bits // 8:6}  {types.text(kind, member)}"
    for name in FUNCTIONS:
        if not types.find("func", name):
            yield f"{name}(): none"
        for number in types.find("func", name):
            yield types.text(types.ref(number), name)


def _findings(found):
    """doctor's, without those that may name a cgroup."""
    for finding in found:
        if finding.about != "weights":
            yield f"{finding.verdict:6}{finding.about}: {finding.text}"


def _cgroups(machine):
    """How many cgroups have files of ours, and how many a weight."""
    ours, theirs = machine.walk("/sys/fs/cgroup", "io.mqfair.weight", "io.weight")
    changed = [sum(machine.weights(path) != DEFAULT for path in paths) for paths in (ours, theirs)]
    return [f"io.mqfair.weight: {len(ours)} files, {changed[0]} changed; io.weight: {len(theirs)} "
            f"files, {changed[1]} changed"]


def lines(machine, found, limits):
    """The report, with doctor's findings @found and the kernels that SUPPORTED names, @limits."""
    for title, part in (("Versions", _versions(machine, limits)), ("Findings", _findings(found)),
                        ("Disks", _disks(machine)), ("Cgroups", _cgroups(machine)),
                        ("Configuration", _options(machine)), ("Layouts", _layouts(machine))):
        yield from (f"== {title}", *part, "")
