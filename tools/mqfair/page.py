# SPDX-License-Identifier: GPL-2.0
"""Pieces of an HTML page that is one file: tables, and pictures inside the page.

All text from outside goes through text().
"""
import base64
import html
import importlib
import io
import json
import logging
import os
import string
import sys

from device import printable

PAGE = string.Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>$title</title>
<style>
body { font: 15px/1.5 sans-serif; color: #222; max-width: 75em; margin: 2em auto;
       padding: 0 1em; }
h1 { font-size: 1.6em; } h3 { margin-bottom: .3em; }
h2 { border-top: 2px solid #1f4e8c; margin-top: 2.5em; padding-top: .5em; }
table { border-collapse: collapse; margin: .5em 0 1.2em; font-size: .92em; }
th, td { padding: .15em .8em; text-align: right; border-bottom: 1px solid #ddd;
         vertical-align: top; }
th:first-child, td:first-child, .words td { text-align: left; }
thead th { border-bottom: 1px solid #666; }
small { color: #777; } img { max-width: 100%; }
pre { background: #f5f5f5; padding: .6em; overflow-x: auto; }
.fault { color: #b0413e; font-weight: bold; } .note { color: #9a6a00; font-weight: bold; }
.ok { color: #3a7a4a; }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
""")


def bench(module):
    """A module of the benchmarks' kit, which is installed beside us or in the checkout."""
    here = os.path.dirname(os.path.realpath(__file__))
    folder = next(path for path in (f"{here}/bench", f"{here}/../bench") if os.path.isdir(path))
    if folder not in sys.path:
        sys.path.append(folder)
    return importlib.import_module(f"kit.{module}")


def text(value):
    """@value as text that is safe in HTML."""
    return "".join(char if char == "\n" else html.escape(printable(char))
                   for char in str(value).expandtabs())


def table(columns, rows):
    """A table; cells are HTML already."""
    head = "".join(f"<th>{cell}</th>" for cell in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f'<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>\n'


def plain_table(found):
    """A table {"columns", "rows"} of text from outside."""
    return table(map(text, found["columns"]), [map(text, row) for row in found["rows"]])


def words(pairs):
    """A table of names and their values."""
    def shown(value):
        return text(json.dumps(value) if isinstance(value, (dict, list)) else value)

    lines = "".join(f"<tr><th>{text(name)}</th><td>{shown(value)}</td></tr>\n"
                    for name, value in pairs)
    return f'<table class="words">\n{lines}</table>\n'


def picture(draw, found, alt):
    """The figure that @draw(found, plt) makes, inside the page; a sentence if that fails."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import matplotlib
    except ImportError:
        return "<p><small>No picture: install the package python3-matplotlib.</small></p>\n"
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    with plt.rc_context(bench("style").RC):
        out = io.BytesIO()
        try:
            draw(found, plt).savefig(out, format="svg", metadata={"Date": None})
        # A file from elsewhere may hold anything: its tables can still be read.
        except Exception as error:      # pylint: disable=broad-except
            why = f"{text(type(error).__name__)}: {text(error)}"
            return f"<p><small>No picture: {why}.</small></p>\n"
        finally:
            plt.close("all")
    data = base64.b64encode(out.getvalue()).decode()
    return f'<img alt="{text(alt)}" src="data:image/svg+xml;base64,{data}">\n'
