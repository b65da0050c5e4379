/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slots.h - the keys of slots, changes of the map, and what other threads do for them
 *
 * A change of the map (struct slot_order) goes to another thread through worker.keep(), and comes
 * back when the changed map is durable and all workers go by it. Keys for another node (struct
 * shipment) go to a third thread through worker.ship(), and come back when that node has answered
 * for all of them, or when their time is over.
 */
#ifndef OKV_SLOTS_H
#define OKV_SLOTS_H

#include "cluster/map.h"
#include "server/server.h"

struct job;
struct request;

/* Argument @i as a slot; false: it is none, and the request has failed. */
bool walk_slot(struct request *r, uint32_t i, uint32_t *slot);

/* Job 0 is to walk over the slot: to the keys of the user, or of all users for an admin. */
struct job *walk_of(struct request *r, uint32_t slot);

/* CLUSTER COUNTKEYSINSLOT and CLUSTER GETKEYSINSLOT */
void walk_count_start(struct request *r);
void walk_count_finish(struct request *r);
void walk_keys_start(struct request *r);
void walk_keys_finish(struct request *r);

/* CLUSTER FLUSHSLOT; flush_finish() is its end. */
void flush_slot_start(struct request *r);

/**
 * struct slot_order - a change of the map
 * @text, @text_len:	the whole map, for CLUSTER SETMAP; NULL: the others are about one slot
 * @id, @id_len:	the node that it names
 * @version:		the map in which the slot was seen to have no keys; 0: nobody has looked
 * @is_good:		it was done; if not, @why has the error
 */
struct slot_order {
	struct kv_msg msg;
	struct request *request;
	const char *text;
	size_t text_len;
	uint32_t slot;
	enum cluster_change what;
	const char *id;
	size_t id_len;
	uint64_t version;
	bool is_good;
	char why[256];
};

void set_slot_start(struct request *r);
void set_map_start(struct request *r);

/*
 * The map as the order says, or NULL: then is_good says that it is so already, or why has a
 * sentence. When it is the map, or is given up, way_change_end() is to follow.
 */
struct cluster *slot_order_apply(struct slot_order *o, struct server *s);

/* ---- keys for another node ---- */

/* What became of a key: it is not known, the other node has it durably, or does not have it. */
enum ship_outcome { SHIP_UNKNOWN, SHIP_TAKEN, SHIP_REFUSED };

/**
 * struct shipment - commands, and what is answered
 * @host, @port:	where to
 * @bytes, @len:	the commands: AUTH or PING, then one for each key
 * @first_len:	of the first one: no key is sent before that is answered
 * @outcomes:		of @nr_keys keys
 * @why:		the first error that the other node answers, or why there was no answer
 * @is_cut:		it is the latter
 */
struct shipment {
	struct kv_msg msg;
	struct request *request;
	const char *host;
	uint16_t port;
	uint64_t until_ns;		/* by the monotonic clock */
	char *bytes;
	size_t len;
	size_t first_len;
	uint8_t *outcomes;
	uint32_t nr_keys;
	bool is_cut;
	char why[160];
};

#endif
