# SPDX-License-Identifier: GPL-2.0
"""peers: durable puts and gets of octokvd beside fio, Host-KVS, Valkey and RocksDB.

Each writes values of 16 KiB to one drive, so that they survive power loss, with 1, 16 and 64
clients, and some read them at random. fio with as many requests in flight is the drive's limit.
Host-KVS is what the OctoKV paper compares with (its figures 4 to 6): records of a file per thread
on ext4 with fsync. Here it is at its best: the load generator itself writes them, with no server
and no network. octokvd has the drive without a file system; the others have a new ext4.
tools/octokv/bench/peers does the work; it also runs on real drives.

Three drives: ssdsim's default; one whose reads take four times as long; and one of 4 GiB, on which
octokvd has its 16 partitions instead of 4. A guest under virtual time has 10^9 instructions a
second for clients, server, TCP and the drive's driver together, as one slow core. That core limits
gets on the default drive; on the second one the drive does.

Finally the servers have a guest with one CPU. There an instruction takes a nanosecond of the
processor, and the time that a server's threads had it is a count of their instructions. What part
of it is outside the kernel is sampled. With more CPUs a thread's time passes while the guest is at
another CPU.
"""

from kit import lab, report, style

ONE_LINE = "durable puts and gets of octokvd beside fio, files, Valkey and RocksDB"

CPUS = 2
PARAMS = {"queues": CPUS, "size_mb": 1024}
SLOW_READS = {**PARAMS, "read_ns": 430000, "xfer_unit_ns": 102800}
PROGRAM = "tools/octokv/bench/peers"
WHO = ("fio", "octokvd", "octokvd, LZ4", "Host-KVS", "Valkey", "RocksDB")
QUICK_WHO = ("fio", "octokvd", "octokvd, LZ4", "Host-KVS")
# The size of the drive makes no difference to those that its entry leaves out.
DRIVES = {"default": (PARAMS, WHO), "slow reads": (SLOW_READS, WHO),
          "4 GiB": ({**PARAMS, "size_mb": 4096}, QUICK_WHO)}
REFERENCE, OURS = WHO[0], WHO[1:3]
SECONDS = 4
METRICS = {"per_s": ("rate", "1/s", 1), "mean_us": ("mean", "ms", 1000),
           "p999_us": ("p99.9", "ms", 1000)}
# With one CPU: of the server, for each request.
SERVERS = ("octokvd", "Valkey")
SERVER_METRICS = {"server_us": ("server", "us", 1), "server_user_us": ("server, user", "us", 1)}
WORDS = {"put": "puts", "get": "gets"}


def _step(drive, params, who, cpus=CPUS):
    return {"label": f"{drive}, {who}", "drive": drive, "cpus": cpus,
            "device": {"kind": "ssdsim", "params": params, "sysfs": {}}, "fresh": True,
            "scheduler": "none", "measure": "peers", "program": PROGRAM, "build": lab.OCTOKV,
            "who": who, "seconds": SECONDS}


def plans(quick):
    """A plan for each drive, a step for each peer, each on a new drive."""
    drives = list(DRIVES.items())[:1] if quick else DRIVES.items()
    servers = SERVERS[:1] if quick else SERVERS
    return [[_step(drive, params, who) for who in (QUICK_WHO if quick else everyone)]
            for drive, (params, everyone) in drives] + [
                [_step("one CPU", {**PARAMS, "queues": 1}, who, 1) for who in servers]]


def rows(step, answer):
    """The rows of one peer on one drive."""
    metrics = METRICS if step["cpus"] == CPUS else SERVER_METRICS
    return [report.row(f"{step['drive']}, {WORDS[found['what']]}, {found['clients']}", step["who"],
                       metric, [found[key] / scale], unit, digits=2)
            for found in answer for key, (metric, unit, scale) in metrics.items()]


def run(args):
    """Measure; the result dictionary."""
    todo = plans(args.quick)
    lab.build_octokvd()
    ran, results = lab.measure([(lab.virtual(args.kernel, plan[0]["cpus"]), plan)
                                for plan in todo], may_lose=True)
    parameters = {"device": "ssdsim, default profile, 1 GiB; slow reads: four times as long; "
                            "4 GiB",
                  "cpus": CPUS, "server_cpus": 1, "value_bytes": 16384, "runtime_s": SECONDS}
    return report.result("peers", ran, parameters,
                         [entry for step, answer in lab.flat(todo, results)
                          for entry in rows(step, answer)])


def share_pct(result, case, who):
    """Rate of @who in percent of fio's; None if @who does not do that."""
    rate = report.value(result, case, who, "rate")
    return None if rate is None else 100 * rate / report.value(result, case, REFERENCE, "rate")


def _cell(result, case, who):
    share = share_pct(result, case, who)
    if share is None:
        return ""
    rate = f"{report.value(result, case, who, 'rate'):.0f}"
    tail = f"{report.value(result, case, who, 'p99.9'):.1f}"
    return f"{rate} {tail}" if who == REFERENCE else f"{rate} {share:.0f}% {tail}"


def _server_cell(result, case, who):
    total, user = (report.value(result, case, who, metric)
                   for metric, *_ in SERVER_METRICS.values())
    return "" if total is None else f"{total:.1f} {user:.1f}"


def table(result):
    """The figures as text."""
    names = report.unique(result, "scheduler")
    rates = report.table(["per second, % of fio, p99.9 in ms", *names],
                         [[case, *(_cell(result, case, who) for who in names)]
                          for case in report.cases_with(result, "rate")])
    counted = report.cases_with(result, "server")
    servers = [who for who in names if any(_server_cell(result, case, who) for case in counted)]
    return rates + "\n\n" + report.table(
        ["thousand instructions, of them user's", *servers],
        [[case, *(_server_cell(result, case, who) for who in servers)] for case in counted])


# ---- the picture ----

def finding(result):
    """What the picture shows, in a sentence."""
    cases = report.cases_with(result, "rate")
    clients = cases[-1].rpartition(", ")[2]
    puts = [case for case in cases if case.endswith(f"puts, {clients}")]
    ours = [share_pct(result, case, "octokvd") for case in puts]
    others = [share_pct(result, case, who) for case in puts
              for who in report.unique(result, "scheduler") if who not in (REFERENCE, *OURS)]
    best = max(share for share in others if share is not None)
    return (f"Durable puts of {clients} clients, in percent of fio's: octokvd {min(ours):.0f} to "
            f"{max(ours):.0f}, the best of the others {best:.0f}")


def _draw_panel(axis, result, panel, clients):
    """A group of lines for each number of clients, a line for each peer."""
    labels, place = {}, 0
    for count in clients:
        case = f"{panel}, {count}"
        shown = [who for who in style.PEERS if who != REFERENCE and share_pct(result, case, who)]
        rate = report.value(result, case, REFERENCE, "rate")
        word = f"{count} client{'' if count == '1' else 's'}"
        labels[place + (len(shown) - 1) / 2] = f"{word}\n(fio: {rate:.0f}/s)"
        for who in shown:
            share = share_pct(result, case, who)
            axis.plot([share], [place], "o", color=style.PEERS[who], zorder=3)
            style.value_beside(axis, f"{share:.0f}%", share, place)
            place += 1
        place += 0.7
    axis.set_yticks(list(labels), labels.values())
    axis.set_ylim(place - 0.9, -0.8)
    axis.tick_params(axis="y", length=0)
    axis.set_xscale("log")
    axis.set_xlim(15, 3500)
    ticks = (20, 50, 100, 300, 1000)
    axis.set_xticks(ticks, [f"{tick}%" for tick in ticks])
    axis.minorticks_off()
    style.guide(axis, 100)


def draw(result, plt):
    """The share of fio's rate, a panel for each drive and kind of request."""
    cases = report.cases_with(result, "rate")
    drives = list(dict.fromkeys(case.split(", ")[0] for case in cases))
    kinds = list(dict.fromkeys(case.split(", ")[1] for case in cases))
    clients = list(dict.fromkeys(case.split(", ")[2] for case in cases))
    figure, axes = style.panels(plt, len(kinds), len(drives), 3.7, 2.5)
    for line, kind in zip(axes, kinds):
        for axis, drive in zip(line, drives):
            _draw_panel(axis, result, f"{drive}, {kind}", clients)
            axis.set_title(f"{kind}, drive: {drive}", loc="left")
    for axis in axes[-1]:
        axis.set_xlabel("rate, % of fio's (log)")
    shown = {who: style.PEERS[who] for who in report.unique(result, "scheduler")
             if who != REFERENCE}
    footer = style.conditions(result, "Dotted: fio. Valkey answers gets from memory.",
                              each="figure")
    return style.finish(figure, finding(result), footer, style.marks(shown))
