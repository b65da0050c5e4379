# SPDX-License-Identifier: GPL-2.0
"""Sphinx builds the manual with this (`make docs`). A warning is an error."""
import os
import re

project = "mqfair"
author = copyright = "the mqfair authors"       # pylint: disable=redefined-builtin
with open(os.path.join(os.path.dirname(__file__), "../dkms.conf"), encoding="utf-8") as handle:
    release = re.search('^PACKAGE_VERSION="(.*)"$', handle.read(), re.M)[1]
extensions = []
exclude_patterns = ["results/*.json"]
html_theme = "alabaster"
html_theme_options = {
    "description": "I/O schedulers for fast multi-queue storage",
    "page_width": "1100px",
}
html_extra_path = ["reference/ABI"]
nitpicky = True
