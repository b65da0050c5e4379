# SPDX-License-Identifier: GPL-2.0
#
# inflight.awk - counts the requests at the device, from the block layer's own events
#
#	awk -v bound=N -f inflight.awk EVENTS
#
# block_rq_issue comes after the scheduler has counted a request, block_rq_complete before it gives
# the slot back: the requests between the two never exceed the bound. Prints a line if they did, and
# the figures on the line "# ...".

/ block_rq_issue: / {
	n++
	issued++
	if (n > most)
		most = n
	if (n > bound)
		over++
}

/ block_rq_complete: / {
	n--
}

END {
	if (over)
		print "the device had more than " bound " requests, " over " times; at most " most
	if (n)
		print n " requests were issued and not completed"
	printf "# %d issued, at most %d at the device\n", issued, most
}
