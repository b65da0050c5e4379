# SPDX-License-Identifier: GPL-2.0
"""One style for all pictures: a colour per scheduler; title, legend and footer outside the data.

A picture's title is its finding; the benchmark computes it from the rows. Sizes are in inches,
sizes of text in points.
"""
import textwrap

# The same scheduler has the same colour in every picture.
SCHEDULERS = {"none": "#b0413e", "mq-deadline": "#8a8a8a", "mq-deadline, idle": "#c4c4c4",
              "kyber": "#b9a44c", "kyber, target": "#e0d394", "bfq": "#5a9a6a",
              "bfq, tuned": "#9ccfa9", "io.cost": "#6b5b4f", "io.cost, tuned": "#b39f8f",
              "io.max": "#c9a0a0",
              "mq-mqfq": "#1f4e8c", "mq-mqfq, time": "#19a7a0",
              "mq-mqfq, target": "#e0529c",
              "mq-k2": "#4d9fd6", "mq-tabs": "#d9730d",
              "mq-octofas": "#8e4f9e"}
# Other colours: tenants in the order in which a benchmark names them, and octokvd's peers.
TENANTS = ("#1b7f79", "#d0a04f", "#a3486b")
PEERS = {"fio": "#333333", "octokvd": "#1b7f79", "octokvd, LZ4": "#6fc2b4",
         "Host-KVS": "#a3486b", "Valkey": "#d0a04f", "RocksDB": "#7c8a9a"}
GRID, BAND, GUIDE, QUIET = "#dddddd", "#f3f3f3", "#777777", "#444444"

TITLE_PT, SMALL_PT, FOOTER_PT = 12, 7.5, 7.5
# Characters of DejaVu Sans per inch, on the safe side.
TITLE_CHARS, LEGEND_CHARS, FOOTER_CHARS = 9.4, 14, 17.5
TITLE_LINE, LEGEND_LINE, FOOTER_LINE, EDGE = 0.21, 0.19, 0.135, 0.12
# A value beside its mark has a white background, so that no line crosses it.
VALUE = {"fontsize": SMALL_PT, "bbox": {"facecolor": "white", "edgecolor": "none", "pad": 0.6}}

# Names come from outside: a dollar sign in them must not begin a formula (parse_math).
RC = {"font.size": 9, "axes.titlesize": 9, "axes.titleweight": "bold", "axes.labelsize": 8,
      "axes.spines.top": False, "axes.spines.right": False, "xtick.labelsize": 8,
      "ytick.labelsize": 8, "legend.fontsize": 8, "legend.frameon": False, "figure.dpi": 100,
      "svg.hashsalt": "mqfair", "svg.fonttype": "none", "text.parse_math": False}


def color_of(name):
    """The colour of a scheduler, also of names such as "mq-k2-8" or "mq-mqfq, weights 3:1"."""
    found = [known for known in SCHEDULERS if name.startswith(known)]
    return SCHEDULERS[max(found, key=len)] if found else GUIDE


def lighter(color, share):
    """@color with @share (0..1) of white in it."""
    parts = [int(color[at:at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * share):02x}" for part in parts)


def ordered(names):
    """{scheduler: colour} of @names: the kernel's first, then ours, alike in every picture."""
    return {name: color for name, color in SCHEDULERS.items() if name in names}


# ---- the sheet ----

def panels(plt, rows, columns, width, height, **more):
    """A figure with a grid of panels, each @width by @height; finish() adds the frame."""
    return plt.subplots(rows, columns, figsize=(width * columns, height * rows), squeeze=False,
                        **more)


def patches(colors):
    """Legend entries: a patch for each name of @colors."""
    from matplotlib.patches import Patch
    return [Patch(color=color, label=name) for name, color in colors.items()]


def marks(colors, **style):
    """Legend entries: a mark for each name of @colors."""
    from matplotlib.lines import Line2D
    style = {"marker": "o", "linestyle": "", "markersize": 6, **style}
    return [Line2D([], [], color=color, label=name, **style) for name, color in colors.items()]


def conditions(result, *sentences, each="case"):
    """The footer: @sentences, then what every picture says of its run; @each lasts runtime_s."""
    parameters = result["parameters"]
    how = result["backend"]
    if "virtual" in how:
        how += " (one instruction takes 1 ns)"
    where = f"{how}, Linux {result['kernel']}"
    if "cpus" in parameters:
        where += f", {parameters['cpus']} CPUs"
    if "runtime_s" in parameters:
        where += f", {parameters['runtime_s']} s per {each}"
    if "seeds" in parameters:
        of = f" for the {parameters['seeds_of']}" if "seeds_of" in parameters else ""
        where += f", median of {parameters['seeds']} seeds{of}"
    return " ".join([*sentences, f"Device: {parameters['device']}. {where}."])


def _lines(text, width):
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _balanced(text, width):
    """@text in as few lines of at most @width characters as possible, and of alike length."""
    nr = len(_lines(text, width))
    return next(lines for lines in (_lines(text, narrow) for narrow in range(10, width + 1))
                if len(lines) == nr)


def _legend_columns(handles, width):
    """All entries in a row if they fit in @width; else columns of the widest entry's width."""
    sizes = [len(handle.get_label()) + 6 for handle in handles]
    if sum(sizes) <= width * LEGEND_CHARS:
        return len(handles)
    return max(1, int(width * LEGEND_CHARS / max(sizes)))


def finish(figure, title, footer, legend=()):
    """Put title, @legend (entries) and footer around the panels, which keep their size."""
    width, height = figure.get_size_inches()
    title = _balanced(title, int(width * TITLE_CHARS))
    footer = _lines(footer, int(width * FOOTER_CHARS))
    columns = _legend_columns(legend, width) if legend else 1
    above_legend = EDGE + TITLE_LINE * len(title) + 0.04
    above = above_legend + LEGEND_LINE * -(-len(legend) // columns) + EDGE
    below = EDGE + FOOTER_LINE * len(footer) + EDGE
    total = height + above + below
    figure.set_size_inches(width, total)
    figure.text(EDGE / width, 1 - EDGE / total, "\n".join(title), va="top", fontsize=TITLE_PT,
                fontweight="bold", linespacing=1.2)
    if legend:
        figure.legend(handles=legend, loc="upper left", ncols=columns, borderaxespad=0,
                      bbox_to_anchor=(EDGE / width, 1 - above_legend / total), borderpad=0.2,
                      columnspacing=1.4, handletextpad=0.5)
    figure.text(EDGE / width, EDGE / total, "\n".join(footer), va="bottom", fontsize=FOOTER_PT,
                color=QUIET)
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.08, wspace=0.02, hspace=0.02,
                             rect=(0, below / total, 1, 1 - (above + below) / total))
    return figure


# ---- in a panel ----

def guide(axis, at, across=False):
    """A dotted line at the value @at; @across: the axis of values is vertical."""
    draw = axis.axhline if across else axis.axvline
    draw(at, color=GUIDE, linewidth=0.8, linestyle=":", zorder=1)


def names_down(axis, names, shown=True):
    """@names from top to bottom, with a thin line each."""
    axis.set_yticks(range(len(names)), names if shown else [""] * len(names))
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)


def bands_across(axis, nr):
    """A grey band behind each second of @nr lines: their marks touch those of the next line."""
    for place in range(1, nr, 2):
        axis.axhspan(place - 0.5, place + 0.5, color=BAND, linewidth=0, zorder=0)


def room(axis, left=0.0, right=0.25):
    """Widen the axis of figures by these parts of its length, for labels beside the marks."""
    transform = axis.xaxis.get_transform()
    low, high = transform.transform(axis.get_xlim())
    length = high - low
    axis.set_xlim(*transform.inverted().transform((low - left * length, high + right * length)))


def log_ticks(axis, across=False, unit=""):
    """Ticks 1, 2, 5, 10 ... of a logarithmic axis, in plain numbers."""
    which = axis.yaxis if across else axis.xaxis
    low, high = axis.get_ylim() if across else axis.get_xlim()
    steps = [digit * 10.0 ** power for power in range(-3, 7) for digit in (1, 2, 5)]
    inside = [step for step in steps if low <= step <= high]
    if len(inside) > 7:
        inside = [step for step in inside if f"{step:e}".startswith("1")]
    which.set_ticks(inside, [f"{step:g}{unit}" for step in inside])
    axis.minorticks_off()


def value_beside(axis, text, value, place):
    """@text to the right of the mark at (@value, @place)."""
    axis.annotate(text, (value, place), xytext=(6, 0), va="center", textcoords="offset points",
                  **VALUE)


def dots(axis, values, colors, form="{:.3g}", **style):
    """A dot for each of @values from top to bottom, with its value to the right."""
    for place, (value, color) in enumerate(zip(values, colors)):
        if value is None:
            continue
        axis.plot([value], [place], **{"marker": "o", "markersize": 6, "zorder": 3, "color": color,
                                       **style})
        value_beside(axis, form.format(value), value, place)


def bars(axis, groups, series, value_of, form=None):
    """Upright bars: @series, {name: colour}, side by side in each of @groups.

    value_of(group, name) is the value, or None. With @form each bar has its value above it.
    """
    for place, group in enumerate(groups):
        shown = [name for name in series if value_of(group, name) is not None]
        width = 0.8 / len(series)
        for number, name in enumerate(shown):
            at = place + (number - (len(shown) - 1) / 2) * width
            drawn = axis.bar(at, value_of(group, name), width * 0.94, color=series[name], zorder=2)
            if form:
                axis.bar_label(drawn, [form.format(value_of(group, name))], padding=1, **VALUE)
    axis.margins(y=0.1)
    axis.set_xticks(range(len(groups)), groups)
    axis.tick_params(axis="x", length=0)


def bars_down(axis, groups, series, value_of, form):
    """Horizontal bars, from top to bottom, with the value at the end of each."""
    step = 1 / (len(series) + 1.2)
    for place, group in enumerate(groups):
        for number, (name, color) in enumerate(series.items()):
            value, at = value_of(group, name), place + (number - (len(series) - 1) / 2) * step
            axis.barh(at, value, step * 0.92, color=color)
            axis.annotate(form.format(value), (value, at), xytext=(3, 0), va="center",
                          textcoords="offset points", fontsize=7)
    axis.set_yticks(range(len(groups)), groups)
    axis.set_ylim(len(groups) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
