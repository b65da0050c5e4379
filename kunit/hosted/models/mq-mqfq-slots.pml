/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mq-mqfq-slots.pml - a model of the wake-ups when a slot is free: see "READY" at the top of
 * mq-mqfq/mqfq_policy.c
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
 * bits is a step per word. The words are seen in one order by all, so this says nothing about
 * barriers: that is the litmus tests' part. A queue may be throttled whenever it asks, and comes
 * back by itself some time later.
 *
 * A request may stay at the device for ever. Claims, when nothing can move any more: no token is
 * lost; no token is idle while a queue is READY; and unless something is at the device, all
 * requests have been completed.
 *
 *	spin -a -DD=1 mq-mqfq-slots.pml; cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c; ./pan -m1000000
 *
 * check_models does this. D is the number of tokens, N0, N1 and N2 are how many requests a queue
 * gets, THROTTLES how often queues may be throttled. Defining NO_SECOND_LOOK, STEAL_FIRST, NO_STEAL
 * or KEEP_WAKE breaks the algorithm; a claim must fail then. NO_PASS_ON leaves out what a throttled
 * queue owes.
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

byte state[3];
bool ready_bit[3];
bool kicked[3];		/* the queue was run; its worker has not come yet */
byte nr_requests[3];
byte nr_inflight[3];
byte token[5];
byte nr_left;		/* requests that have not been completed */
byte throttles_left = THROTTLES;

/* ---- the tree ---- */

#define covers(node, leaf)	(node == leaf || node == ROOT || (node == CORE && leaf < 2))
#define parent(node)		(CORE + (node >= 2))
#define lca(a, b)		((a == b) * a + (a != b) * (ROOT - (a < 2 && b < 2)))
/*
 * The leaves in the order of their distance from @q: itself, the other one on the core, the rest.
 */
#define near(q, i)		((i == 0) * q + (i != 0) * ((q == 2) * (i - 1) + \
				 (q != 2) * ((i == 1) * (1 - q) + (i == 2) * 2)))

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

inline put_to(node)
{
	token[node]++
}

/* ---- the ready set; a bit per step ---- */

inline nearest(q, found, i)
{
	found = NOBODY;
	i = 0;
	do
	:: i < 3 && ready_bit[near(q, i)] -> found = near(q, i); break
	:: i < 3 && !ready_bit[near(q, i)] -> i++
	:: i == 3 -> break
	od;
	i = 0
}

/* mqfq_wake_nearest(); @found is NOBODY if no queue waits */
inline wake_nearest(q, found, i, ok)
{
	do
	:: nearest(q, found, i);
	   if
	   :: found == NOBODY -> break
	   :: else ->
		/* ready_set_del() */
		d_step { ok = ready_bit[found]; ready_bit[found] = 0 };
		if
		:: ok ->
			/* mqfq_wake() */
			d_step {
				ok = (state[found] == READY);
				if
				:: ok -> state[found] = RUNNABLE
				:: else
				fi
			};
			if
			:: ok -> kicked[found] = 1; ok = 0; break
			:: else
			fi
		:: else
		fi
	   fi
	od
}

/* ---- a queue's worker: mqfq_take() until it says no ---- */

proctype worker(byte q)
{
	byte n, got, i, node, found;
	bool ok, passing;

end:	do
	:: atomic { kicked[q] -> kicked[q] = 0 };
more:
	   if
	   :: state[q] != RUNNABLE || nr_requests[q] == 0 -> goto done
	   :: else
	   fi;
	   if
	   :: atomic { throttles_left > 0 -> throttles_left-- }; goto throttled
	   :: skip
	   fi;

	   /* token_tree_take() */
	   take_from(q, 1, got);
	   if
	   :: got -> goto go
	   :: else
	   fi;
	   node = q;
	   do
	   :: node == ROOT -> break
	   :: else ->
		node = parent(node);
		take_from(node, nr_requests[q], got);
		if
		:: got > 1 -> token[q] = token[q] + got - 1; goto go
		:: got == 1 -> goto go
		:: else
		fi
	   od;

	   /* mqfq_find_slot() */
	   state[q] = READY;
#ifndef STEAL_FIRST
	   ready_bit[q] = 1;
#endif
	   /* token_tree_steal(): leaves, then inner nodes */
	   i = 0;
#ifdef NO_STEAL
	   i = 5;
#endif
	   got = 0;
	   do
	   :: i < 3 -> take_from(near(q, i), 1, got);
	      if
	      :: got -> break
	      :: else -> i++
	      fi
	   :: i == 3 || i == 4 -> take_from(i, 1, got);
	      if
	      :: got -> break
	      :: else -> i++
	      fi
	   :: i == 5 -> break
	   od;
	   i = 0;
#ifdef STEAL_FIRST
	   if
	   :: !got -> ready_bit[q] = 1
	   :: else
	   fi;
#endif
	   if
	   :: !got -> goto done
	   :: else
	   fi;
	   d_step {
		ok = (state[q] == READY);
		state[q] = RUNNABLE
	   };
	   if
	   :: ok -> ready_bit[q] = 0
	   :: !ok ->
#ifndef KEEP_WAKE
		/* Woken meanwhile, for a token that is not this one. */
		passing = 1;
		goto pass_on;
#else
		ready_bit[q] = 0
#endif
	   fi;
go:
	   skip;
	   got = 0;
	   node = 0;
	   d_step { nr_requests[q]--; nr_inflight[q]++ };
	   goto more;

throttled:
	   state[q] = THROTTLED;
#ifdef NO_PASS_ON
	   goto done;
#endif
pass_on:
	   nearest(q, found, i);
	   if
	   :: found == NOBODY -> goto passed
	   :: else
	   fi;
	   /* token_tree_nr_free() */
	   n = 0;
	   do
	   :: i < 5 -> n = n + token[i]; i++
	   :: i == 5 -> break
	   od;
	   i = 0;
	   do
	   :: n > 0 -> n--;
	      wake_nearest(q, found, i, ok);
	      if
	      :: found == NOBODY -> n = 0
	      :: else
	      fi
	   :: else -> break
	   od;
passed:
	   if
	   :: passing -> passing = 0; ok = 0; goto go
	   :: else
	   fi;
done:
	   skip;
	   d_step { n = 0; got = 0; i = 0; node = 0; found = 0; ok = 0 }
	od
}

/* Virtual time comes near, some time. */
proctype clock()
{
end:	do
	:: atomic { state[0] == THROTTLED -> state[0] = RUNNABLE }; kicked[0] = 1
	:: atomic { state[1] == THROTTLED -> state[1] = RUNNABLE }; kicked[1] = 1
	:: atomic { state[2] == THROTTLED -> state[2] = RUNNABLE }; kicked[2] = 1
	od
}

/* ---- mqfq_release(), on two CPUs ---- */

proctype completer()
{
	byte q, target, at, i, got;
	bool ok;

again:
	if
	:: atomic { nr_inflight[0] > 0 -> nr_inflight[0]--; q = 0 }
	:: atomic { nr_inflight[1] > 0 -> nr_inflight[1]--; q = 1 }
	:: atomic { nr_inflight[2] > 0 -> nr_inflight[2]--; q = 2 }
	:: goto over
	fi;

	nearest(q, target, i);
	if
	:: target != NOBODY -> at = lca(q, target)
	:: target == NOBODY -> at = q		/* token_tree_rest(), by quota */
	:: target == NOBODY -> at = parent(q)
	:: target == NOBODY -> at = ROOT
	fi;
	put_to(at);
	if
	:: target == NOBODY ->
#ifdef NO_SECOND_LOOK
		goto finished;
#endif
		nearest(q, target, i);
		if
		:: target == NOBODY -> goto finished
		:: else
		fi;
		/* token_tree_move() */
		if
		:: !covers(at, target) ->
			take_from(at, 1, got);
			if
			:: got ->
				got = 0;
				if
				:: at == CORE || target == 2 || at == 2 -> put_to(ROOT)
				:: else -> put_to(CORE)
				fi
			:: else
			fi
		:: else
		fi
	:: else
	fi;
	wake_nearest(q, target, i, ok);
finished:
	skip;
	d_step { nr_left--; q = 0; target = 0; at = 0; i = 0; got = 0; ok = 0 };
	goto again;
over:
	skip
}

init {
	atomic {
		token[ROOT] = D;
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
	assert(nr_inflight[0] + nr_inflight[1] + nr_inflight[2] == D ||
	       (state[0] != READY && state[1] != READY && state[2] != READY));
	assert(nr_inflight[0] + nr_inflight[1] + nr_inflight[2] > 0 || nr_left == 0)
}
