/* SPDX-License-Identifier: GPL-2.0 */
/*
 * format.h - what lies on the device; Documentation/design/octokv-format.rst tells why
 *
 * All numbers are little-endian. Every structure begins with a checksum of the rest of it. The seed
 * of the checksum is made of a secret of the device and of the place where the structure belongs.
 * So a structure is not valid at another place, in another life of the same place, or for another
 * store that was on the device before.
 *
 *	0, 256 KiB, 512 KiB, 768 KiB	copies of the superblock
 *	1 MiB				a root for each partition, 4 KiB each; then, from 128 KiB
 *					or more behind that on, another one for each
 *	data_offset			the segments of partition 0, then those of partition 1, ...
 *	behind the last segment		the journals, if there are any
 */
#ifndef OKV_FORMAT_H
#define OKV_FORMAT_H

#include <assert.h>

#include "disk.h"
#include "store.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the structures on the device are little-endian, and nothing here swaps bytes"
#endif

enum {
	OKV_VERSION		= 10,
	OKV_VERSION_SLOTS	= 11,		/* as 10, but hashes have slots: hash.c */
	OKV_VERSION_WHOLE	= 8,		/* as 10, but with puts and deletes, in one place */
	OKV_VERSION_WHOLE_SLOTS	= 9,		/* the same of 11 */
	OKV_VERSION_BARE	= 6,		/* as 8, but without journals */
	OKV_VERSION_BARE_SLOTS	= 7,		/* the same of 9 */
	OKV_VERSION_NEAR	= 2,		/* as 6, but with both roots side by side */
	OKV_VERSION_NEAR_SLOTS	= 5,		/* the same of 7 */
	OKV_NR_SUPERS		= 4,
	OKV_NR_SUPERS_AGREE	= 2,
	OKV_SUPER_STRIDE_BYTES	= 256 << 10,
	OKV_ROOTS_OFFSET_BYTES	= 1 << 20,
	OKV_PAGE_BYTES		= 4096,		/* of a superblock and of a root */
	OKV_NR_ROOTS		= 2,
	OKV_ROOTS_APART_BYTES	= 128 << 10,	/* at least */
	OKV_ALIGN_BYTES		= 16,		/* of records; locations count in it */
	OKV_SEGMENT_BYTES	= (16 << 20) + (64 << 10),	/* two of the longest values */
	OKV_SEGMENT_BYTES_MIN	= 16 << 10,
	OKV_BLOCKS_MIN		= 8,		/* of a segment */
	OKV_NR_SEGMENTS_MIN	= 12,		/* of a partition; of fewer, most would be kept */
	OKV_NR_ROOT_SEGMENTS	= 960,
	OKV_NR_NAMED_FIRST	= 16,		/* by the first roots */
	OKV_APART_BYTES_MIN	= 4096,		/* of an apart value */
	OKV_APART_ALIGN_BYTES	= 16 << 10,	/* largest alignment of these: a flash page */
	OKV_PLAIN_BYTES_MAX	= 256 << 10,	/* of one that is compressed: log/compress.h */
	OKV_JOURNAL_BYTES_MIN	= 32 << 10,
	OKV_JOURNAL_BYTES_MAX	= 4 << 20,
	OKV_JOURNAL_PART	= 1024,		/* each is such a part of the device */
	OKV_JOURNALED_MIN	= 64 << 20,	/* a smaller device has none */
};

#define OKV_SUPER_MAGIC		0x31766b6f74636fULL	/* "octokv1" */
#define OKV_SEALED_MAGIC	0x64656c616573ULL	/* "sealed": okv_device_seal() */
#define OKV_ROOT_MAGIC		0x34746f72U		/* "rot4" */
#define OKV_ROOT_MAGIC_3	0x33746f72U		/* "rot3": says one place */
#define OKV_ROOT_MAGIC_2	0x32746f72U		/* "rot2": names no segments */
#define OKV_ROOT_MAGIC_1	0x746f6f72U		/* "root": without an attempt */
#define OKV_BATCH_MAGIC		0x63746162U		/* "batc" */
#define OKV_RECORD_MAGIC	0x64636572U		/* "recd" */
#define OKV_CHUNK_MAGIC		0x326e6863U		/* "chn2" */
#define OKV_CHUNK_MAGIC_1	0x6b6e6863U		/* "chnk": its shards have no expiries */
#define OKV_JOURNAL_MAGIC	0x6c6e726aU		/* "jrnl" */
#define OKV_NOWHERE		((1ULL << 40) - 1)	/* a location that no record has */

struct okv_super_disk {
	uint64_t sum;
	uint64_t magic;
	uint32_t version;
	uint32_t copy;
	uint64_t generation;
	uint8_t uuid[16];
	uint8_t hash_key[16];
	uint64_t secret;
	uint64_t size_bytes;
	uint64_t data_offset_bytes;
	uint32_t block_bytes;
	uint32_t nr_partitions;
	uint32_t segment_bytes;
	uint32_t nr_segments;
	/* @sum ends here, so that an earlier octokvd knows that the version is another one. */
	uint64_t journal_bytes;	/* of each; 0: there are none */
	uint64_t is_converting;	/* 1: sealed by okv_device_upgrade(), which has not ended */
	uint64_t more_sum;	/* of these two, with @sum as the seed */
};
static_assert(sizeof(struct okv_super_disk) == 128, "superblock has holes");

/* The log goes on in two places: what users write, and records that are moved. */
enum okv_place_number {
	OKV_OF_USERS,
	OKV_OF_MOVES,		/* only if okv_parts_moves() */
	OKV_NR_PLACES,
};

/* The log goes on there and, behind it, in segments of later lives: okv_root_life(). */
struct okv_place_disk {
	uint64_t life;		/* of @segment */
	uint32_t segment;	/* the number of segments: none, but those of later lives */
	uint32_t offset_bytes;
};

/*
 * A checkpoint, and where the log goes on from there. @nr_chunks chunks in @segments have the index
 * as it was when all batches below @seq had taken effect, or later. No batch from @seq on lies
 * before the two places where the log goes on: okv_root_place().
 *
 * @attempt is a number that no other attempt at a checkpoint has had, not even one that ended with
 * its process, before its root: the seed of the chunks. A root with OKV_ROOT_MAGIC_1 ends before
 * it. Its chunks have the generation instead, which several attempts could share.
 *
 * The @nr_named entries of @segments behind those of the chunks are the only segments that the log
 * can have gone on in behind its places. If there are none, it can have gone on in any. A root with
 * OKV_ROOT_MAGIC_3 ends before @moves, and one with OKV_ROOT_MAGIC_2 before @nr_named: it has none.
 */
struct okv_root_disk {
	uint64_t sum;
	uint32_t magic;
	uint32_t partition;
	uint64_t generation;
	uint64_t seq;
	uint64_t life;		/* of @segment */
	uint64_t next_life;
	uint32_t segment;
	uint32_t offset_bytes;
	uint32_t nr_chunks;
	uint32_t nr_segments;
	uint32_t segments[OKV_NR_ROOT_SEGMENTS];
	uint64_t attempt;
	uint64_t nr_named;
	struct okv_place_disk moves;
};
static_assert(sizeof(struct okv_root_disk) <= OKV_PAGE_BYTES, "a root is a page");

/*
 * A piece of a checkpoint. The first chunk holds struct okv_segment_disk for each segment, the
 * others hold shards of the index.
 */
struct okv_chunk_disk {
	uint64_t sum;
	uint32_t magic;
	uint32_t partition;
	uint64_t attempt;	/* as in the root; the generation, if that has none */
	uint32_t chunk;
	uint32_t bytes;		/* with this header */
	uint64_t payload_sum;
};
static_assert(sizeof(struct okv_chunk_disk) == 40, "chunk header has holes");

/* @life is 0 for a segment that holds nothing that the log needs. */
struct okv_segment_disk {
	uint64_t life;
};

/*
 * @nr_entries entries follow, 16 bytes each, then the number of expiries in 8 bytes, and these, 16
 * bytes each.
 */
struct okv_shard_disk {
	uint32_t shard;
	uint32_t nr_entries;
};

enum okv_batch_form {
	OKV_BATCH_ALONE		= 0,
	OKV_BATCH_PACKED	= 1,	/* in a pack */
	OKV_BATCH_OF_MOVES	= 2,	/* alone, in a segment of OKV_OF_MOVES */
};

/*
 * The beginning of one batch of the log. Heads of records follow, each aligned to OKV_ALIGN_BYTES.
 * Apart values follow from the next block on. In a pack (log/pack.h), the next batch follows, and
 * the values are anywhere behind the pack in the segment: @bytes is @head_bytes then.
 */
struct okv_batch_disk {
	uint64_t sum;
	uint32_t magic;
	uint32_t partition;
	uint64_t seq;
	uint64_t life;
	uint64_t durable;	/* all batches below this one have been acknowledged */
	uint32_t bytes;		/* with this header, without the zeros in the last block */
	uint32_t nr_records;
	uint32_t head_bytes;	/* with this header, without apart values */
	uint32_t form;		/* enum okv_batch_form */
	uint64_t generation;	/* of the newest durable root; 0: not said */
};
static_assert(sizeof(struct okv_batch_disk) == 64, "batch header has holes");

/*
 * One write of a journal: @nr_heads heads of batches follow, each behind a struct okv_head_disk.
 * @sum covers all @bytes.
 */
struct okv_journal_disk {
	uint64_t sum;
	uint32_t magic;
	uint32_t journal;
	uint32_t bytes;
	uint32_t nr_heads;
};
static_assert(sizeof(struct okv_journal_disk) == 24, "journal header has holes");

/* Where the batch lies whose header and heads follow, which are @bytes. */
struct okv_head_disk {
	uint64_t life;		/* of @segment */
	uint32_t partition;
	uint32_t segment;
	uint32_t offset_bytes;
	uint32_t bytes;
};
static_assert(sizeof(struct okv_head_disk) == 24, "head of the journal has holes");

enum okv_record_kind {
	OKV_RECORD_PUT		= 1,
	OKV_RECORD_DELETE	= 2,
	OKV_RECORD_EXPIRY	= 3,	/* the record at @prev has this expiry from now on */
	OKV_RECORD_MOVE		= 4,	/* as PUT, if the record at @prev was still the key's */
	OKV_RECORD_CLEAR	= 5,	/* all that the tenant had in the partition is gone */
};

/*
 * The key follows, which @sum covers, then the value. If @apart is not 0, the value is apart: it
 * begins @apart blocks behind the block in which this header begins. If @plain_len is not 0, the
 * value is compressed: it takes @value_len bytes here, and has @plain_len.
 */
struct okv_record_disk {
	uint64_t sum;
	uint32_t magic;
	uint16_t kind;
	uint16_t tenant;
	uint16_t key_len;
	uint16_t apart;
	uint32_t value_len;
	uint64_t hash;
	uint64_t expire_ms;
	uint64_t prev : 40;	/* location of the record that this one is about, or OKV_NOWHERE */
	uint64_t plain_len : 24;
	uint64_t value_sum;	/* of what lies here */
	uint64_t seq;
};
static_assert(sizeof(struct okv_record_disk) == 64, "record header has holes");

static inline bool okv_has_slots(const struct okv_super_disk *super)
{
	return super->version == OKV_VERSION_SLOTS || super->version == OKV_VERSION_WHOLE_SLOTS ||
	       super->version == OKV_VERSION_BARE_SLOTS || super->version == OKV_VERSION_NEAR_SLOTS;
}

static inline bool okv_has_small_records(const struct okv_super_disk *super)
{
	return super->version == OKV_VERSION || super->version == OKV_VERSION_SLOTS;
}

/* Do moves have a place of their own? */
static inline bool okv_parts_moves(const struct okv_super_disk *super)
{
	return okv_has_small_records(super);
}

static inline uint32_t okv_nr_places(const struct okv_super_disk *super)
{
	return okv_parts_moves(super) ? OKV_NR_PLACES : 1;
}

static inline bool okv_has_near_roots(const struct okv_super_disk *super)
{
	return super->version == OKV_VERSION_NEAR || super->version == OKV_VERSION_NEAR_SLOTS;
}

static inline bool okv_may_have_journals(const struct okv_super_disk *super)
{
	return okv_has_small_records(super) || super->version == OKV_VERSION_WHOLE ||
	       super->version == OKV_VERSION_WHOLE_SLOTS;
}

/* Where the log goes on by a root that okv_root_read() has read. */
static inline struct okv_place_disk okv_root_place(const struct okv_root_disk *root,
						   enum okv_place_number place)
{
	return place == OKV_OF_MOVES ? root->moves : (struct okv_place_disk){
		.life = root->life, .segment = root->segment, .offset_bytes = root->offset_bytes,
	};
}

/* What the log has begun behind these places, it has begun in later lives than those of both. */
static inline uint64_t okv_root_life(const struct okv_root_disk *root)
{
	return root->life > root->moves.life ? root->life : root->moves.life;
}

static inline enum okv_place_number okv_batch_place_of(const struct okv_batch_disk *b)
{
	return b->form == OKV_BATCH_OF_MOVES ? OKV_OF_MOVES : OKV_OF_USERS;
}

static inline bool okv_record_has_value(const struct okv_record_disk *record)
{
	return record->kind == OKV_RECORD_PUT || record->kind == OKV_RECORD_MOVE;
}

/* Of the value, as its reader sees it. */
static inline uint32_t okv_plain_len(const struct okv_record_disk *record)
{
	return record->plain_len ? record->plain_len : record->value_len;
}

/* The device as the superblock describes it. */
struct okv_layout {
	struct okv_super_disk super;
	uint32_t partition_bits;
	uint64_t value_bytes_max;
};

static inline uint64_t okv_round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

/*
 * A value is apart, in blocks of its own behind the heads of its batch, if it has a page or more
 * and the blocks waste no more than an eighth of it.
 */
static inline bool okv_is_apart(uint32_t block_bytes, uint32_t value_len)
{
	return value_len >= OKV_APART_BYTES_MIN &&
	       (okv_round_up(value_len, block_bytes) - value_len) * 8 <= value_len;
}

static inline uint32_t okv_apart_bytes(uint32_t block_bytes, uint32_t value_len)
{
	return okv_is_apart(block_bytes, value_len) ? okv_round_up(value_len, block_bytes) : 0;
}

/* The part of a record that is not apart. */
static inline uint32_t okv_head_bytes(uint32_t block_bytes, uint32_t key_len, uint32_t value_len)
{
	uint32_t inner_len = okv_is_apart(block_bytes, value_len) ? 0 : value_len;

	return okv_round_up(sizeof(struct okv_record_disk) + key_len + inner_len, OKV_ALIGN_BYTES);
}

static inline uint32_t okv_record_bytes(uint32_t block_bytes, uint32_t key_len, uint32_t value_len)
{
	return okv_head_bytes(block_bytes, key_len, value_len) +
	       okv_apart_bytes(block_bytes, value_len);
}

/* The size of a batch with so many bytes of heads, its header included, and of apart values. */
static inline uint32_t okv_batch_bytes(uint32_t block_bytes, uint32_t head_bytes,
				       uint32_t apart_bytes)
{
	return apart_bytes ? okv_round_up(head_bytes, block_bytes) + apart_bytes : head_bytes;
}

/* The offset in the segment of the value whose record is at @offset. */
static inline uint32_t okv_value_offset(uint32_t block_bytes, uint32_t offset,
					const struct okv_record_disk *record)
{
	if (record->apart)
		return (offset / block_bytes + record->apart) * block_bytes;
	return offset + sizeof(*record) + record->key_len;
}

/* The seed of the checksum of what lies at @location in the @life of its segment. */
uint64_t okv_seed(const struct okv_super_disk *super, uint32_t partition, uint64_t location,
		  uint64_t life);

/* The checksum of @data without the checksum that it begins with. */
uint64_t okv_sum_behind(const void *data, size_t bytes, uint64_t seed);
uint64_t okv_sum(const void *data, size_t bytes, uint64_t seed);

/* Make it that copy, with its checksums. */
void okv_super_sign(struct okv_super_disk *super, uint32_t copy);

/* Read the superblock; returns what okv_device_info() does. */
int okv_layout_read(struct okv_disk *disk, struct okv_layout *layout, uint32_t *nr_bad);

/* A request that blocks. */
int okv_disk_io(struct okv_disk *disk, enum okv_io_kind kind, uint64_t offset_bytes, void *buf,
		uint32_t bytes);

uint64_t okv_root_offset(const struct okv_super_disk *super, uint32_t partition, uint32_t slot);
uint64_t okv_journal_offset(const struct okv_super_disk *super, uint32_t journal);

/* The checksum that a write at @offset_bytes of a journal should have. */
uint64_t okv_journal_sum(const struct okv_super_disk *super, const struct okv_journal_disk *write,
			 uint32_t journal, uint64_t offset_bytes);

/* What a root of such a device begins with. */
uint32_t okv_root_magic(const struct okv_super_disk *super);

/* The checksum that a root should have in that slot. */
uint64_t okv_root_sum(const struct okv_super_disk *super, const struct okv_root_disk *root,
		      uint32_t partition, uint32_t slot);

/* The checksum that a chunk should have at a location. */
uint64_t okv_chunk_sum(const struct okv_super_disk *super, const struct okv_chunk_disk *chunk,
		       uint32_t partition, uint64_t location, uint64_t attempt);

/* Returns 0, or -EIO without random numbers. */
int okv_draw(void *out, size_t bytes);

/* Memory for the buffer of a request, and how such memory is aligned. */
size_t okv_align_of(const struct okv_disk *disk);
void *okv_alloc_blocks(const struct okv_disk *disk, size_t bytes);

#endif
