# SPDX-License-Identifier: GPL-2.0
"""peers: durable puts and gets of octokvd beside fio, Host-KVS, Valkey and RocksDB.

What each makes of one drive: values of 16 KiB, written so that they survive power loss, by 1, 16 and 64 clients, and read at random. fio with as many
requests in flight is what the drive gives. Host-KVS, what the OctoKV paper compares with (its figures 4 to 6), is at its best here: records of a file per thread on ext4 with
fsync, written by the load generator itself, with no server and no network. octokvd has the drive without a file system; the others have a new ext4. The work is that of tools/octokv/bench/peers, which also runs on real drives.

Three drives: ssdsim's default; one whose reads take four times as long; and one of 4 GiB, on which octokvd has its 16 partitions, and not 4. A guest under virtual time has 10^9 instructions a second for clients, server, TCP and the drive's driver
together, as one slow core; on the default drive that is what bounds gets, on the second it is the drive.
"""
import os
import time

from kit import lab, report

ONE_LINE = "durable puts and gets of octokvd beside fio, files, Valkey and RocksDB (vm, virtual time)"

CPUS = 2
PARAMS = {"queues": CPUS, "size_mb": 1024}
PROGRAM = os.path.join(lab.CHECKOUT, "tools/octokv/bench/peers")
WHO = ("fio", "octokvd", "Host-KVS", "Valkey", "RocksDB")
QUICK_WHO = ("fio", "octokvd", "Host-KVS")
# The size of the drive is nothing to those that are left out.
DRIVES = {"default": (PARAMS, WHO), "slow reads": ({**PARAMS, "read_ns": 430000, "xfer_unit_ns": 102800}, WHO), "4 GiB": ({**PARAMS, "size_mb": 4096}, QUICK_WHO)}
REFERENCE = WHO[0]
SECONDS = 4
METRICS = {"per_s": ("rate", "1/s", 1), "mean_us": ("mean", "ms", 1000), "p999_us": ("p99.9", "ms", 1000)}
WORDS = {"put": "puts", "get": "gets"}


def plans(quick):
    """A plan for each drive, a step for each peer, each on a drive that nobody has written to."""
    return [[{"label": f"{drive}, {who}", "drive": drive, "device": {"kind": "ssdsim", "params": params, "sysfs": {}}, "fresh": True, "scheduler": "none",
              "measure": "peers", "program": PROGRAM, "build": lab.OCTOKV, "who": who, "seconds": SECONDS} for who in (QUICK_WHO if quick else all_of_them)]
            for drive, (params, all_of_them) in (list(DRIVES.items())[:1] if quick else DRIVES.items())]


def rows(step, answer):
    """The rows of one peer on one drive."""
    return [report.row(f"{step['drive']}, {WORDS[found['what']]}, {found['clients']}", step["who"], metric, [found[key] / scale], unit, digits=2)
            for found in answer for key, (metric, unit, scale) in METRICS.items()]


def run(args):
    """Measure; the result dictionary."""
    started = time.monotonic()
    todo = plans(args.quick)
    backend, release, results = lab.run_octokvd(args.kernel, CPUS, todo)
    return {"benchmark": "peers", "backend": backend, "kernel": release,
            "parameters": {"device": "ssdsim, default profile, 1 GiB; slow reads: four times as long; 4 GiB", "cpus": CPUS, "value_bytes": 16384, "runtime_s": SECONDS,
                           "wall_s": round(time.monotonic() - started)},
            "rows": [entry for plan, answers in zip(todo, results) for step, answer in zip(plan, answers) for entry in rows(step, answer)]}


def share_pct(result, case, who):
    """Rate of @who in percent of fio's; None if @who does not do that."""
    rate = report.value(result, case, who, "rate")
    return None if rate is None else 100 * rate / report.value(result, case, REFERENCE, "rate")


def _cell(result, case, who):
    if share_pct(result, case, who) is None:
        return ""
    text = f"{report.value(result, case, who, 'rate'):.0f}"
    return (text if who == REFERENCE else f"{text} {share_pct(result, case, who):.0f}%") + f" {report.value(result, case, who, 'p99.9'):.1f}"


def table(result):
    """The figures as text."""
    names = report.unique(result, "scheduler")
    return report.table(["per second, % of fio, p99.9 in ms", *names],
                        [[case, *(_cell(result, case, who) for who in names)] for case in report.unique(result, "case")])


def draw(result, plt):
    """Share of what fio has, a panel for each drive and kind of request."""
    colors = dict(zip(WHO, ("#cccccc", "#1f4e8c", "#b0413e", "#8a8a8a", "#c9a227")))
    cases, names = report.unique(result, "case"), [name for name in report.unique(result, "scheduler") if name != REFERENCE]
    panels = list(dict.fromkeys(case.rpartition(", ")[0] for case in cases))
    figure, axes = plt.subplots(1, len(panels), figsize=(4.2 * len(panels), 4), squeeze=False, sharey=True)
    for axis, panel in zip(axes[0], panels):
        clients = [case.rpartition(", ")[2] for case in cases if case.rpartition(", ")[0] == panel]
        shown = [name for name in names if share_pct(result, f"{panel}, {clients[0]}", name) is not None]
        for number, name in enumerate(shown):
            width = 0.8 / len(shown)
            axis.bar([place + (number - (len(shown) - 1) / 2) * width for place in range(len(clients))],
                     [share_pct(result, f"{panel}, {count}", name) for count in clients], width, color=colors[name], label=name)
        axis.axhline(100, color="#888888", linewidth=0.8, linestyle=":")
        axis.set_xticks(range(len(clients)), [f"{count} client{'s' if count != '1' else ''}" for count in clients], fontsize=8)
        axis.set_title(f"drive: {panel}", fontsize=9)
        axis.legend(frameon=False, fontsize=8)
    axes[0][0].set_ylabel("rate, % of fio's")
    figure.suptitle("Durable puts, and gets, of 16 KiB", fontsize=12, fontweight="bold")
    parameters = result["parameters"]
    figure.text(0.01, 0.01, f"Device: {parameters['device']}.\n{result['backend']} (one instruction = 1 ns), Linux {result['kernel']}, {parameters['cpus']} CPUs, "
                f"{parameters['runtime_s']} s per figure.", fontsize=7.5, color="#444444", va="bottom")
    figure.tight_layout(rect=(0, 0.1, 1, 0.95))
    return figure
