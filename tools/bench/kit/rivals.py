# SPDX-License-Identifier: GPL-2.0
"""What shares a drive by the weights of cgroups: mq-mqfq, and its rivals as they come and tuned.

"bfq, tuned" has the two tunables that bfq's manual in the kernel names for fast drives. It gets a
device of its own: if low_latency is written while the device still knows a cgroup that was removed
under another scheduler, kernel 6.12 follows a NULL pointer (bfq_end_wr_async_queues()). "io.cost,
tuned" has a model of the drive, which is measured before the case (guest/iocost.py), and holds the
drive to it. Its latencies only say how long a period is: they are those that it has for an SSD by
itself. "io.max" holds each cgroup to its share of the rates in that model, bytes and requests,
reads and writes: what an administrator would set by hand. It lends nothing to others. The rest
have what they come with.
"""

# Name: the scheduler, what obeys the weights, tunables.
WAYS = {"none": ("none", "none", {}), "mq-deadline": ("mq-deadline", "mq-deadline", {}),
        "kyber": ("kyber", "kyber", {}), "bfq": ("bfq", "bfq", {}),
        "bfq, tuned": ("bfq", "bfq", {"low_latency": 0, "slice_idle": 0}),
        "io.cost": ("none", "io.cost", {}), "io.cost, tuned": ("none", "io.cost", {}),
        "io.max": ("none", "io.max", {}),
        "mq-mqfq": ("mq-mqfq", "mq-mqfq", {})}
# Of those that need a model of the drive: io.cost's parameters.
QOS = {"io.cost, tuned": "rpct=0 rlat=25000 wpct=0 wlat=25000 min=100 max=100", "io.max": ""}


def way(name, weights):
    """The part of a step that says who schedules the cgroups of @weights, {name: weight}."""
    scheduler, control, tunables = WAYS[name]
    qos = {"qos": QOS[name]} if name in QOS else {}
    fresh = {"fresh": True} if tunables else {}
    return {"name": name, "scheduler": scheduler, "tunables": tunables, **fresh,
            "cgroups": {"control": control, "weights": weights, **qos}}
