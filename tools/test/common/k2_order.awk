# SPDX-License-Identifier: GPL-2.0
#
# k2_order.awk - replays the events of mq-k2 in their order and checks every decision
#
#	awk -v bound=N -v strict=1 -f k2_order.awk EVENTS
#
# Events are k2_insert and k2_dispatch, traced with a clock that is one counter for all CPUs. Those
# of requests that wait are emitted under the scheduler's lock, so their order is the order of the
# decisions. At each dispatch it checks that no more urgent queue has a request waiting (strict=1),
# that the request is the first of its queue, and that the count in flight is at most the bound.
#
# A request with passed=1 took its slot on insert, without the lock, since nothing waited. It has no
# place in a queue. It may be a moment late in the trace: of a hundred requests that passed, at most
# one may be traced while another waits.
#
# Merges and requeues are not followed: switch them off. Prints a line per kind of violation, and
# the figures on the line "# ...".

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

function anyone_waits(    q) {
	for (q = 0; q < 9; q++)
		if (tail[q] > head[q])
			return 1
}

function check_inflight(n) {
	if (n > bound)
		bad["more than " bound " in flight"]++
	if (n > most)
		most = n
}

/ k2_insert: / && field("passed") == 1 {
	ready[sector()]++
	nr_passed++
	if (anyone_waits())
		nr_late++
}

/ k2_dispatch: / && field("passed") == 1 {
	if (ready[sector()]-- <= 0)
		bad["a request went that had not taken a slot"]++
	check_inflight(field("inflight") + 0)
	passes++
}

/ k2_insert: / && field("passed") == 0 {
	q = queue_of()
	fifo[q, tail[q]++] = sector()
	inserts++
}

/ k2_dispatch: / && field("passed") == 0 {
	q = queue_of()
	for (p = 0; p < q; p++)
		if (tail[p] > head[p]) {
			overtook++
			if (strict)
				bad["a request of queue " q " went while queue " p " was waiting"]++
			break
		}
	if (tail[q] <= head[q])
		bad["a request went that was not queued"]++
	else if (fifo[q, head[q]++] != sector())
		bad["a request went before an older one of its queue"]++
	check_inflight(field("inflight") + 0)
	dispatches++
}

/ k2_dispatch: / && queue_of() < 8 {
	rt++
}

END {
	if (nr_late > nr_passed / 100 + 1)
		bad["a request passed while others were waiting"] = nr_late
	if (nr_passed != passes)
		print nr_passed - passes " requests with a slot never went"
	for (what in bad)
		print what " (" bad[what] " times)"
	for (q = 0; q < 9; q++)
		if (tail[q] != head[q])
			print "queue " q ": " (tail[q] - head[q]) " requests never went"
	printf "# %d inserted, %d dispatched, %d of them real time, at most %d in flight, ",
		inserts + nr_passed, dispatches + passes, rt, most
	printf "%d found nothing waiting (%d of them late), %d went before a more urgent queue\n",
		nr_passed, nr_late, overtook
}
