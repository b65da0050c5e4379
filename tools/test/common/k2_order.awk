# SPDX-License-Identifier: GPL-2.0
#
# k2_order.awk - replays the events of mq-k2 in their order and checks every decision
#
#	awk -v bound=N -v strict=1 -f k2_order.awk EVENTS
#
# Events are k2_insert and k2_dispatch, traced with a clock that is one counter for all CPUs; both
# are emitted under the scheduler's lock, so their order is the order of the decisions. At each
# dispatch it checks that no more urgent queue has a request waiting (strict=1), that the request is
# the first of its queue, and that the count in flight is at most the bound. It does not follow
# merges and requeues: switch them off. Prints a line per kind of violation, and the figures on the
# line "# ...".

function field(name,    i) {
	for (i = 1; i <= NF; i++)
		if (index($i, name "=") == 1)
			return substr($i, length(name) + 2)
}

function queue_of() {
	return field("class") == "rt" ? field("level") + 0 : 8
}

function sector(    i) {
	for (i = 1; i <= NF; i++)
		if ($i == "+")
			return $(i - 1)
}

/ k2_insert: / {
	q = queue_of()
	fifo[q, tail[q]++] = sector()
	inserts++
}

/ k2_dispatch: / {
	q = queue_of()
	n = field("inflight") + 0
	for (p = 0; p < q; p++)
		if (tail[p] > head[p]) {
			passed++
			if (strict)
				bad["a request of queue " q " went while queue " p " was waiting"]++
			break
		}
	if (tail[q] <= head[q])
		bad["a request went that was not queued"]++
	else if (fifo[q, head[q]++] != sector())
		bad["a request went before an older one of its queue"]++
	if (n > bound)
		bad["more than " bound " in flight"]++
	if (n > most)
		most = n
	if (q < 8)
		rt++
	dispatches++
}

END {
	for (what in bad)
		print what " (" bad[what] " times)"
	for (q = 0; q < 9; q++)
		if (tail[q] != head[q])
			print "queue " q ": " (tail[q] - head[q]) " requests never went"
	printf "# %d inserted, %d dispatched, %d of them real time, at most %d in flight, ",
		inserts, dispatches, rt, most
	printf "%d passed a more urgent queue\n", passed
}
