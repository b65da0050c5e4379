# SPDX-License-Identifier: GPL-2.0
"""Clients that use the same keys side by side, and whether their answers fit together.

A client notes when it sends commands, when they are answered, and what. Such a history is
linearizable if each entry can be given one moment between the two, so that one server that does
all of them in the order of these moments would give the same answers. What has no answer, since the
connection broke, has happened at any moment after it was sent, or never.

The search is that of Wing and Gong. The next entry is one that was sent before any other of those
that are left was answered. If none of them fits, the last step is undone. As Lowe has shown, the
search may forget all that it has seen except sets of entries that were done, with what the keys
had then: it goes on from none of them twice.
"""
import collections
import itertools
import math
import random
import sys
import time

import redis

from kit import Failed, expect, in_thread

NR_CLIENTS = 4
NR_SEEN_MAX = 1 << 18


class Entry:
    """Commands that happen in one step: (NAME, KEY) or (NAME, KEY, NUMBER) each."""

    def __init__(self, sent, answered, commands, answers):
        self.sent, self.answered = sent, answered
        self.commands, self.answers = tuple(commands), answers

    def __repr__(self):
        until = f"{self.answered}: {self.answers}" if self.answers else "unknown"
        return f"[{self.sent} {self.commands} {until}]"


def unknown(sent, *commands):
    return Entry(sent, math.inf, commands, None)


def done(keys, commands):
    """What the keys, which are pairs with their numbers, have after @commands; and the answers."""
    numbers, answers = dict(keys), []
    for name, key, *number in commands:
        if name == "GET":
            answers.append(numbers.get(key))
        elif name == "SET":
            numbers[key] = number[0]
            answers.append(True)
        elif name == "INCR":
            numbers[key] = numbers.get(key, 0) + 1
            answers.append(numbers[key])
        else:
            answers.append(int(numbers.pop(key, None) is not None))
    return tuple(sorted(numbers.items())), answers


class Search:
    """One search. The entries that are left are a list, linked by their places."""

    def __init__(self, history):
        # Of those that can be next, the ones that may not have happened come last.
        self.entries = sorted(history, key=lambda e: (not e.answers, e.sent))
        known = [e for e in history if e.answers]
        self.nr_known = self.nr_left = len(known)
        self.after = list(range(1, self.nr_known + 1)) + [0]
        self.before = [self.nr_known] + list(range(self.nr_known))
        self.keys, self.set, self.steps, self.seen = (), 0, [], set()
        self.furthest = (self.nr_left, (), 0)

    def candidates(self):
        """The entries that can be next, by their places."""
        until, place = math.inf, self.after[self.nr_known]
        while place < self.nr_known and self.entries[place].sent <= until:
            yield place
            until = min(until, self.entries[place].answered)
            place = self.after[place]
        alike = set()
        for place in range(self.nr_known, len(self.entries)):
            entry = self.entries[place]
            # Of several that are alike, the one that was sent first stands for all.
            if not self.set >> place & 1 and entry.sent <= until and entry.commands not in alike:
                alike.add(entry.commands)
                yield place

    def fits(self, place):
        """What the keys have after it, or None."""
        entry = self.entries[place]
        keys, answers = done(self.keys, entry.commands)
        if answers != entry.answers if entry.answers else keys == self.keys:
            return None
        # All before the first one that is left are done. Python's hash of many ones is bad.
        first = self.after[self.nr_known]
        seen = (first, (self.set | 1 << place) >> first, keys)
        if seen in self.seen:
            return None
        self.seen.add(seen)
        return keys

    def link(self, place, is_left):
        """Put an entry back, or take it out."""
        self.set ^= 1 << place
        if place >= self.nr_known:
            return
        self.nr_left += 1 if is_left else -1
        self.after[self.before[place]] = place if is_left else self.after[place]
        self.before[self.after[place]] = place if is_left else self.before[place]

    def step(self, candidates):
        """Do the first one that fits. False: none does."""
        for place in candidates:
            keys = self.fits(place)
            if keys is not None:
                self.steps.append((candidates, place, self.keys))
                self.link(place, False)
                self.keys = keys
                self.furthest = min(self.furthest, (self.nr_left, keys, self.set))
                return True
        return False

    def find(self):
        candidates = self.candidates()
        while self.nr_left:
            if len(self.seen) > NR_SEEN_MAX:
                raise Failed(f"too many orders to try: {self.why()}")
            if self.step(candidates):
                candidates = self.candidates()
            elif self.steps:
                candidates, place, self.keys = self.steps.pop()
                self.link(place, True)
            else:
                return False
        return True

    def why(self):
        """How far it came."""
        nr_left, keys, places = self.furthest
        left = [e for i, e in enumerate(self.entries) if not places >> i & 1]
        return f"{self.nr_known - nr_left} of {self.nr_known} fit; then {keys}, and {left[:4]}"


def is_linear(history):
    return Search(history).find()


def check_linear(history, name):
    search = Search(history)
    if not search.find():
        print(*sorted(history, key=lambda e: e.sent), sep="\n", file=sys.stderr)
        raise Failed(f"{name} is not linearizable: {search.why()}")


class Load:
    """Clients that use the same keys, two behind each of @prefixes, and note what they do."""

    # Nothing was run: it is sent again.
    NOT_RUN = (redis.exceptions.MovedError, redis.exceptions.AskError,
               redis.exceptions.TryAgainError, redis.exceptions.ClusterError)
    BROKEN = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.RedisClusterException,
              OSError)

    def __init__(self, client, prefixes, nr_clients=NR_CLIENTS, pause_s=0):
        self.client, self.prefixes, self.over = client, prefixes, False
        self.pause_s = pause_s          # of a client between its commands
        self.histories = collections.defaultdict(list)
        self.nr_again, self.nr_unknown = 0, 0
        self.joins = [in_thread(lambda number=number: self.work(number))
                      for number in range(nr_clients)]

    def work(self, number):
        rng, client = random.Random(number), self.client()
        while not self.over:
            prefix = rng.choice(self.prefixes)
            self.do(client, prefix, some_commands(rng, prefix))
            time.sleep(self.pause_s)

    def do(self, client, prefix, commands):
        while True:
            sent_ns = time.monotonic_ns()
            try:
                answers = ask(client, commands)
                entry = Entry(sent_ns, time.monotonic_ns(), commands, answers)
                break
            except self.NOT_RUN:
                self.nr_again += 1
                time.sleep(0.01)
                self.ask_for_map(client)
            except self.BROKEN as error:
                time.sleep(0.02)
                self.ask_for_map(client)
                if "connecting to" in str(error):
                    continue
                self.nr_unknown += 1
                entry = unknown(sent_ns, *commands)
                break
        self.histories[prefix].append(entry)
        return entry.answers

    def ask_for_map(self, client):
        try:
            client.nodes_manager.initialize()
        except self.BROKEN:
            pass

    def end(self):
        self.over = True
        for join in self.joins:
            join()

    def check(self):
        """All histories, each with what its keys have now. Returns the number of keys."""
        client, nr = self.client(), 0
        for prefix, history in self.histories.items():
            answers = self.do(client, prefix, [("GET", key) for key in keys_of(prefix)])
            nr += sum(answer is not None for answer in answers)
            check_linear(history, prefix)
        return nr

    def __str__(self):
        nr = sum(len(history) for history in self.histories.values())
        return (f"{nr} commands and transactions of {len(self.joins)} clients on "
                f"{2 * len(self.histories)} keys, {self.nr_again} sent again, "
                f"{self.nr_unknown} unknown: linearizable")


def keys_of(prefix):
    return f"{prefix}x", f"{prefix}y"


def some_commands(rng, prefix):
    x, y = keys_of(prefix)
    key, number = rng.choice((x, y)), rng.randrange(1 << 40)
    return rng.choice((
        [("GET", key)], [("SET", key, number)], [("INCR", key)], [("INCR", key)], [("DEL", key)],
        [("INCR", x), ("INCR", y)], [("GET", x), ("GET", y)],
        [("SET", x, number), ("SET", y, number)], [("GET", x), ("DEL", x), ("INCR", y)]))


def ask(client, commands):
    """The answers; several commands are a transaction."""
    if len(commands) == 1:
        answers = [client.execute_command(*commands[0])]
    else:
        # The cluster client's own one may send it again by itself.
        node = client.get_redis_connection(client.get_node_from_key(commands[0][1]))
        with node.pipeline(transaction=True) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            answers = pipe.execute()
    return [True if answer == b"OK" else answer if answer is None else int(answer)
            for answer in answers]


# ---- the search itself ----

GOOD = {
    "one after the other": [
        Entry(1, 2, [("SET", "x", 5)], [True]), Entry(3, 4, [("INCR", "x")], [6]),
        Entry(5, 6, [("DEL", "x")], [1]), Entry(7, 8, [("GET", "x")], [None])],
    "side by side, in either order": [
        Entry(1, 9, [("INCR", "x")], [2]), Entry(2, 8, [("INCR", "x")], [1]),
        Entry(3, 4, [("GET", "x")], [None]), Entry(5, 6, [("GET", "x")], [1])],
    "an unknown one has happened": [
        unknown(1, ("INCR", "x")), Entry(5, 6, [("GET", "x")], [1])],
    "an unknown one happens late": [
        unknown(1, ("SET", "x", 7)), Entry(2, 3, [("GET", "x")], [None]),
        Entry(4, 5, [("SET", "x", 8)], [True]), Entry(6, 7, [("GET", "x")], [7])],
    "an unknown one has not happened": [
        unknown(1, ("DEL", "x")), Entry(2, 3, [("INCR", "x")], [1]),
        Entry(4, 5, [("INCR", "x")], [2])],
    "of forty that are alike, one has happened": [
        *(unknown(i, ("INCR", "x")) for i in range(40)), Entry(50, 51, [("GET", "x")], [1])],
    "a transaction": [
        Entry(1, 9, [("INCR", "x"), ("INCR", "y")], [1, 1]), Entry(2, 3, [("GET", "y")], [None]),
        Entry(4, 5, [("GET", "x"), ("GET", "y")], [1, 1])],
}
BAD = {
    "a stale read": [
        Entry(1, 2, [("SET", "x", 1)], [True]), Entry(3, 4, [("SET", "x", 2)], [True]),
        Entry(5, 6, [("GET", "x")], [1])],
    "the new number, then the old one": [
        Entry(1, 9, [("SET", "x", 1)], [True]), Entry(2, 3, [("GET", "x")], [1]),
        Entry(4, 5, [("GET", "x")], [None])],
    "a lost INCR": [
        Entry(1, 2, [("INCR", "x")], [1]), Entry(3, 4, [("INCR", "x")], [1])],
    "a doubled INCR": [
        Entry(1, 2, [("INCR", "x")], [1]), Entry(3, 4, [("GET", "x")], [2])],
    "an unknown INCR that has happened twice": [
        unknown(1, ("INCR", "x")), Entry(5, 6, [("GET", "x")], [2])],
    "an unknown one that has happened before it was sent": [
        Entry(1, 2, [("GET", "x")], [1]), unknown(3, ("SET", "x", 1))],
    "a deleted key comes back": [
        Entry(1, 2, [("SET", "x", 1)], [True]), Entry(3, 4, [("DEL", "x")], [1]),
        Entry(5, 6, [("GET", "x")], [1])],
    "half a transaction": [
        Entry(1, 9, [("INCR", "x"), ("INCR", "y")], [1, 1]),
        Entry(2, 3, [("GET", "x"), ("GET", "y")], [1, None])],
}


def is_linear_by_trying(history):
    """The same, by trying all orders."""
    known = [e for e in history if e.answers]
    others = [e for e in history if not e.answers]
    chosen = (known + list(some) for nr in range(len(others) + 1)
              for some in itertools.combinations(others, nr))
    return any(is_order(order) for entries in chosen for order in itertools.permutations(entries))


def is_order(order):
    keys, latest = (), -math.inf
    for entry in order:
        latest = max(latest, entry.sent)
        keys, answers = done(keys, entry.commands)
        if entry.answered < latest or answers != (entry.answers or answers):
            return False
    return True


def some_history(rng):
    history = []
    for _ in range(5):
        sent = rng.randrange(12)
        command, answer = rng.choice((
            (("GET", "x"), rng.choice((None, 1, 2))), (("SET", "x", rng.randrange(1, 3)), True),
            (("INCR", "x"), rng.randrange(1, 4)), (("DEL", "x"), rng.randrange(2))))
        history.append(unknown(sent, command) if rng.random() < 0.3 else
                       Entry(sent, sent + rng.randrange(8), [command], [answer]))
    return history


def case_linear():
    """the search for an order of a history finds one, if there is one"""
    for name, history in GOOD.items():
        check_linear(history, name)
    for name, history in BAD.items():
        expect(not is_linear(history), f"was not noticed: {name}")
    rng, nr = random.Random(1), [0, 0]
    for _ in range(1000):
        history = some_history(rng)
        found = is_linear(history)
        expect(found == is_linear_by_trying(history), f"{found}: {history}")
        nr[found] += 1
    expect(min(nr) > 100, f"histories of one kind only: {nr}")
    return f"{len(GOOD)} good ones, {len(BAD)} bad ones; {sum(nr)} by all orders: {nr[1]} good"
