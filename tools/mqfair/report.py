# SPDX-License-Identifier: GPL-2.0
"""Make one HTML page, with pictures and tables, of benchmark results, or of a disk as it works now.

  mqfair report results/*.json -o page.html                  what `make bench` and `make demo` measured
  mqfair report --live nvme0n1 --seconds 10 -o page.html     who gets what of a disk, what it holds, counters, tunables, and what doctor says
  mqfair report --live nvme0n1 --json > look.json            the same as an object; `mqfair report look.json -o page.html` makes the page elsewhere

The page is one file: pictures are inside, nothing is loaded, no script runs. A live look needs root for what the scheduler has in debugfs; the page
says what was missing. It changes nothing on the disk. Pictures need the package python3-matplotlib; without it the page has the tables only.
"""
import contextlib
import importlib
import json
import os
import sys

import look
from capture import VERSION, Capture
from device import Device, DeviceError
from page import PAGE, picture, table, text, words

ONE_LINE = "one HTML page, with pictures and tables, of benchmark results or of a disk as it works now"
TAKES_DEVICE = False

SECONDS_MIN = 0.1


def arguments(parser):
    """The options of this command."""
    parser.add_argument("files", metavar="FILE", nargs="*", help="results of `make bench` or `make demo`, or what --live --json printed")
    parser.add_argument("--live", metavar="DEV", help="look at this disk instead: /dev/nvme0n1 or nvme0n1")
    parser.add_argument("--seconds", type=float, default=5.0, metavar="S", help="how long to look (default 5)")
    output = parser.add_mutually_exclusive_group(required=True)
    output.add_argument("-o", "--output", metavar="PAGE", help="the file to write")
    output.add_argument("--json", action="store_true", help="what the page would show as a JSON array, instead of the page")


# ---- input ----

def bench():
    """The benchmarks' catalog: of those installed beside us, or in the checkout."""
    here = os.path.dirname(os.path.realpath(__file__))
    folder = next(path for path in (f"{here}/bench", f"{here}/../bench") if os.path.isdir(path))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module("kit.catalog")


def benchmarks():
    """The names that a result can be drawn by."""
    return bench().names()


def check(section, path):
    """Refuse what is neither a look nor the result of a benchmark that we know."""
    if not isinstance(section, dict) or not ("capture" in section or "benchmark" in section):
        raise DeviceError(f"{path} is no result of a benchmark, and no look at a disk")
    if "capture" in section and section["capture"] != VERSION:
        raise DeviceError(f"{path} is a look of form {section['capture']!r}; this program knows form {VERSION}")
    if "capture" not in section and bench().drawn_by(section) not in benchmarks():
        raise DeviceError(f"{path} is of the benchmark {bench().drawn_by(section)!r}, which this program does not know; it knows {', '.join(benchmarks())}")


def load(path):
    """The sections in a file: an object, or an array of objects."""
    try:
        with open(path, encoding="utf-8") as handle:
            found = json.load(handle)
    except OSError as error:
        raise DeviceError(f"{path} can not be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DeviceError(f"{path} is no JSON: {error}") from error
    sections = found if isinstance(found, list) else [found]
    for section in sections:
        check(section, path)
    return [(path, section) for section in sections]


# ---- a benchmark's result ----

def value_cell(entry):
    """A figure, and how far its repeats lie apart."""
    spread = "" if entry["spread"] is None else f" <small>&plusmn; {text(round(100 * entry['spread'], 2))}%</small>"
    return text(f"{entry['value']:,}") + spread


def case_table(result, case):
    """A line per scheduler, a column per metric."""
    entries = [entry for entry in result["rows"] if entry["case"] == case]
    cells = {(entry["scheduler"], entry["metric"]): value_cell(entry) for entry in entries}
    metrics = {entry["metric"]: f"{text(entry['metric'])}<br><small>{text(entry['unit'])}</small>" for entry in entries}
    repeats = ", ".join(str(number) for number in sorted({entry["repeats"] for entry in entries}))
    lines = [[text(name), *(cells.get((name, metric), "") for metric in metrics)] for name in dict.fromkeys(entry["scheduler"] for entry in entries)]
    return (f"<h3>{text(case)}</h3>\n" + table(["scheduler", *metrics.values()], lines)
            + f"<p><small>Runs of each: {text(repeats)}{'' if repeats == '1' else '; &plusmn;: (highest - lowest) / median'}</small></p>\n")


def benchmark(result):
    """Picture, how it was measured, a table per case."""
    catalog = bench()
    module = catalog.module(catalog.drawn_by(result))
    about = getattr(module, "ONE_LINE", "") or module.__doc__.split("\n", 1)[0]
    how = [("backend", result["backend"]), ("kernel", result["kernel"]), *result["parameters"].items()]
    return (f"<p>{text(about)}</p>\n" + picture(module.draw, result, alt=f"{result['benchmark']}: {about}") + "<h3>How it was measured</h3>\n" + words(how)
            + "".join(case_table(result, case) for case in dict.fromkeys(entry["case"] for entry in result["rows"])))


# ---- the page ----

def title(section):
    """What a section is called."""
    return f"{section['device']} under {section['scheduler']}" if "capture" in section else section["benchmark"]


def page(sections):
    """The whole page from [(where it is from, section)]."""
    contents, body = [], []
    for number, (path, section) in enumerate(sections):
        try:
            heading = text(title(section))
            shown = look.show(section) if "capture" in section else benchmark(section)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise DeviceError(f"{path} is no whole result: {type(error).__name__}: {error}") from error
        contents.append(f'<li><a href="#part{number}">{heading}</a></li>')
        body.append(f'<h2 id="part{number}">{heading}</h2>\n{shown}')
    index = f"<ul>{''.join(contents)}</ul>\n" if len(contents) > 1 else ""
    return PAGE.substitute(title="mqfair: " + ", ".join(dict.fromkeys(text(title(section)) for _, section in sections)), body=index + "\n".join(body))


@contextlib.contextmanager
def writing(path):
    """What can go wrong with the page's file, in a sentence."""
    try:
        yield
    except OSError as error:
        raise DeviceError(f"{path} can not be written: {error.strerror}") from error


def whole(path, make):
    """Have what @make returns at @path if all goes well, and else what was there: it is written beside, and renamed."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise DeviceError(f"{path} is no file: a page can not be written there")
    path = os.path.realpath(path)
    aside = f"{path}.{os.getpid()}.new"
    with writing(path), open(aside, "x", encoding="utf-8"):
        pass                    # if it can not be written, say so before there is much work in it
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
    """[(where it is from, section)] of what was asked for."""
    if bool(args.live) == bool(args.files):
        raise DeviceError("name result files, or a disk with --live; one of both")
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
