// SPDX-License-Identifier: GPL-2.0
/* memstore.c - the store that memstore.h describes: simple lists of records */
#include "store/mem.h"
#include "memstore.h"

enum { NR_PARTITIONS = 4 };

struct record {
	struct record *next;
	uint16_t tenant;
	uint16_t key_len;
	uint32_t value_len;
	uint64_t expire_ms;
	uint64_t number;		/* the older, the smaller; lists begin with the newest */
	char *key;
	char *value;
};

struct okv_partition {
	struct okv_store *store;
	struct record *records;
	uint32_t index;
};

struct okv_store {
	struct okv_partition partitions[NR_PARTITIONS];
	struct okv_op *held;
	struct okv_scan *held_scans[NR_PARTITIONS];
	bool hold, works, has_slots, is_fenced, is_lost, sticks;
	enum okv_status fail;
	uint64_t now_ms;
	uint64_t nr_records;
};

struct okv_store *memstore_new(void)
{
	struct okv_store *store = mem_zalloc(sizeof(*store));

	for (uint32_t i = 0; i < NR_PARTITIONS; i++)
		store->partitions[i] = (struct okv_partition){ .store = store, .index = i };
	return store;
}

static void record_free(struct record *record)
{
	mem_free(record->key);
	mem_free(record->value);
	mem_free(record);
}

void memstore_free(struct okv_store *store)
{
	for (uint32_t i = 0; i < NR_PARTITIONS; i++) {
		while (store->partitions[i].records) {
			struct record *next = store->partitions[i].records->next;

			record_free(store->partitions[i].records);
			store->partitions[i].records = next;
		}
	}
	mem_free(store);
}

uint64_t okv_store_hash_in(const struct okv_store *store, uint16_t tenant, const void *key,
			   size_t key_len, uint32_t slot)
{
	uint64_t hash = 0xcbf29ce484222325ULL ^ tenant;

	for (size_t i = 0; i < key_len; i++)
		hash = (hash ^ ((const uint8_t *)key)[i]) * 0x100000001b3ULL;
	hash *= 0x9e3779b97f4a7c15ULL;
	return store->has_slots ? (uint64_t)slot << 62 | hash >> 2 : hash;
}

uint64_t okv_store_hash(const struct okv_store *store, uint16_t tenant, const void *key,
			size_t key_len)
{
	return okv_store_hash_in(store, tenant, key, key_len, okv_slot(key, key_len));
}

void memstore_set_slots(struct okv_store *store)
{
	store->has_slots = true;
}

uint32_t okv_store_partition_of(const struct okv_store *store, uint64_t hash)
{
	(void)store;
	return hash >> 62;
}

struct okv_partition *okv_store_partition(struct okv_store *store, uint32_t partition)
{
	return &store->partitions[partition];
}

static struct record **find(struct okv_partition *p, const struct okv_op *op)
{
	struct record **at = &p->records;

	while (*at && ((*at)->tenant != op->tenant || (*at)->key_len != op->key_len ||
		       memcmp((*at)->key, op->key, op->key_len)))
		at = &(*at)->next;
	return at;
}

static void drop(struct record **at)
{
	struct record *record = *at;

	*at = record->next;
	record_free(record);
}

static void put(struct okv_partition *p, struct record **at, const struct okv_op *op,
		uint64_t expire_ms)
{
	struct record *record = mem_zalloc(sizeof(*record));

	*record = (struct record){
		.tenant = op->tenant, .key_len = op->key_len, .value_len = op->value_len,
		.expire_ms = expire_ms,
	};
	record->key = memcpy(mem_alloc(op->key_len), op->key, op->key_len);
	record->value = memcpy(mem_alloc(op->value_len), op->value, op->value_len);
	if (*at)
		drop(at);
	record->number = ++p->store->nr_records;
	record->next = p->records;
	p->records = record;
}

static enum okv_status run_put(struct okv_partition *p, struct record **at, struct okv_op *op)
{
	if (*at && op->flags & OKV_IF_ABSENT)
		return OKV_EXISTS;
	if (!*at && op->flags & OKV_IF_PRESENT)
		return OKV_NOT_FOUND;
	put(p, at, op, *at && op->flags & OKV_KEEP_TTL ? (*at)->expire_ms : op->expire_ms);
	return OKV_OK;
}

static enum okv_status run_update(struct okv_partition *p, struct record **at, struct okv_op *op)
{
	enum okv_status status;

	if (op->flags & OKV_IF_PRESENT && !*at)
		return OKV_NOT_FOUND;
	op->expire_ms = op->out_expire_ms;
	status = op->update(op);
	if (status == OKV_OK)
		put(p, at, op, op->expire_ms);
	return status;
}

static enum okv_status run_touch(struct record *record, struct okv_op *op)
{
	enum okv_status status;

	if (!record)
		return OKV_NOT_FOUND;
	status = okv_op_ask_expiry(op);
	if (status == OKV_OK)
		record->expire_ms = op->expire_ms;
	return status;
}

static uint64_t sum_of(const char *value, uint32_t len)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < len; i++)
		sum = sum * 31 + value[i];
	return sum;
}

static enum okv_status run_clear(struct okv_partition *p, struct okv_op *op)
{
	struct record **at = &p->records;

	op->out_len = 0;
	while (*at) {
		if ((*at)->tenant == op->tenant) {
			drop(at);
			op->out_len++;
		} else {
			at = &(*at)->next;
		}
	}
	return OKV_OK;
}

static enum okv_status run(struct okv_partition *p, struct okv_op *op)
{
	struct record **at = find(p, op);
	bool reads = op->kind == OKV_OP_GET || op->kind == OKV_OP_UPDATE ||
		     op->flags & OKV_WANT_OLD;

	if (*at && (*at)->expire_ms && (*at)->expire_ms <= p->store->now_ms)
		drop(at);
	at = find(p, op);
	op->found = *at;
	if (*at) {
		op->out_len = (*at)->value_len;
		op->out_expire_ms = (*at)->expire_ms;
		op->sum = sum_of((*at)->value, (*at)->value_len);
		if (reads) {
			op->buf = mem_alloc(op->out_len + 2 * OKV_ROOM_BYTES);
			op->out = memcpy((char *)op->buf + OKV_ROOM_BYTES, (*at)->value,
					 op->out_len);
		}
	}
	switch (op->kind) {
	case OKV_OP_PUT:
		return run_put(p, at, op);
	case OKV_OP_UPDATE:
		return run_update(p, at, op);
	case OKV_OP_DELETE:
		if (*at && op->update && op->update(op) != OKV_OK)
			return OKV_ABORTED;
		if (*at)
			drop(at);
		break;
	case OKV_OP_TOUCH:
		return run_touch(*at, op);
	default:
		break;
	}
	return op->found ? OKV_OK : OKV_NOT_FOUND;
}

/* What the device refuses. Partitions know what they have: only that is not asked of it. */
static bool is_refused(struct okv_partition *p, const struct okv_op *op)
{
	bool makes = op->kind == OKV_OP_PUT || op->kind == OKV_OP_UPDATE ||
		     op->kind == OKV_OP_CLEAR;
	bool refuses = p->store->is_fenced && (*find(p, op) || makes);

	p->store->is_lost |= refuses;
	return refuses;
}

static void complete(struct okv_op *op)
{
	struct okv_store *store = op->partition->store;

	if (store->fail != OKV_OK)
		op->status = store->fail;
	else if (is_refused(op->partition, op))
		op->status = OKV_IO_ERROR;
	else
		op->status = op->kind == OKV_OP_CLEAR ? run_clear(op->partition, op) :
							run(op->partition, op);
	op->done(op);
}

void okv_partition_submit(struct okv_partition *p, struct okv_op *op)
{
	op->partition = p;
	if (!p->store->hold) {
		memstore_release(p->store);
		complete(op);
		return;
	}
	op->next = p->store->held;
	p->store->held = op;
}

/* Never held. */
void okv_partition_transact(struct okv_partition *p, struct okv_txn *txn)
{
	memstore_release(p->store);
	txn->partition = p;
	p->store->is_lost |= p->store->is_fenced;
	txn->status = p->store->is_fenced ? OKV_IO_ERROR : p->store->fail;
	for (uint32_t i = 0; i < txn->nr_keys; i++) {
		struct okv_op *read = &txn->keys[i].read;

		read->kind = txn->keys[i].wants_value || txn->keys[i].may_touch ? OKV_OP_GET :
										  OKV_OP_STAT;
		read->status = run(p, read);
	}
	if (txn->status == OKV_OK)
		txn->status = txn->decide(txn);
	for (uint32_t i = 0; i < txn->nr_keys; i++) {
		struct okv_txn_key *k = &txn->keys[i];
		struct okv_op op = {
			.kind = k->removes ? OKV_OP_DELETE : OKV_OP_PUT, .tenant = k->read.tenant,
			.key = k->read.key, .key_len = k->read.key_len, .value = k->value,
			.value_len = k->value_len, .expire_ms = k->expire_ms,
		};

		if (txn->status == OKV_OK && k->writes)
			run(p, &op);
	}
	for (uint32_t i = 0; i < txn->nr_keys; i++)
		okv_op_release(&txn->keys[i].read);
	txn->done(txn);
}

void memstore_work(struct okv_store *store, bool works)
{
	store->works = works;
}

void memstore_stick(struct okv_store *store, bool sticks)
{
	store->sticks = sticks;
}

bool okv_partition_is_stuck(const struct okv_partition *p)
{
	return p->store->sticks;
}

bool okv_partition_is_working(const struct okv_partition *p)
{
	return p->store->works;
}

void memstore_hold(struct okv_store *store, bool hold)
{
	store->hold = hold;
}

static void run_scan(struct okv_scan *scan);

void memstore_release_scans(struct okv_store *store)
{
	for (uint32_t i = 0; i < NR_PARTITIONS; i++) {
		struct okv_scan *scan = store->held_scans[i];

		store->held_scans[i] = NULL;
		if (scan)
			run_scan(scan);
	}
}

void memstore_release(struct okv_store *store)
{
	memstore_release_scans(store);
	while (store->held) {
		struct okv_op *op = store->held;

		store->held = op->next;
		complete(op);
	}
}

static struct okv_op *take_oldest(struct okv_op **at)
{
	struct okv_op *op;

	while ((*at)->next)
		at = &(*at)->next;
	op = *at;
	*at = NULL;
	return op;
}

void memstore_release_oldest(struct okv_store *store)
{
	complete(take_oldest(&store->held));
}

void memstore_end(struct okv_store *store, uint32_t nr)
{
	struct okv_op *done = NULL;

	for (; nr && store->held; nr--) {
		struct okv_op *op = take_oldest(&store->held);

		if (!is_refused(op->partition, op))
			run(op->partition, op);
		op->next = done;
		done = op;
	}
	store->fail = OKV_IO_ERROR;
	while (done)
		complete(take_oldest(&done));
}

struct okv_store *memstore_copy(const struct okv_store *store)
{
	struct okv_store *copy = memstore_new();

	copy->has_slots = store->has_slots;
	copy->nr_records = store->nr_records;
	for (uint32_t i = 0; i < NR_PARTITIONS; i++) {
		struct record **to = &copy->partitions[i].records;

		for (const struct record *r = store->partitions[i].records; r; r = r->next) {
			*to = memcpy(mem_alloc(sizeof(*r)), r, sizeof(*r));
			(*to)->key = memcpy(mem_alloc(r->key_len), r->key, r->key_len);
			(*to)->value = memcpy(mem_alloc(r->value_len), r->value, r->value_len);
			(*to)->next = NULL;
			to = &(*to)->next;
		}
	}
	return copy;
}

void memstore_fence(struct okv_store *store)
{
	store->is_fenced = true;
}

bool memstore_is_lost(const struct okv_store *store)
{
	return store->is_lost;
}

void memstore_fail(struct okv_store *store, enum okv_status status)
{
	store->fail = status;
}

void okv_op_release(struct okv_op *op)
{
	mem_free(op->buf);
	op->buf = NULL;
	op->out = NULL;
}

void *okv_op_take(struct okv_op *op)
{
	void *memory = op->buf;

	op->buf = NULL;
	return memory;
}

static bool is_of(const struct record *record, uint32_t slot, uint16_t tenant)
{
	return (!slot || okv_slot(record->key, record->key_len) == slot - 1) &&
	       (record->tenant == tenant || tenant == OKV_ALL_TENANTS);
}

/* A record at a time: the cursor is how many of them are left. */
uint64_t okv_partition_count(const struct okv_partition *p, uint32_t slot, uint16_t tenant,
			     uint64_t *cursor)
{
	const struct record *record = p->records;
	uint64_t nr = 0;

	for (const struct record *r = p->records; r && !*cursor; r = r->next)
		nr++;
	*cursor = *cursor ? *cursor : nr;
	if (!*cursor)
		return 0;
	for (uint64_t i = 1; i < *cursor; i++)
		record = record->next;
	--*cursor;
	return is_of(record, slot + 1, tenant);
}

/* The cursor is the number of the record that was looked at last. */
static void run_scan(struct okv_scan *scan)
{
	struct record *record = scan->partition->records, *next;
	uint32_t nr = 0;

	while (record && scan->cursor && record->number >= scan->cursor)
		record = record->next;
	for (; record && nr < scan->nr_max; record = next, nr++) {
		next = record->next;
		scan->cursor = record->number;
		scan->key_tenant = record->tenant;
		if (is_of(record, scan->slot, scan->tenant))
			scan->key(scan, record->key, record->key_len, record->value_len,
				  record->expire_ms);
	}
	if (!record)
		scan->cursor = 0;
	scan->status = scan->partition->store->fail;
	scan->done(scan);
}

void okv_partition_scan(struct okv_partition *p, struct okv_scan *scan)
{
	scan->partition = p;
	if (p->store->hold && !p->store->held_scans[p->index])
		p->store->held_scans[p->index] = scan;
	else
		run_scan(scan);
}

void okv_partition_set_clock(struct okv_partition *p, uint64_t now_ms)
{
	p->store->now_ms = now_ms;
}

void okv_store_tenant_usage(const struct okv_store *store, uint16_t tenant, uint64_t *bytes,
			    uint64_t *nr_keys)
{
	*bytes = *nr_keys = 0;
	for (uint32_t i = 0; i < NR_PARTITIONS; i++) {
		struct record *record = store->partitions[i].records;

		for (; record; record = record->next) {
			if (record->tenant == tenant)
				*bytes += record->key_len + record->value_len;
			*nr_keys += record->tenant == tenant;
		}
	}
}

void okv_store_stats(const struct okv_store *store, struct okv_stats *stats)
{
	uint64_t bytes;

	*stats = (struct okv_stats){ 0 };
	okv_store_tenant_usage(store, 0, &bytes, &stats->nr_keys);
}

void okv_partition_stats(const struct okv_partition *p, struct okv_stats *sum)
{
	for (const struct record *record = p->records; record; record = record->next)
		sum->nr_keys++;
}

/* ---- a device, so that the daemon can start ---- */

int okv_device_format(struct okv_disk *disk, const struct okv_format_options *options)
{
	(void)disk;
	(void)options;
	return 0;
}

int okv_device_info(struct okv_disk *disk, struct okv_device_info *info)
{
	*info = (struct okv_device_info){
		.nr_partitions = NR_PARTITIONS, .block_bytes = disk->block_bytes,
		.size_bytes = disk->size_bytes,
	};
	return 0;
}

int okv_store_open(struct okv_store **store, struct okv_disk *disk,
		   const struct okv_open_options *options)
{
	(void)disk;
	(void)options;
	*store = memstore_new();
	return 0;
}

bool okv_partition_quiesce(struct okv_partition *p)
{
	return !p->store->held && !p->store->sticks;
}

struct okv_partition *okv_store_detach(struct okv_store *store, uint32_t partition)
{
	return &store->partitions[partition];
}

void okv_store_attach(struct okv_store *store, struct okv_partition *p)
{
	(void)store;
	(void)p;
}

void okv_store_close(struct okv_store *store)
{
	memstore_free(store);
}
