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

A case with a target for one tenant has more. "mq-k2, target" and "mq-mqfq, target" find a bound for
it by themselves. "kyber, target" has that as kyber's target for
reads, and five times as much for writes, as in kyber's defaults. "mq-deadline, idle" has the
tunables that mq-deadline's manual in the kernel names for latency. The tenant has class real-time
and all others have class idle; nothing waits longer than AGING_MS for a higher class.

io.latency is not among them: the stock kernels of Debian are built without it
(CONFIG_BLK_CGROUP_IOLATENCY).
"""

# Name: the scheduler, what obeys the weights, tunables.
WAYS = {"none": ("none", "none", {}), "mq-deadline": ("mq-deadline", "mq-deadline", {}),
        "kyber": ("kyber", "kyber", {}), "bfq": ("bfq", "bfq", {}),
        "bfq, tuned": ("bfq", "bfq", {"low_latency": 0, "slice_idle": 0}),
        "io.cost": ("none", "io.cost", {}), "io.cost, tuned": ("none", "io.cost", {}),
        "io.max": ("none", "io.max", {}),
        "mq-mqfq": ("mq-mqfq", "mq-mqfq", {})}
AGING_MS = 100
# Name: the scheduler, and its tunables for a target in microseconds.
WITH_TARGET = {
    "kyber, target": ("kyber", lambda us: {"read_lat_nsec": 1000 * us,
                                           "write_lat_nsec": 5000 * us}),
    "mq-deadline, idle": ("mq-deadline",
                          lambda _: {"fifo_batch": 1, "prio_aging_expire": AGING_MS}),
    "mq-k2, target": ("mq-k2", lambda us: {"max_inflight": 256, "target_p999_us": us}),
    "mq-mqfq, target": ("mq-mqfq", lambda us: {"target_p999_us": us}),
}
# Of these, those that find a bound for it, which takes a while.
SEARCHING = ("mq-k2, target", "mq-mqfq, target")
# Of those that need a model of the drive: io.cost's parameters.
QOS = {"io.cost, tuned": "rpct=0 rlat=25000 wpct=0 wlat=25000 min=100 max=100", "io.max": ""}


def way(name, weights):
    """The part of a step that says who schedules the cgroups of @weights, {name: weight}."""
    scheduler, control, tunables = WAYS[name]
    qos = {"qos": QOS[name]} if name in QOS else {}
    fresh = {"fresh": True} if tunables else {}
    return {"name": name, "scheduler": scheduler, "tunables": tunables, **fresh,
            "cgroups": {"control": control, "weights": weights, **qos}}


def way_with_target(name, weights, target_us):
    """way() of one of WITH_TARGET."""
    scheduler, tunables_for = WITH_TARGET[name]
    return {"name": name, "scheduler": scheduler, "tunables": tunables_for(target_us),
            "cgroups": {"control": scheduler, "weights": weights}}
