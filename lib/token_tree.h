/* SPDX-License-Identifier: GPL-2.0 */
/*
 * token_tree.h - the slots of a device, kept near to the queues that use them
 *
 * A device may have D requests in flight; each holds a token. The tokens that are free lie in a
 * tree of the shape of the machine: in a leaf for one queue, in an inner node for all queues
 * below it. A queue takes from its leaf, else from the next node above, up to the root, so that
 * as long as there are tokens nearby no CPU far away is disturbed.
 *
 * MQFQ, ATC 2019, section 3.2. The paper puts a token that comes back where the queue that shall
 * have it next will pass. Here that queue gets it in its hand (mqfq_slots.c), so only tokens that
 * no queue waits for come to the tree. What the paper leaves open:
 *
 *  - where such a token goes: to the leaf, until that holds its quota (its equal share of D), then
 *    to the next node above that is below its quota. So a queue that uses no more than its share
 *    meets no other, and tokens beyond that lie where all queues pass by.
 *  - what happens to a token in a leaf whose queue has nothing to do, when another queue wants it.
 *    No CPU would bring it. token_tree_steal() finds it; a queue must look after it has said that
 *    it waits, before it rests (mqfq_slots.c tells why that is enough).
 *  - a smaller D while all tokens are out. The root then goes below zero, and a CPU that gives a
 *    token back pays the debt first.
 *  - that a queue's requests do not come back. As many tokens as they hold are lent to the others,
 *    and requests that come back pay for that: their tokens are not put back.
 *
 * At all times the sum of all nodes, tokens in hands included, is D and what is lent. "Hands" are
 * requests in flight, queues whose next request has a token, and CPUs that move tokens.
 *
 * A look for a token does not read all nodes, which other CPUs write. Each node has a bit, and a
 * node that holds a token has its bit set; the root's is always set. Bits are seldom written: a CPU
 * that puts a token sets the bit if it is clear, and only a look that finds a node empty clears it:
 *
 *	1. put: W token			look: W bit, clear
 *	2. put: mb			look: mb
 *	3. put: R bit; sets it		look: R token; sets the bit again
 *
 * One of the two sees the other. But a third CPU may have looked while the bit was clear: then
 * token_tree_steal() says so, and its caller must look after queues that wait.
 *
 * Every operation may run at the same time as any other, in any context, except that
 * token_tree_resize() is one at a time.
 */
#ifndef MQFAIR_TOKEN_TREE_H
#define MQFAIR_TOKEN_TREE_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/cache.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/minmax.h>

#include "topology.h"

struct seq_file;

struct token_node {
	atomic_t nr_free;
} ____cacheline_aligned_in_smp;

/**
 * struct token_tree - free slots
 * @topology:	its shape
 * @node:	its nodes, numbered as there
 * @holds:	a bit per node: it may hold tokens
 * @slots:	D
 * @quota:	how many tokens may rest in a node, per leaf below it
 * @in_debt:	the root is below zero: give tokens back to it
 * @nr_lent:	tokens beyond D
 */
struct token_tree {
	const struct topology *topology;
	struct token_node *node;
	unsigned long *holds;
	int slots;
	int quota;
	bool in_debt;
	atomic_t nr_lent;
};

/**
 * token_tree_init() - all tokens lie in the root
 * @t:		token tree
 * @topology:	its shape; outlives it
 * @slots:	D, 1 to INT_MAX / 2
 * @gfp:	allocation flags
 *
 * Return: 0 or -ENOMEM.
 */
int token_tree_init(struct token_tree *t, const struct topology *topology, int slots, gfp_t gfp);
void token_tree_destroy(struct token_tree *t);

/* Takes up to @want tokens out of a node; returns how many. */
static inline int token_node_take(struct token_node *node, int want)
{
	int nr_free = atomic_read(&node->nr_free), n;

	do {
		n = min(nr_free, want);
		if (n <= 0)
			return 0;
		/* Pairs with itself and atomic_inc(): a token is taken once. */
	} while (!atomic_try_cmpxchg(&node->nr_free, &nr_free, nr_free - n));
	return n;
}

/* Full barrier after the token was put: the caller looks for queues that wait for one. */
static inline void token_tree_put(struct token_tree *t, unsigned int number, int n)
{
	atomic_add(n, &t->node[number].nr_free);
	/* Token before bit. Pairs with the barrier in token_tree_look(). */
	smp_mb__after_atomic();
	if (likely(test_bit(number, t->holds)))
		return;
	set_bit(number, t->holds);
	/* Bit before the queues that wait. Pairs with ready_set_add(). */
	smp_mb__after_atomic();
}

/**
 * token_tree_fetch() - a token for a request, from the nodes above the queue's leaf
 * @t:		token tree
 * @leaf:	the queue's
 * @want:	how many requests it could send; 1 or more. Tokens for the others are brought to the
 *		leaf, so that they need not climb again. The caller looks for queues that wait for
 *		one of these, as after token_tree_put().
 *
 * Return: true if the caller has a token now.
 */
bool token_tree_fetch(struct token_tree *t, unsigned int leaf, int want);

/* The same, from the leaf first. */
static inline bool token_tree_take(struct token_tree *t, unsigned int leaf, int want)
{
	return token_node_take(&t->node[leaf], 1) || token_tree_fetch(t, leaf, want);
}

/**
 * token_tree_steal() - a token for a request, from wherever there is one, the nearest leaf first
 * @t:		token tree
 * @leaf:	the queue's
 * @more:	set to true if there may be tokens that another queue has overlooked meanwhile
 *
 * Looks at the nodes whose bits are set.
 *
 * Return: true if the caller has a token now.
 */
bool token_tree_steal(struct token_tree *t, unsigned int leaf, bool *more);

/* The same as token_tree_rest(), but not in the leaf. */
unsigned int token_tree_rest_above(struct token_tree *t, unsigned int leaf);

/**
 * token_tree_rest() - give a token back that no queue waits for
 * @t:		token tree
 * @leaf:	of the queue whose request is done
 *
 * Full barrier afterwards, as token_tree_put().
 *
 * Return: the node where it is now.
 */
static inline unsigned int token_tree_rest(struct token_tree *t, unsigned int leaf)
{
	if (READ_ONCE(t->in_debt) || atomic_read(&t->node[leaf].nr_free) >= READ_ONCE(t->quota))
		return token_tree_rest_above(t, leaf);
	token_tree_put(t, leaf, 1);
	return leaf;
}

/**
 * token_tree_resize() - change D
 * @t:		token tree
 * @slots:	the new D, 1 to INT_MAX / 2
 *
 * Less takes effect as requests complete; nothing waits for them. More: the caller owes a
 * wake-up to the queues that wait.
 */
void token_tree_resize(struct token_tree *t, int slots);

/**
 * token_tree_lend() - more tokens, without a larger D
 * @t:		token tree
 * @n:		how many
 *
 * The caller owes a look for queues that wait, and n calls of token_tree_paid().
 */
void token_tree_lend(struct token_tree *t, int n);

/* A token that was in hands is gone. Any context. */
static inline void token_tree_paid(struct token_tree *t)
{
	atomic_dec(&t->nr_lent);
}

/* How many tokens a look around finds; what is moved meanwhile may be missed. */
int token_tree_nr_free(const struct token_tree *t);

/* D and what is lent, then a line per node: level, leaves, tokens. */
void token_tree_show(const struct token_tree *t, struct seq_file *m);

#endif /* MQFAIR_TOKEN_TREE_H */
