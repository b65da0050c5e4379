/* SPDX-License-Identifier: GPL-2.0 */
/*
 * way.h - keys of slots that are on their way from node to node, while clients use them
 *
 * The node that a slot leaves has it until CLUSTER SETSLOT NODE. Until then it does what clients
 * ask of the keys that are here, and makes no new ones. A client that asks for a key that is not
 * here is answered ASK, with the node that the slot goes to. That node takes commands on the slot
 * which ASKING announces. A command on several keys needs all of them here; else it is answered
 * ASK, if none is here, or TRYAGAIN.
 *
 * Whether a key is here is decided where operations on it are, at the owner of its partition, by
 * the map of that moment. So when CLUSTER SETSLOT MIGRATING is answered, all operations that began
 * before it are over (way_drain()), and no key of the slot can come into being any more.
 *
 * MIGRATE locks the keys that it sends (struct leaving). All that is asked of them waits at the
 * owner until they are gone, or stay; another MIGRATE of them, too. A lock keeps its partition
 * where it is.
 *
 * If it is not known whether the other node has got a key, it may have a copy that is older than
 * the key here. Nobody sees the copy as long as the key is here. So keys of such a slot, which is
 * in doubt, must not go: what would remove one, or let it expire sooner, is answered TRYAGAIN. And
 * MIGRATE replaces what the other node has of them. That ends when the slot has moved, or stays.
 * After a start all slots that leave are in doubt.
 */
#ifndef OKV_WAY_H
#define OKV_WAY_H

#include "cluster/map.h"
#include "server/server.h"

enum way {
	WAY_NONE,			/* the key is here, if it is anywhere; or it has no slot */
	WAY_LEAVES, WAY_COMES,
	WAY_ELSEWHERE,			/* another node has the slot */
};

/* A key with a lock, or that may get one. */
struct leaving_key {
	uint32_t arg;			/* of the MIGRATE */
	uint16_t tenant;
	uint64_t hash;
};

/* The keys that a MIGRATE has locked, and the mail that waits for them. */
struct leaving {
	struct kv_msg msg;
	struct leaving *next;		/* of the worker */
	uint32_t partition;
	struct leaving_key *keys;	/* in the order of their hashes */
	uint32_t nr_keys;
	struct kv_msg *first, *last;
};

/* ---- at the owner ---- */

/*
 * What the map says now of a slot, or of -1, which is none. @asking: the client has been sent here.
 */
static inline enum way way_of(const struct server *s, int32_t slot, bool asking)
{
	const struct cluster *c = s->cluster;

	if (slot < 0)
		return WAY_NONE;
	if (cluster_owns(c, slot))
		return c->way[slot] ? WAY_LEAVES : WAY_NONE;
	return c->way[slot] && asking ? WAY_COMES : WAY_ELSEWHERE;
}

/* Whether a slot that leaves is in doubt. */
bool way_is_in_doubt(const struct server *s, int32_t slot);

/* True: the key is locked, and @msg comes again later. */
bool way_waits(struct worker *w, struct kv_msg *msg, uint64_t hash);

/* Before an operation, or a transaction, begins, and when it is over. */
uint8_t way_begin(struct worker *w);
void way_end(struct worker *w, uint8_t turn);

/* Returns @msg when all that had begun is over. */
void way_drain(struct worker *w, struct kv_msg *msg);

void way_lock(struct worker *w, struct leaving *l);
void way_unlock(struct worker *w, struct leaving *l);

/* ---- changes of the map, and who goes by the old one ---- */

/*
 * A change says that it comes, and then looks who is there. MIGRATE and FLUSHALL say that they are
 * there, and then look whether a change comes. So at least one of two sees the other, and gives up.
 * These fields are atomic.
 *
 * Shipments have numbers, which rise. What a node has sent before may be taken in late, after what
 * it sent later, by another connection. The owner of the partition refuses it then.
 */
struct way_use {
	bool changes;			/* the map */
	uint32_t nr_flushes;		/* under way: FLUSHALL, CLUSTER FLUSHSLOT */
	uint64_t last_shipment;		/* from here; atomic, too */
	struct {
		bool ends;		/* its way */
		uint32_t nr_migrates;	/* under way */
		/* At the owner: the last shipment that has come, and from which node. */
		uint64_t shipment;
		char source[CLUSTER_ID_LEN + 1];
	} slots[OKV_NR_SLOTS];
};

/* The number of a new shipment: greater than all before, those of an earlier start, too. */
uint64_t way_next_shipment(struct server *s, uint64_t now_ms);

/* At the owner: whether a key of this shipment may be written here. */
bool way_takes_shipment(struct server *s, uint32_t slot, const char *source, uint64_t shipment);

/*
 * Before @fresh becomes the map: no way ends while MIGRATE has keys of the slot, and no slot comes,
 * or begins to move, while keys are flushed. False, with a sentence in @why: it has to wait.
 */
bool way_change_begin(struct server *s, const struct cluster *fresh, char *why, size_t why_bytes);
void way_change_end(struct server *s);

/* False: try again. Else the other function is to follow. */
bool way_migrate_begin(struct server *s, uint32_t slot);
void way_migrate_end(struct server *s, uint32_t slot);
bool way_flush_begin(struct server *s);
void way_flush_end(struct server *s);

/* ---- at home ---- */

/* The partition that has the keys of a slot. */
static inline uint32_t way_partition(const struct server *s, uint32_t slot)
{
	return slot % s->nr_partitions;
}

/* Where a client is to ask instead, as an error: none of its keys is here, or not all are. */
void way_redirect(const struct server *s, uint32_t slot, bool asking, bool none_is_here,
		  char *text, size_t bytes);

#endif
