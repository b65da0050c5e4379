# SPDX-License-Identifier: GPL-2.0
"""What the benchmarks share: running steps in a guest, reading fio's output, rows, files and pictures."""
