# SPDX-License-Identifier: GPL-2.0
"""What benchmarks share: guests, fio's output, results, pictures, and loads that several use."""
