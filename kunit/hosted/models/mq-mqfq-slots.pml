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
 * lost; no token is in the tree while a queue is READY or RESTING; a RESTING queue has something at
 * the device; no queue is ARMED, or RUNNABLE with requests; and unless something is at the device,
 * all requests have been completed.
 *
 * All requests have been submitted at the beginning, so no insertion ends a rest: releases must.
 * A slot may rest while LEAST others are at the device. Which queue gets a slot, and whether one
 * rests, is free. With ONE_NODE, all tokens lie in one node of the tree.
 *
 *	spin -a -DD=1 mq-mqfq-slots.pml; cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c; ./pan -m1000000
 *
 * check_models does this. D is the number of tokens, N0, N1 and N2 are how many requests a queue
 * gets, THROTTLES how often queues may be throttled. Defining NO_SECOND_LOOK, STEAL_FIRST,
 * NO_STEAL, KEEP_BOTH, NO_SET_AGAIN, NO_SHARE_OUT, NO_SEEK, NO_LOOK_AGAIN, SET_NOT_XCHG,
 * NO_COUNT_AGAIN or NO_END_REST breaks the algorithm; a claim must fail then.
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
#ifndef COMPLETERS
#define COMPLETERS 2
#endif
#ifndef LEAST
#define LEAST 1
#endif

/* A queue keeps a token for a second request, and one rests while two others are in flight. */
#if N0 > 1 || N1 > 1 || N2 > 1
#define KEEPS
#endif
#if D > 1 && (N0 > 2 || N1 > 2 || N2 > 2)
#define RESTS
#endif

#define CORE 3
#define ROOT 4

#define RUNNABLE 0
#define THROTTLED 1
#define READY 2
#define RESTING 3
#define ARMED 4

byte state[3];		/* if ARMED, with the tokens beyond the first one added */
bool ready_bit[3];
bool kicked[3];		/* the queue was run; its worker has not come yet */
byte nr_requests[3];
byte nr_released[3];
byte token[5];
bool holds[5];		/* the node may have tokens; the root's is always set */
byte throttles_left = THROTTLES;
byte nr_busy;		/* processes that do something */

#define taken(q)		((q == 0) * N0 + (q == 1) * N1 + (q == 2) * N2 - nr_requests[q])
#define in_flight(q)		(taken(q) - nr_released[q])
#define is_waiting(q)		(state[q] == READY || state[q] == RESTING)
/* Tokens in the hand of a queue. */
#define in_hand(q)		((state[q] == RESTING) + \
				 (state[q] >= ARMED) * (state[q] - ARMED + 1))

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

/* That it does not write a bit that is set makes no difference here. */
inline set_holds(node)
{
	holds[node] = 1
}

/* token_tree_put() */
inline put_to(node, n)
{
	token[node] = token[node] + n;
	set_holds(node)
}

/* token_tree_steal(): looks where bits are set, and clears those of empty nodes */
#ifdef ONE_NODE
inline steal(q, i, got, more)
{
	take_from(ROOT, 1, got)
}
#else
inline steal(q, i, got, more)
{
	do
	:: atomic { !holds[look_at(q, i)] -> i++ }
	:: holds[look_at(q, i)] ->
	   atomic {
		take_from(look_at(q, i), 1, got);
		if
		:: got || i == 4 -> break
		:: else
		fi
	   };
	   holds[look_at(q, i)] = 0;
#ifndef NO_SET_AGAIN
	   if
	   :: atomic { token[look_at(q, i)] == 0 -> i++ }
	   :: token[look_at(q, i)] > 0 ->
		atomic { holds[look_at(q, i)] = 1; more = 1 };
		atomic {
			take_from(look_at(q, i), 1, got);
			if
			:: got -> break
			:: else -> i++
			fi
		}
	   fi
#else
	   i++
#endif
	od;
	i = 0
}
#endif

/* ---- the ready set; a bit per step ---- */

/* @ok if no bit is set */
#ifdef ONE_WORD
#define LOOK atomic

inline look(q, i, ok)
{
	ok = !ready_bit[0] && !ready_bit[1] && !ready_bit[2]
}
#else
#define LOOK

inline look(q, i, ok)
{
	do
	:: atomic { ready_bit[near(q, i)] -> i = 0; ok = 0; break }
	:: atomic {
		!ready_bit[near(q, i)] -> i++;
		if
		:: i == 3 -> i = 0; ok = 1; break
		:: else
		fi
	   }
	od
}
#endif

/* ---- tokens for queues that wait ---- */

/* mqfq_end_wait() */
inline end_wait(q, was, now, ok)
{
	d_step {
		ok = (state[q] == was);
		if
		:: ok -> state[q] = now; kicked[q] = 1
		:: else
		fi
	}
}

/* mqfq_end_slot_wait(), if it waits */
inline end_slot_wait(q)
{
	state[q] = (state[q] == READY -> ARMED : ARMED + 1);
	kicked[q] = 1
}

/* mqfq_hand_over() near @q, and mqfq_give(); which queue gets the token is a free choice */
inline hand_over(q, at, found, i, got, ok)
{
	do
#ifdef KEEPS
	/* mqfq_keep() */
	:: atomic { state[q] >= ARMED -> i = nr_requests[q] };
	   atomic {
		if
		:: state[q] >= ARMED && in_hand(q) < i -> i = 0; state[q]++; break
		:: else -> i = 0
		fi
	   }
#endif
#ifdef COARSE
	/* mqfq_arm_waiting() */
	:: atomic { is_waiting(0) -> end_slot_wait(0); break }
	:: atomic { is_waiting(1) -> end_slot_wait(1); break }
	:: atomic { is_waiting(2) -> end_slot_wait(2); break }
	:: if
	   :: atomic { ready_bit[0] && !is_waiting(0) -> found = 0 }
	   :: atomic { ready_bit[1] && !is_waiting(1) -> found = 1 }
	   :: atomic { ready_bit[2] && !is_waiting(2) -> found = 2 }
	   fi;
	   /* ready_set_del() */
	   if
	   :: atomic { !ready_bit[found] -> found = 0 }
	   :: atomic { ready_bit[found] -> ready_bit[found] = 0 };
#ifndef NO_LOOK_AGAIN
	      atomic {
		if
		:: is_waiting(found) -> end_slot_wait(found); break
		:: else -> found = 0
		fi
	      }
#else
	      found = 0
#endif
	   fi
#else
	/* mqfq_arm_waiting() */
	:: if
	   :: atomic { ready_bit[0] -> found = 0 }
	   :: atomic { ready_bit[1] -> found = 1 }
	   :: atomic { ready_bit[2] -> found = 2 }
	   fi;
	   atomic {
		end_wait(found, READY, ARMED, ok);
		if
		:: ok -> break
		:: else
		fi
	   };
#ifdef RESTS
	   atomic {
		end_wait(found, RESTING, ARMED + 1, ok);
		if
		:: ok -> break
		:: else
		fi
	   };
#endif
	   /* ready_set_del() */
	   if
	   :: atomic { !ready_bit[found] -> found = 0 }
	   :: atomic { ready_bit[found] -> ready_bit[found] = 0 };
#ifndef NO_LOOK_AGAIN
	      atomic {
		end_wait(found, READY, ARMED, ok);
		if
		:: ok -> break
		:: else
		fi
	      };
#ifdef RESTS
	      atomic {
		end_wait(found, RESTING, ARMED + 1, ok);
		if
		:: ok -> break
		:: else
		fi
	      };
#endif
#endif
	      found = 0
	   fi
#endif
	:: look(q, i, ok);
	   if
	   :: atomic {
		ok -> ok = 0;
		/* token_tree_rest(), by quota */
		if
#ifndef ONE_NODE
		:: at = q
		:: at = parent(q)
#endif
		:: at = ROOT
		fi;
		token[at]++
	      };
#ifndef ONE_NODE
	      set_holds(at);
#endif
#ifdef NO_SECOND_LOOK
	      break;
#endif
	      LOOK {
		look(q, i, ok);
		if
		:: ok -> break
		:: else
		fi
	      };
	      atomic {
		take_from(at, 1, got);
		at = 0;
		if
		:: !got -> break
		:: else -> got = 0
		fi
	      }
	   :: else
	   fi
	od;
	found = 0;
	at = 0;
	ok = 0
}

/* mqfq_share_out() */
inline share_out(q, at, found, i, got, ok, more)
{
	do
	:: LOOK {
		look(q, i, ok);
		if
		:: ok -> break
		:: else
		fi
	   };
	   steal(q, i, got, more);
	   if
	   :: !got -> break
	   :: else -> got = 0; hand_over(q, at, found, i, got, ok)
	   fi
	od;
	ok = 0;
	more = 0
}

/* mqfq_seek_slot(); @armed if the queue was armed by this */
inline seek_slot(q, at, found, i, got, ok, more, armed)
{
	/* ready_set_add(): that it does not write a bit that is set makes no difference here. */
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
	if
	:: got ->
		d_step {
			got = 0;
			armed = (state[q] == READY);
			if
			:: armed -> state[q] = ARMED
			:: else
			fi
		};
#ifndef KEEP_BOTH
		if
		:: !armed -> hand_over(q, at, found, i, got, ok)
		:: else
		fi;
#endif
#if !defined(NO_SHARE_OUT) && !defined(ONE_NODE)
		if
		:: more -> share_out(q, at, found, i, got, ok, more)
		:: else
		fi
#endif
	:: else
	fi;
	more = 0
}

/* ---- a queue's worker: mqfq_take() until it says no ---- */

/* mqfq_set_state(): what was kept beyond the first token is given back */
inline set_state(q, now, beyond, at, found, i, got, ok)
{
#ifndef KEEPS
	state[q] = now
#else
#ifdef SET_NOT_XCHG
	beyond = in_hand(q);
	state[q] = now;
#else
	d_step { beyond = in_hand(q); state[q] = now };
#endif
	do
	:: beyond > 1 -> beyond--; hand_over(q, at, found, i, got, ok)
	:: else -> break
	od;
	beyond = 0
#endif
}

proctype worker(byte q)
{
	byte got, i, node, found, at, beyond;
	bool ok, more, armed;

end:	do
	:: atomic { kicked[q] -> kicked[q] = 0; nr_busy++ };
again:
	   /* Only the worker ends RUNNABLE and ARMED. */
	   if
	   :: atomic { state[q] >= ARMED -> nr_requests[q]-- }
	   :: state[q] == RUNNABLE
#ifdef RESTS
	   :: state[q] == RESTING ->
		/* mqfq_use_rest() */
		d_step {
			if
			:: state[q] == RESTING -> state[q] = ARMED
			:: else
			fi
		};
		goto again
#endif
	   :: state[q] == THROTTLED || state[q] == READY -> goto done
	   fi;

	   /* mqfq_arm() */
	   if
	   :: nr_requests[q] == 0 ->
		set_state(q, RUNNABLE, beyond, at, found, i, got, ok);
		goto done
#if THROTTLES
	   :: atomic { nr_requests[q] > 0 && throttles_left > 0 -> throttles_left-- };
	      set_state(q, THROTTLED, beyond, at, found, i, got, ok);
	      goto done
#endif
	   :: nr_requests[q] > 0
	   fi;
#ifdef KEEPS
	   /* mqfq_take_kept() */
	   atomic {
		if
		:: state[q] > ARMED -> state[q]--; goto again
		:: else
		fi
	   };
#endif
	   /* token_node_take(), mqfq_fetch_slot() */
#ifdef ONE_NODE
	   atomic {
		take_from(ROOT, 1, got);
		if
		:: got -> goto has_slot
		:: else
		fi
	   };
#else
	   atomic {
		take_from(q, 1, got);
		if
		:: got -> goto has_slot
		:: else -> node = q
		fi
	   };
	   do
	   :: atomic {
		node = parent(node);
		take_from(node, nr_requests[q], got);
		if
		:: got == 1 -> goto has_slot
		:: got > 1 -> break
		:: got == 0 && node == ROOT -> break
		:: else
		fi
	      }
	   od;
	   node = 0;
	   if
	   :: got ->
		put_to(q, got - 1);
		got = 0;
#ifndef NO_SHARE_OUT
		share_out(q, at, found, i, got, ok, more);
#endif
		goto has_slot
	   :: else
	   fi;
#endif
	   /* mqfq_find_slot() */
	   set_state(q, READY, beyond, at, found, i, got, ok);
	   seek_slot(q, at, found, i, got, ok, more, armed);
	   armed = 0;
	   goto again;
has_slot:
	   atomic {
		got = 0;
		node = 0;
		if
		:: state[q] == RUNNABLE -> state[q] = ARMED
		:: else
		fi
	   };
	   goto again;
done:
	   nr_busy--
	od
}

/* ---- mqfq_end_throttle(): virtual time comes near, some time, or the wheel is early ---- */

#ifdef VT_WAITS
#define MAY_MOVE(a, b)	(!is_waiting(a) && !is_waiting(b))
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
	   nr_busy++;
	   /* token_tree_take() of one */
	   node = q;
	   do
	   :: atomic {
		take_from(node, 1, got);
		if
		:: got || node == ROOT -> break
		:: else -> node = parent(node)
		fi
	      }
	   od;
	   node = 0;
	   if
	   :: got ->
		atomic { got = 0; end_wait(q, THROTTLED, ARMED, ok) };
		if
		:: !ok -> hand_over(q, at, found, i, got, ok)
		:: else -> ok = 0
		fi
	   :: else ->
		atomic {
			if
			:: state[q] == THROTTLED -> state[q] = READY; ok = 1
			:: else
			fi
		};
		if
		:: ok ->
#ifndef NO_SEEK
			ok = 0;
			seek_slot(q, at, found, i, got, ok, more, armed);
			if
			:: armed -> kicked[q] = 1; armed = 0
			:: else
			fi
#else
			ready_bit[q] = 1;
			ok = 0
#endif
		:: else
		fi
	   fi;
	   atomic { q = 0; nr_busy-- }
	od
}

/* ---- mqfq_release(), on two CPUs ---- */

#ifdef RESTS
/* mqfq_nr_slots_held(): the compiler may read the two counts in any order */
inline held(q, i)
{
	if
	:: i = taken(q);
	   d_step { if :: i > nr_released[q] -> i = i - nr_released[q] :: else -> i = 0 fi }
	:: i = nr_released[q];
	   d_step { if :: taken(q) > i -> i = taken(q) - i :: else -> i = 0 fi }
	fi
}

/* mqfq_rest(); @ok if the token rests in the queue */
inline rest(q, i, ok, more)
{
#ifndef NO_END_REST
	end_wait(q, RESTING, ARMED, more);
#endif
	if
	:: !more ->
		held(q, i);
		atomic {
			if
			:: i >= LEAST && state[q] == READY -> state[q] = RESTING; ok = 1
			:: else
			fi;
			i = 0
		};
#ifndef NO_COUNT_AGAIN
		if
		:: ok ->
			held(q, i);
			if
			:: i == 0 -> end_wait(q, RESTING, ARMED, more)
			:: else
			fi
		:: else
		fi
#endif
	:: true			/* no request has come, or the queue has its share, or had a rest */
	fi;
	more = 0;
	i = 0
}
#endif

#define is_idle	(nr_busy == 0 && !kicked[0] && !kicked[1] && !kicked[2])
#define in_tree		(token[0] + token[1] + token[2] + token[CORE] + token[ROOT])
#define all_in_flight	(in_flight(0) + in_flight(1) + in_flight(2))

inline check_all()
{
	assert(in_tree + all_in_flight + in_hand(0) + in_hand(1) + in_hand(2) == D);
	assert(in_tree == 0 || (!is_waiting(0) && !is_waiting(1) && !is_waiting(2)));
	assert(state[0] != RESTING || in_flight(0) > 0);
	assert(state[1] != RESTING || in_flight(1) > 0);
	assert(state[2] != RESTING || in_flight(2) > 0);
	assert(state[0] < ARMED && state[1] < ARMED && state[2] < ARMED);
	assert(state[0] != RUNNABLE || !nr_requests[0]);
	assert(state[1] != RUNNABLE || !nr_requests[1]);
	assert(state[2] != RUNNABLE || !nr_requests[2])
}

#define FOR_BOTH(q)	(q == 1 && (N1 > 1 || N2 == 1) || q == 2 && N2 > 1)

proctype completer(bool is_first)
{
	byte q, found, at, i, got;
	bool ok, more;

end:	do
	:: atomic {
		if
		:: in_flight(0) > 0 -> q = 0
		:: in_flight(1) > 0 && (is_first || FOR_BOTH(1)) -> q = 1
		:: in_flight(2) > 0 && (is_first || FOR_BOTH(2)) -> q = 2
		fi;
		if
		:: is_idle -> check_all()
		:: else
		fi;
		nr_released[q]++;
		nr_busy++
	   };
#ifdef RESTS
	   if
	   :: is_waiting(q) -> rest(q, i, ok, more)
	   :: else
	   fi;
#endif
	   if
	   :: !ok -> hand_over(q, at, found, i, got, ok)
	   :: else -> ok = 0
	   fi;
	   atomic { q = 0; nr_busy-- }
	od
}

init {
	atomic {
		token[ROOT] = D;
		holds[ROOT] = 1;
		/* All has been submitted, and the queues have been run for it. */
		nr_requests[0] = N0; nr_requests[1] = N1; nr_requests[2] = N2;
		kicked[0] = 1; kicked[1] = 1; kicked[2] = 1;
		run worker(0); run worker(1); run worker(2);
		run completer(true);
#if COMPLETERS > 1
		run completer(false);
#endif
		run clock()
	};
	timeout ->
	check_all();
	assert(all_in_flight == 0);
	assert(nr_requests[0] + nr_requests[1] + nr_requests[2] == 0)
}
