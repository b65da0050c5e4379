/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mq-mqfq-slots.pml - a model of how slots come to queues: see the top of mq-mqfq/mqfq_slots.c
 *
 * Three queues below a tree of two levels, and D tokens:
 *
 *		  4, root
 *		 /	 \
 *	     3, core	  |
 *	     /     \	  |
 *	    0	    1	  2
 *
 * Every read or write of a word that others use is a step of its own; a look at all nodes or at all
 * bits is a step per bit and per node. With ONE_WORD, a look at the bits of queues is one step, as
 * it is with up to 64 queues, and there are fewer states. The words are seen in one order by all,
 * so this says nothing about barriers: that is the litmus tests' part. A queue may be throttled
 * whenever it asks, and its time comes some time later; with VT_WAITS, not while another queue is
 * READY.
 *
 * A request may stay at the device for ever. Claims, when nothing can move any more: no token is
 * lost; no token is idle while a queue is READY; no queue is ARMED, or RUNNABLE with requests; and
 * unless something is at the device, all requests have been completed.
 *
 *	spin -a -DD=1 mq-mqfq-slots.pml; cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c; ./pan -m1000000
 *
 * check_models does this. D is the number of tokens, N0, N1 and N2 are how many requests a queue
 * gets, THROTTLES how often queues may be throttled. Defining NO_SECOND_LOOK, STEAL_FIRST,
 * NO_STEAL, KEEP_BOTH, NO_SET_AGAIN, NO_SHARE_OUT or NO_SEEK breaks the algorithm; a claim must
 * fail then.
 */
#ifndef D
#define D 1
#endif
#ifndef N0
#define N0 1
#endif
#ifndef N1
#define N1 1
#endif
#ifndef N2
#define N2 1
#endif
#ifndef THROTTLES
#define THROTTLES 1
#endif
#define TOTAL (N0 + N1 + N2)

#define NOBODY 3
#define CORE 3
#define ROOT 4

#define RUNNABLE 0
#define THROTTLED 1
#define READY 2
#define ARMED 3

byte state[3];
bool ready_bit[3];
bool kicked[3];		/* the queue was run; its worker has not come yet */
byte nr_requests[3];
byte nr_inflight[3];
byte token[5];
bool holds[5];		/* the node may have tokens; the root's is always set */
byte nr_left;		/* requests that have not been completed */
byte throttles_left = THROTTLES;

/* ---- the tree ---- */

#define parent(node)		(CORE + (node >= 2))
/*
 * The leaves in the order of their distance from @q: itself, the other one on the core, the rest.
 */
#define near(q, i)		((i == 0) * q + (i != 0) * ((q == 2) * (i - 1) + \
				 (q != 2) * ((i == 1) * (1 - q) + (i == 2) * 2)))
/* The same, then the inner nodes. */
#define look_at(q, i)		((i < 3) * near(q, i) + (i >= 3) * i)

/* token_node_take() of @want */
inline take_from(node, want, got)
{
	d_step {
		if
		:: token[node] < want -> got = token[node]
		:: else -> got = want
		fi;
		token[node] = token[node] - got
	}
}

/* token_tree_put() */
inline put_to(node, n)
{
	token[node] = token[node] + n;
	if
	:: holds[node]
	:: else -> holds[node] = 1
	fi
}

/* token_tree_steal(): looks where bits are set, and clears those of empty nodes */
inline steal(q, i, got, more)
{
	got = 0;
	i = 0;
	do
	:: i == 5 -> break
	:: i < 5 && !holds[look_at(q, i)] -> i++
	:: i < 5 && holds[look_at(q, i)] ->
		take_from(look_at(q, i), 1, got);
		if
		:: got -> break
		:: !got && i == 4 -> i++
		:: !got && i < 4 ->
			holds[look_at(q, i)] = 0;
#ifndef NO_SET_AGAIN
			if
			:: token[look_at(q, i)] == 0 -> i++
			:: else ->
				holds[look_at(q, i)] = 1;
				more = 1;
				take_from(look_at(q, i), 1, got);
				if
				:: got -> break
				:: else -> i++
				fi
			fi
#else
			i++
#endif
		fi
	od;
	i = 0
}

/* ---- the ready set; a bit per step ---- */

#ifdef ONE_WORD
#define LOOK d_step
#else
#define LOOK
#endif

inline nearest(q, found, i)
{
	LOOK {
	found = NOBODY;
	i = 0;
	do
	:: i < 3 && ready_bit[near(q, i)] -> found = near(q, i); break
	:: i < 3 && !ready_bit[near(q, i)] -> i++
	:: i == 3 -> break
	od;
	i = 0
	}
}

/* mqfq_end_wait(), by a CPU that has a token in hand */
inline end_wait(q, was, ok)
{
	d_step {
		ok = (state[q] == was);
		if
		:: ok -> state[q] = ARMED
		:: else
		fi
	};
	if
	:: ok -> kicked[q] = 1
	:: else
	fi
}

/* mqfq_hand_over() near @q, with mqfq_arm_nearest() in it */
inline hand_over(q, at, found, i, got, ok)
{
	do
	:: nearest(q, found, i);
	   if
	   :: found != NOBODY ->
		/* ready_set_del() */
		d_step { ok = ready_bit[found]; ready_bit[found] = 0 };
		if
		:: ok -> end_wait(found, READY, ok)
		:: else
		fi;
		if
		:: ok -> break
		:: else
		fi
	   :: else ->
		/* token_tree_rest(), by quota */
		if
		:: at = q
		:: at = parent(q)
		:: at = ROOT
		fi;
		put_to(at, 1);
#ifdef NO_SECOND_LOOK
		break;
#endif
		nearest(q, found, i);
		if
		:: found == NOBODY -> break
		:: else ->
			take_from(at, 1, got);
			if
			:: !got -> break
			:: else -> got = 0
			fi
		fi
	   fi
	od;
	at = 0;
	ok = 0;
	got = 0
}

/* mqfq_share_out() */
inline share_out(q, at, found, i, got, ok, more)
{
	do
	:: nearest(q, found, i);
	   if
	   :: found == NOBODY -> break
	   :: else
	   fi;
	   steal(q, i, got, more);
	   if
	   :: !got -> break
	   :: else -> hand_over(q, at, found, i, got, ok)
	   fi
	od;
	got = 0;
	more = 0
}

/* mqfq_seek_slot(); @ok if the queue was armed by this */
inline seek_slot(q, at, found, i, got, ok, more, armed)
{
#ifndef STEAL_FIRST
	ready_bit[q] = 1;
#endif
	more = 0;
#ifndef NO_STEAL
	steal(q, i, got, more);
#endif
#ifdef STEAL_FIRST
	if
	:: !got -> ready_bit[q] = 1
	:: else
	fi;
#endif
	ok = 0;
	if
	:: got ->
		got = 0;
		ready_bit[q] = 0;
		d_step {
			ok = (state[q] == READY);
			if
			:: ok -> state[q] = ARMED
			:: else
			fi
		};
		armed = ok;
#ifndef KEEP_BOTH
		if
		:: !ok -> hand_over(q, at, found, i, got, ok)
		:: else
		fi;
#endif
#ifndef NO_SHARE_OUT
		if
		:: more -> share_out(q, at, found, i, got, ok, more)
		:: else
		fi;
#endif
		ok = armed;
		armed = 0
	:: else
	fi;
	more = 0
}

/* ---- a queue's worker: mqfq_take() until it says no ---- */

proctype worker(byte q)
{
	byte got, i, node, found, at;
	bool ok, more, armed;

end:	do
	:: atomic { kicked[q] -> kicked[q] = 0 };
again:
	   if
	   :: state[q] == ARMED -> d_step { nr_requests[q]--; nr_inflight[q]++ }
	   :: state[q] == RUNNABLE
	   :: else -> goto done
	   fi;

	   /* mqfq_arm() */
	   if
	   :: nr_requests[q] == 0 -> state[q] = RUNNABLE; goto done
	   :: else
	   fi;
	   if
	   :: atomic { throttles_left > 0 -> throttles_left-- }; state[q] = THROTTLED; goto done
	   :: skip
	   fi;
	   take_from(q, 1, got);
	   if
	   :: got -> got = 0; state[q] = ARMED; goto again
	   :: else
	   fi;
	   /* mqfq_fetch_slot() */
	   node = q;
	   do
	   :: node == ROOT -> break
	   :: else ->
		node = parent(node);
		take_from(node, nr_requests[q], got);
		if
		:: got -> break
		:: else
		fi
	   od;
	   node = 0;
	   if
	   :: got > 1 ->
		put_to(q, got - 1);
#ifndef NO_SHARE_OUT
		share_out(q, at, found, i, got, ok, more);
#endif
		got = 0;
		state[q] = ARMED;
		goto again
	   :: got == 1 -> got = 0; state[q] = ARMED; goto again
	   :: else
	   fi;
	   /* mqfq_find_slot() */
	   state[q] = READY;
	   seek_slot(q, at, found, i, got, ok, more, armed);
	   goto again;
done:
	   skip;
	   d_step { got = 0; i = 0; node = 0; found = 0; at = 0; ok = 0; more = 0 }
	od
}

/* ---- mqfq_end_throttle(): virtual time comes near, some time, or the wheel is early ---- */

#ifdef VT_WAITS
#define MAY_MOVE(a, b)	(state[a] != READY && state[b] != READY)
#else
#define MAY_MOVE(a, b)	true
#endif

proctype clock()
{
	byte q, got, i, node, found, at;
	bool ok, more, armed;

end:	do
	:: if
	   :: atomic { state[0] == THROTTLED && MAY_MOVE(1, 2) -> q = 0 }
	   :: atomic { state[1] == THROTTLED && MAY_MOVE(0, 2) -> q = 1 }
	   :: atomic { state[2] == THROTTLED && MAY_MOVE(0, 1) -> q = 2 }
	   fi;
	   /* token_tree_take() of one */
	   node = q;
	   do
	   :: take_from(node, 1, got);
	      if
	      :: got || node == ROOT -> break
	      :: else -> node = parent(node)
	      fi
	   od;
	   node = 0;
	   if
	   :: got ->
		got = 0;
		end_wait(q, THROTTLED, ok);
		if
		:: !ok -> hand_over(q, at, found, i, got, ok)
		:: else
		fi
	   :: else ->
		d_step {
			ok = (state[q] == THROTTLED);
			if
			:: ok -> state[q] = READY
			:: else
			fi
		};
		if
		:: ok ->
#ifndef NO_SEEK
			seek_slot(q, at, found, i, got, ok, more, armed);
			if
			:: ok -> kicked[q] = 1
			:: else
			fi
#else
			ready_bit[q] = 1
#endif
		:: else
		fi
	   fi;
	   d_step { q = 0; got = 0; i = 0; found = 0; at = 0; ok = 0; more = 0 }
	od
}

/* ---- mqfq_release(), on two CPUs ---- */

proctype completer()
{
	byte q, found, at, i, got;
	bool ok;

again:
	if
	:: atomic { nr_inflight[0] > 0 -> nr_inflight[0]--; q = 0 }
	:: atomic { nr_inflight[1] > 0 -> nr_inflight[1]--; q = 1 }
	:: atomic { nr_inflight[2] > 0 -> nr_inflight[2]--; q = 2 }
	:: goto over
	fi;
	hand_over(q, at, found, i, got, ok);
	d_step { nr_left--; q = 0; found = 0; at = 0; i = 0; got = 0; ok = 0 };
	goto again;
over:
	skip
}

init {
	atomic {
		token[ROOT] = D;
		holds[ROOT] = 1;
		nr_left = TOTAL;
		/* All has been submitted, and the queues have been run for it. */
		nr_requests[0] = N0; nr_requests[1] = N1; nr_requests[2] = N2;
		kicked[0] = 1; kicked[1] = 1; kicked[2] = 1;
		run worker(0); run worker(1); run worker(2);
		run completer(); run completer();
		run clock()
	};
	timeout ->
	assert(token[0] + token[1] + token[2] + token[CORE] + token[ROOT] +
	       nr_inflight[0] + nr_inflight[1] + nr_inflight[2] == D);
	assert(token[0] + token[1] + token[2] + token[CORE] + token[ROOT] == 0 ||
	       (state[0] != READY && state[1] != READY && state[2] != READY));
	assert(state[0] != ARMED && state[1] != ARMED && state[2] != ARMED);
	assert(state[0] != RUNNABLE || !nr_requests[0]);
	assert(state[1] != RUNNABLE || !nr_requests[1]);
	assert(state[2] != RUNNABLE || !nr_requests[2]);
	assert(nr_inflight[0] + nr_inflight[1] + nr_inflight[2] > 0 || nr_left == 0)
}
