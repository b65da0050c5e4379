# SPDX-License-Identifier: GPL-2.0
"""The lab: guests on which mqfair's kernel modules are built, loaded and measured."""
