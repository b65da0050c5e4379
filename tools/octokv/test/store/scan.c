// SPDX-License-Identifier: GPL-2.0
/*
 * scan.c - a step of a walk is short, also over the keys of other tenants
 *
 * A tenant without keys walks to the end of an index that is full of another tenant's keys. It
 * takes many steps, none of which looks at much. The other tenant finds each of its keys once, as
 * many in a step as it asked for.
 *
 * The walk over one shard is compared with a sorted list, for tags that are spread, that are nearly
 * all at the end of the shard and go on at its beginning, and that are few and repeated. Meanwhile
 * the shard grows and shrinks. The walk looks at no more slots than it has to.
 */
#include "store/mem.h"
#include "user.h"

enum {
	NR_SEGMENTS	= 40,
	SEGMENT_BYTES	= 1 << 20,
	BLOCK_BYTES	= 512,
	DEVICE_BYTES	= (1280 << 10) + NR_SEGMENTS * SEGMENT_BYTES,
	NR_KEYS		= 60000,
	OTHER		= 1,
	FEW		= 2,
	NR_TAGS		= 15000,	/* in a shard, as with a billion keys */
	NR_MORE		= 4000,
	RESIZE_STEPS	= 1000,
};

static struct sim_disk disk;
static struct okv_partition *p;
static uint32_t nr_seen;

static void walk_key(struct okv_scan *scan, const void *key, uint16_t key_len, uint32_t value_len,
		     uint64_t expire_ms)
{
	(void)scan, (void)key, (void)key_len, (void)value_len, (void)expire_ms;
	nr_seen++;
}

static void walk_done(struct okv_scan *scan)
{
	(void)scan;
}

/* Walk to the end; returns the number of steps. */
static uint32_t walk(uint16_t tenant, uint32_t nr_max)
{
	struct okv_scan scan = {
		.tenant = tenant, .nr_max = nr_max, .key = walk_key, .done = walk_done
	};
	uint32_t nr_steps = 0;

	nr_seen = 0;
	do {
		okv_partition_scan(p, &scan);
		wait_idle(&disk);
		nr_steps++;
	} while (scan.cursor);
	return nr_steps;
}

static uint64_t sorted[NR_TAGS];
static uint32_t nr_sorted;

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* An index with a shard of tags from @draw, half of them of tenant 0; sorted[] has its places. */
static struct okv_index index_of(uint64_t (*draw)(uint32_t i))
{
	struct okv_index ix;

	okv_index_init(&ix, 0, 1);
	nr_sorted = 0;
	for (uint32_t i = 0; i < NR_TAGS; i++) {
		uint64_t tag = draw(i);

		okv_index_add(&ix, 0, &(struct okv_entry){
			.location = i, .size = 5, .tag = tag, .tenant = i % 2,
		});
		if (i % 2 == 0)
			sorted[nr_sorted++] = (tag & UINT32_MAX) << 12 | tag >> 32;
	}
	qsort(sorted, nr_sorted, sizeof(*sorted), by_value);
	return ix;
}

static uint64_t spread(uint32_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15ULL >> 20;
}

static uint64_t at_the_end(uint32_t i)
{
	return i % 3 ? spread(i) | 0xffff0000 : spread(i);
}

static uint64_t repeated(uint32_t i)
{
	return spread(i / 2 % 2000);
}

/* Keys of the other tenant come or go: the shard gets another size, and entries other slots. */
static void resize(struct okv_index *ix, bool grows)
{
	for (uint32_t i = NR_TAGS; i < NR_TAGS + NR_MORE; i++) {
		struct okv_entry more = { .location = i, .size = 5, .tag = spread(i), .tenant = 1 };

		if (grows)
			okv_index_add(ix, 0, &more);
		else
			okv_index_remove(ix, 0, okv_index_at(ix, more.tag, i));
	}
}

/*
 * Walk over the shard, @nr_wanted at a time, or @nr_most; returns how many slots it looked at. If
 * it @resizes, the shard grows or shrinks before each RESIZE_STEPS steps.
 */
static uint64_t walk_places(struct okv_index *ix, uint32_t nr_wanted, uint32_t nr_most,
			    bool resizes)
{
	const struct okv_which which = { 0 };
	uint64_t nr_slots = 0, from = 0;
	uint32_t nr = 0, nr_steps = 0;
	struct okv_places found;

	do {
		if (resizes && nr_steps % RESIZE_STEPS == 0)
			resize(ix, nr_steps / RESIZE_STEPS % 2 == 0);
		nr_steps++;
		okv_index_places(ix, 0, &which, from, nr_wanted, &found);
		EXPECT(found.nr <= nr_most);
		for (uint32_t i = 0; i < found.nr; i++) {
			EXPECT(nr < nr_sorted && found.at[i] == sorted[nr]);
			for (nr++; nr < nr_sorted && sorted[nr] == found.at[i]; nr++)
				;
		}
		from = found.nr ? found.at[found.nr - 1] + 1 : from;
		nr_slots += found.nr_slots;
		mem_free(found.at);
	} while (!found.is_all);
	EXPECT(nr == nr_sorted);
	if (resizes && (nr_steps - 1) / RESIZE_STEPS % 2 == 0)
		resize(ix, false);
	return nr_slots;
}

static void test_places(void)
{
	static uint64_t (*const draws[])(uint32_t i) = { spread, at_the_end, repeated };
	static const uint32_t wanted[] = { 1, 10, 1000, NR_TAGS };
	uint64_t nr_slots = 0;

	for (uint32_t i = 0; i < 3; i++) {
		struct okv_index ix = index_of(draws[i]);

		for (uint32_t j = 0; j < 4; j++)
			walk_places(&ix, wanted[j], NR_TAGS, true);
		if (!i)
			nr_slots = walk_places(&ix, 10, NR_TAGS / 20, false);
		okv_index_free(&ix);
	}
	/* Each slot once, and the rest of a run again in the next step. */
	EXPECT(nr_slots < 2 * NR_TAGS);
	printf("ok store_scan: a shard in order; by tens, %u keys take %llu looks at slots\n",
	       nr_sorted, (unsigned long long)nr_slots);
}

static void put(const char *key, uint64_t hash)
{
	struct user u = {
		.op = { .kind = OKV_OP_PUT, .tenant = FEW, .key = key, .key_len = 1, .hash = hash },
	};

	user_begin(&u, p);
	EXPECT(user_wait(&u, &disk) == OKV_OK);
}

/* Three keys of one hash are a step of two, and another key is behind them in the shard. */
static void test_one_hash(void)
{
	put("a", 1);
	put("b", 1);
	put("c", 1);
	put("d", 0xf0000000);
	walk(FEW, 2);
	EXPECT(nr_seen == 4);
	printf("ok store_scan: keys with one hash do not end a shard\n");
}

int main(void)
{
	struct okv_format_options format = {
		.nr_partitions = 1, .segment_bytes = SEGMENT_BYTES, .seed = 1,
	};
	struct okv_open_options options = { .now_ms = 1 };
	struct okv_store *store;
	uint32_t nr_steps;

	test_places();
	sim_disk_init(&disk, DEVICE_BYTES, BLOCK_BYTES, true, 2);
	EXPECT(!okv_device_format(&disk.disk, &format) &&
	       !okv_store_open(&store, &disk.disk, &options));
	p = okv_store_partition(store, 0);
	test_one_hash();
	for (uint32_t i = 0; i < NR_KEYS; i++) {
		struct user u = { .op = { .kind = OKV_OP_PUT } };

		user_begin_key(&u, p, i);
		EXPECT(user_wait(&u, &disk) == OKV_OK);
	}
	nr_steps = walk(OTHER, 10);
	EXPECT(!nr_seen && nr_steps > 2 && nr_steps <= okv_index_nr_shards(&p->index));
	printf("ok store_scan: %u steps over %u keys of another tenant\n", nr_steps, NR_KEYS);
	EXPECT(walk(0, 10) >= NR_KEYS / 10 && nr_seen == NR_KEYS);
	EXPECT(walk(0, 1000) >= NR_KEYS / 1000 && nr_seen == NR_KEYS);
	printf("ok store_scan: the other tenant finds each once\n");
	okv_store_close(store);
	sim_disk_free(&disk);
	return 0;
}
