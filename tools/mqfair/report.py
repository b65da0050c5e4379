# SPDX-License-Identifier: GPL-2.0
"""Make one HTML page, with pictures and tables, of benchmark results or of a disk at work.

  mqfair report results/*.json -o page.html                results of `make bench` and `make demo`
  mqfair report --live nvme0n1 --seconds 10 -o page.html   a disk: each flow's share, requests in
                                                           flight, counters, tunables, and the
                                                           findings of doctor
  mqfair report --live nvme0n1 --json > look.json          the same as an object;
  mqfair report look.json -o page.html                     makes the page of it elsewhere

The page is one file: pictures are inside, it loads nothing, and no script runs. A live look needs
root for the scheduler's files in debugfs; the page says what was missing. It changes nothing on the
disk. Pictures need the package python3-matplotlib; without it the page has the tables only.
"""
import contextlib
import json
import os
import sys

import look
from capture import VERSION, Capture
from device import Device, DeviceError
from page import PAGE, bench, picture, table, text, words

ONE_LINE = "one HTML page, with pictures and tables, of benchmark results or of a disk at work"
TAKES_DEVICE = False

SECONDS_MIN = 0.1


def arguments(parser):
    """The options of this command."""
    parser.add_argument("files", metavar="FILE", nargs="*",
                        help="results of `make bench` or `make demo`, or output of --live --json")
    parser.add_argument("--live", metavar="DEV",
                        help="look at this disk instead: /dev/nvme0n1 or nvme0n1")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S",
                        help="length of the look (default 5)")
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", "--output", metavar="PAGE", help="the file to write")
    output.add_argument("--json", action="store_true",
                        help="print the page's content as a JSON array")


# ---- input ----

def benchmarks():
    """The names that a result can be drawn by."""
    return bench("catalog").names()


def check(section, path):
    """Refuse anything but a look, or the result of a known benchmark."""
    if not isinstance(section, dict) or not ("capture" in section or "benchmark" in section):
        raise DeviceError(f"{path} is neither a benchmark's result nor a look at a disk")
    if "capture" in section:
        if section["capture"] != VERSION:
            raise DeviceError(f"{path} is a look of form {section['capture']!r}; "
                              f"this program knows form {VERSION}")
        return
    name = bench("catalog").drawn_by(section)
    if name not in benchmarks():
        raise DeviceError(f"{path} is of the benchmark {name!r}, which this program does not know; "
                          f"it knows {', '.join(benchmarks())}")


def load(path):
    """The sections in a file: an object, or an array of objects."""
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
    except OSError as error:
        raise DeviceError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DeviceError(f"{path} is not JSON: {error}") from error
    sections = found if isinstance(found, list) else [found]
    for section in sections:
        check(section, path)
    return [(path, section) for section in sections]


# ---- a benchmark's result ----

def value_cell(entry):
    """A figure, and the spread of its repeats."""
    spread = ""
    if entry["spread"] is not None:
        spread = f" <small>&plusmn; {text(round(100 * entry['spread'], 2))}%</small>"
    return text(f"{entry['value']:,}") + spread


def case_table(result, case):
    """A line per scheduler, a column per metric."""
    entries = [entry for entry in result["rows"] if entry["case"] == case]
    cells = {(entry["scheduler"], entry["metric"]): value_cell(entry) for entry in entries}
    metrics = {entry["metric"]: f"{text(entry['metric'])}<br><small>{text(entry['unit'])}</small>"
               for entry in entries}
    lines = [[text(name), *(cells.get((name, metric), "") for metric in metrics)]
             for name in dict.fromkeys(entry["scheduler"] for entry in entries)]
    repeats = ", ".join(str(number) for number in sorted({entry["repeats"] for entry in entries}))
    spread = "" if repeats == "1" else "; &plusmn;: (highest - lowest) / median"
    return (f"<h3>{text(case)}</h3>\n" + table(["scheduler", *metrics.values()], lines)
            + f"<p><small>Runs of each: {text(repeats)}{spread}</small></p>\n")


def benchmark(result):
    """Picture, how it was measured, a table per case."""
    catalog = bench("catalog")
    module = catalog.module(catalog.drawn_by(result))
    about = getattr(module, "ONE_LINE", "") or module.__doc__.split("\n", 1)[0]
    how = [("backend", result["backend"]), ("kernel", result["kernel"]),
           *result["parameters"].items()]
    cases = dict.fromkeys(entry["case"] for entry in result["rows"])
    return (f"<p>{text(about)}</p>\n"
            + picture(module.draw, result, alt=f"{result['benchmark']}: {about}")
            + "<h3>How it was measured</h3>\n" + words(how)
            + "".join(case_table(result, case) for case in cases))


# ---- the page ----

def title(section):
    """The title of a section."""
    if "capture" in section:
        return f"{section['device']} under {section['scheduler']}"
    return section["benchmark"]


def page(sections):
    """The whole page from [(source, section)]."""
    contents, body = [], []
    for number, (path, section) in enumerate(sections):
        try:
            heading = text(title(section))
            shown = look.show(section) if "capture" in section else benchmark(section)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError,
                ZeroDivisionError) as error:
            raise DeviceError(f"{path} is not a complete result: "
                              f"{type(error).__name__}: {error}") from error
        contents.append(f'<li><a href="#part{number}">{heading}</a></li>')
        body.append(f'<h2 id="part{number}">{heading}</h2>\n{shown}')
    index = f"<ul>{''.join(contents)}</ul>\n" if len(contents) > 1 else ""
    titles = ", ".join(dict.fromkeys(text(title(section)) for _, section in sections))
    return PAGE.substitute(title=f"mqfair: {titles}", body=index + "\n".join(body))


@contextlib.contextmanager
def writing(path):
    """Errors of the page's file as a sentence."""
    try:
        yield
    except OSError as error:
        raise DeviceError(f"{path} cannot be written: {error.strerror}") from error


def whole(path, make):
    """Write what @make returns beside @path, and rename it; on failure the old file stays."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise DeviceError(f"{path} is not a regular file; name another one for the page")
    path = os.path.realpath(path)
    aside = f"{path}.{os.getpid()}.new"
    with writing(path), open(aside, "x", encoding="utf-8"):
        pass                    # if it cannot be written, say so before the long work
    try:
        content = make()
        with writing(path):
            with open(aside, "w", encoding="utf-8") as handle:
                handle.write(content)
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


def gather(args):
    """[(source, section)] of all that the arguments name."""
    if bool(args.live) == bool(args.files):
        raise DeviceError("name either result files or a disk with --live")
    if not args.live:
        return [part for path in args.files for part in load(path)]
    if not args.seconds >= SECONDS_MIN:
        raise DeviceError(f"--seconds must be at least {SECONDS_MIN}")
    device = Device(args.live)
    print(f"mqfair: looking at {device.name} for {args.seconds:g} s", file=sys.stderr, flush=True)
    return [(args.live, Capture(device, args.seconds).take())]


def run(args):
    """Gather, write."""
    if args.json:
        print(json.dumps([section for _, section in gather(args)]), flush=True)
    else:
        whole(args.output, lambda: page(gather(args)))
