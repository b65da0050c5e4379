# SPDX-License-Identifier: GPL-2.0
"""A look at a disk (capture.py) as a part of a page.

It shows requests and bandwidth over time, each flow's share against its weight and how long it was
throttled, what requests cost as far as mq-mqfq has learned it, the scheduler's counters, its
settings, what doctor says, and what was missing.
"""
import capture
from page import picture, plain_table, table, text, words

# A picture with more lines cannot be read: only the largest flows have one.
FLOWS_DRAWN = 12
COLORS = ("#1f4e8c", "#b0413e", "#c9a15a", "#5a9a6a", "#8064a2", "#3aa6a6", "#d98200", "#7f7f7f",
          "#7fa8d1", "#d58d8b", "#3d3d3d", "#a8c686")
FLOW_COLUMNS = ("flow", "weight", "due_pct", "got_pct", "mb_s", "requests", "ahead_kb",
                "throttled_pct")
# The tunable that bounds the number of requests at the disk.
BOUNDS = {"mq-mqfq": "slots", "mq-k2": "max_inflight"}
BYTES_PER_MB = 1e6
BANDWIDTH_POINTS = 50


def bound(found):
    """(name, value) of the tunable that bounds the requests at the disk; None if not a number."""
    name = BOUNDS.get(found["scheduler"])
    value = found["tunables"].get(name, "") if name else ""
    return (name, int(value)) if value.isdigit() else None


def bandwidth(samples):
    """[(s, MB/s read, MB/s written)], smoothed: the samples lie closer than a drive's requests."""
    every = max(1, len(samples) // BANDWIDTH_POINTS)
    marks = samples[::every]
    return [(now[0] / 1000,
             *((now[i] - then[i]) / (now[0] - then[0]) * 1000 / BYTES_PER_MB for i in (2, 3)))
            for then, now in zip(marks, marks[1:]) if now[0] > then[0]]


def draw_disk(found, plt):
    """From top to bottom: requests at the disk, requests waiting in the scheduler, bandwidth."""
    queues = [queue for queue in (found["waiting"][0][1] if found["waiting"] else {})
              if any(now.get(queue) for _, now in found["waiting"])]
    figure, panels = plt.subplots(2 + bool(queues), 1, figsize=(10.5, 4.6 + 2.2 * bool(queues)),
                                  sharex=True)
    above, below = panels[0], panels[-1]
    for queue, color in zip(queues, COLORS):
        panels[1].plot([at / 1000 for at, _ in found["waiting"]],
                       [now.get(queue, 0) for _, now in found["waiting"]], color=color,
                       marker=".", label=queue)
    if queues:
        panels[1].set_ylim(0)
        panels[1].set_ylabel("requests waiting")
        panels[1].legend(frameon=False, ncols=6, fontsize=8)
    above.step([sample[0] / 1000 for sample in found["samples"]],
               [sample[1] for sample in found["samples"]], where="post", color=COLORS[0],
               linewidth=0.9)
    if bound(found):
        name, value = bound(found)
        most = max(sample[1] for sample in found["samples"])
        if value <= 2 * most:       # a line far above would press the curve flat
            above.axhline(value, color=COLORS[1], linewidth=0.9, linestyle=":")
            above.text(1, value, f" {name}", transform=above.get_yaxis_transform(), color=COLORS[1],
                       va="center", fontsize=8)
    above.set_ylim(0)
    above.set_ylabel("requests at the disk")
    for column, (name, color) in enumerate((("read", COLORS[0]), ("written", COLORS[6])), 1):
        points = bandwidth(found["samples"])
        below.plot([point[0] for point in points], [point[column] for point in points],
                   color=color, label=name)
    below.set_ylim(0)
    below.set_ylabel("MB/s")
    below.set_xlabel("s")
    below.legend(frameon=False, ncols=2, fontsize=8)
    figure.tight_layout()
    return figure


def draw_flows(found, plt):
    """Each flow's due share and its real one."""
    flows = found["flows"][:FLOWS_DRAWN]
    figure, axes = plt.subplots(figsize=(10.5, 0.8 + 0.36 * len(flows)))
    for place, flow in enumerate(flows):
        axes.barh(place, flow["got_pct"], color=COLORS[place % len(COLORS)], height=0.6)
        axes.plot([flow["due_pct"]] * 2, [place - 0.42, place + 0.42], color="black", linewidth=2,
                  label="due by its weight" if place == 0 else None)
        axes.text(flow["got_pct"], place, f" {flow['got_pct']:.1f}%", va="center", fontsize=8)
    axes.set_yticks(range(len(flows)),
                    [f"{flow['flow'][:40]} ({flow['weight']})" for flow in flows])
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.set_xlabel("part of the bytes, %; black: due by weight, of all flows that had requests")
    figure.tight_layout()
    return figure


def draw_windows(found, plt):
    """The largest flows over time: bandwidth, and throttled time of their hardware queues."""
    figure, panels = plt.subplots(2, 1, figsize=(10.5, 5), sharex=True)
    times = [window[0] / 1000 for window in found["windows"]]
    for place, flow in enumerate(found["flows"][:FLOWS_DRAWN]):
        own = [next((row for row in rows if row["flow"] == flow["flow"]), {})
               for _, rows in found["windows"]]
        for axes, key in zip(panels, ("mb_s", "throttled_pct")):
            axes.plot(times, [row.get(key, 0) for row in own], color=COLORS[place % len(COLORS)],
                      label=flow["flow"][:40], marker=".", linewidth=1.2)
    for axes, name in zip(panels, ("MB/s", "throttled, % of the time,\nsum of hardware queues")):
        axes.set_ylim(0)
        axes.set_ylabel(name)
    panels[1].set_xlabel("s")
    panels[0].legend(frameon=False, fontsize=8, ncols=3, loc="lower center",
                     bbox_to_anchor=(0.5, 1))
    figure.tight_layout()
    return figure


def costs(found):
    """What mq-mqfq has learned of costs: [(operation, bytes, ns, part of the time in %)]."""
    rows = [line.split() for line in found["files"].get("cost", "").splitlines()]
    return [(row[0], int(row[1]), int(row[2]), int(row[3]) / 1e4) for row in rows
            if len(row) == 4 and row[1].isdigit()]


def draw_costs(found, plt):
    """A line for each operation: what a request takes, by its size; a dot's area is its share."""
    figure, axes = plt.subplots(figsize=(10.5, 4))
    learned = costs(found)
    for operation, color in zip(dict.fromkeys(row[0] for row in learned), COLORS):
        own = [row for row in learned if row[0] == operation]
        kib, us = [row[1] / 1024 for row in own], [row[2] / 1000 for row in own]
        axes.plot(kib, us, color=color, linewidth=1.2, label=operation)
        axes.scatter(kib, us, color=color, s=[20 + 6 * row[3] for row in own])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("size of a request, KiB")
    axes.set_ylabel("the disk's time, us")
    axes.legend(frameon=False)
    figure.tight_layout()
    return figure


def costs_part(found):
    """What a request takes of the disk's time."""
    learned = costs(found)
    if not learned:
        return ""
    return ("<h3>What requests cost</h3>\n"
            + picture(draw_costs, found, alt="time that a request takes, by operation and size")
            + plain_table({"columns": ["operation", "mean size, KiB", "the disk's time, us",
                                       "part of the time, %"],
                           "rows": [[row[0], round(row[1] / 1024, 1), round(row[2] / 1000, 1),
                                     round(row[3], 1)] for row in learned]}))


def flows_part(found):
    """Shares against weights."""
    if not found["flows"]:
        return ""
    more = len(found["flows"]) - FLOWS_DRAWN
    return ("<h3>Shares of flows</h3>\n"
            + picture(draw_flows, found, alt="share of each flow against its due")
            + picture(draw_windows, found, alt="flows over time")
            + (f"<p><small>The pictures have the {FLOWS_DRAWN} largest flows; {more} more are in "
               "the table.</small></p>\n" if more > 0 else "")
            + plain_table({"columns": ["flow", "weight", "due, %", "got, %", "MB/s", "requests now",
                                       "ahead now, KiB", "throttled, %"],
                           "rows": [[flow[name] for name in FLOW_COLUMNS]
                                    for flow in found["flows"]]}))


def findings_part(found):
    """What doctor says."""
    return "<h3>What doctor says</h3>\n" + table(["", "about", "finding", "what to do"], [
        [f'<span class="{text(finding["verdict"])}">{text(finding["verdict"])}</span>',
         *(text(finding[key]) for key in ("about", "text", "remedy"))]
        for finding in found["findings"]]).replace("<table>", '<table class="words">', 1)


def files_part(found):
    """The scheduler's files, as tables if they are tables, else as text."""
    out = []
    for name, content in found["files"].items():
        as_table = capture.table_of(content)
        out.append(f"<details><summary>{text(name)}</summary>\n"
                   + (plain_table(as_table) if as_table else f"<pre>{text(content)}</pre>\n")
                   + "</details>\n")
    return "<h3>All files of the scheduler in debugfs</h3>\n" + "".join(out) if out else ""


def counters_part(found):
    """The scheduler's counters over the time."""
    out = ""
    if found["counters"]:
        out += f"<h3>Requests in these {text(found['seconds'])} s</h3>\n"
        out += plain_table(found["counters"])
    if found["hardware_queues"]:
        out += ("<h3>Hardware queues</h3>\n<p><small>throttles: waits because all flows of the "
                "queue were ahead; slot_waits: waits because all slots were in use.</small></p>\n")
        out += plain_table(found["hardware_queues"])
    return out


def show(found):
    """The part of the page."""
    about = [("scheduler", found["scheduler"]), ("kernel", found["kernel"]),
             ("begun", found["begun"]), ("length", f"{found['seconds']} s"),
             *(("queue/" + name, value) for name, value in found["queue"].items())]
    out = words(about)
    if found["missing"]:
        out += "<h3>What was missing</h3>\n" + words(found["missing"].items())
    if found["samples"]:
        alt = "requests at the disk, requests that wait, and bandwidth, over time"
        out += "<h3>The disk</h3>\n" + picture(draw_disk, found, alt=alt)
    out += flows_part(found) + costs_part(found) + counters_part(found) + findings_part(found)
    if found["tunables"]:
        out += "<h3>Tunables</h3>\n" + words(found["tunables"].items())
    return out + files_part(found)
