# SPDX-License-Identifier: GPL-2.0
"""The load of the OctoFAS and OctoKV papers: six hardware queues, of which two are crowded.

Each queue is served by one core of the target (ssdsim's queue_service_ns). Flow 1 has two threads,
on the first two queues. Flow 2 fills these two before the others. The CPU of a thread gives its
queue.
"""

QUEUES = 6
DRIVE = {"kind": "ssdsim",
         "params": {"queues": QUEUES, "channels": 16, "nodata": 1, "size_mb": 1024,
                    "queue_service_ns": 400000, "read_ns": 100000, "prog_ns": 200000}}
# The CPUs of flow 2's threads, in this order.
ORDER = (0, 1, 2, 3, 0, 1, 4, 5, 0, 1, 2, 3, 0, 1)
# Threads of flow 2 in the case that is looked at most closely.
CROWD = 8
