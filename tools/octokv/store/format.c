// SPDX-License-Identifier: GPL-2.0
/*
 * format.c - checksums, superblocks, and making an empty store
 *
 * The superblock changes after the format only by an upgrade, and its magic while the store is
 * sealed. It has four copies, each with its number in it: two that agree are enough to open. The
 * copies are written last, with a flush before them. So a format that is cut short leaves at most
 * one valid copy, or one that no second one agrees with. It also leaves what was in the other
 * places before, none of which is valid under the new secret. Copies that do not agree are mended,
 * unless they are good ones of another store: which of the two is in use, superblocks do not say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/*
 * On x86 the library takes the widest vectors that the processor has, if it was built to do so. The
 * address sanitizer sees only what is compiled here.
 */
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>) && !defined(__SANITIZE_ADDRESS__)
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

#include "format.h"
#include "mem.h"

/* ---- checksums ---- */

uint64_t okv_sum(const void *data, size_t bytes, uint64_t seed)
{
	return XXH3_64bits_withSeed(data, bytes, seed);
}

uint64_t okv_sum_behind(const void *data, size_t bytes, uint64_t seed)
{
	return okv_sum((const char *)data + sizeof(uint64_t), bytes - sizeof(uint64_t), seed);
}

uint64_t okv_seed(const struct okv_super_disk *super, uint32_t partition, uint64_t location,
		  uint64_t life)
{
	uint64_t place[3] = { partition, location, life };

	return okv_sum(place, sizeof(place), super->secret);
}

/* ---- requests and places ---- */

size_t okv_align_of(const struct okv_disk *disk)
{
	return disk->block_bytes > OKV_PAGE_BYTES ? disk->block_bytes : OKV_PAGE_BYTES;
}

void *okv_alloc_blocks(const struct okv_disk *disk, size_t bytes)
{
	size_t align = okv_align_of(disk);

	return mem_aligned(align, okv_round_up(bytes, align));
}

static void io_done(struct okv_io *io)
{
	*(bool *)io->owner = true;
}

int okv_disk_io(struct okv_disk *disk, enum okv_io_kind kind, uint64_t offset_bytes, void *buf,
		uint32_t bytes)
{
	bool done = false;
	struct okv_io io = {
		.kind = kind, .offset_bytes = offset_bytes, .buf = buf, .bytes = bytes,
		.done = io_done, .owner = &done,
	};
	int error;

	disk->ops->submit(disk, &io);
	while (!done) {
		error = disk->ops->wait(disk);
		if (error)
			return error;
	}
	return io.result;
}

/*
 * A page of the flash, or a write that goes elsewhere, may take several roots along, but not both
 * of a partition. All of them together take as much room as if they were side by side.
 */
static uint64_t apart_bytes(uint32_t nr_partitions)
{
	uint64_t bytes = (uint64_t)nr_partitions * OKV_PAGE_BYTES;

	return bytes > OKV_ROOTS_APART_BYTES ? bytes : OKV_ROOTS_APART_BYTES;
}

uint64_t okv_root_offset(const struct okv_super_disk *super, uint32_t partition, uint32_t slot)
{
	if (okv_has_near_roots(super))
		return OKV_ROOTS_OFFSET_BYTES +
		       ((uint64_t)partition * OKV_NR_ROOTS + slot) * OKV_PAGE_BYTES;
	return OKV_ROOTS_OFFSET_BYTES + slot * apart_bytes(super->nr_partitions) +
	       (uint64_t)partition * OKV_PAGE_BYTES;
}

uint32_t okv_root_magic(const struct okv_super_disk *super)
{
	if (okv_parts_moves(super))
		return OKV_ROOT_MAGIC;
	return okv_has_near_roots(super) ? OKV_ROOT_MAGIC_2 : OKV_ROOT_MAGIC_3;
}

uint64_t okv_root_sum(const struct okv_super_disk *super, const struct okv_root_disk *root,
		      uint32_t partition, uint32_t slot)
{
	size_t bytes = sizeof(*root);

	if (root->magic == OKV_ROOT_MAGIC_1)
		bytes = offsetof(struct okv_root_disk, attempt);
	else if (root->magic == OKV_ROOT_MAGIC_2)
		bytes = offsetof(struct okv_root_disk, nr_named);
	else if (root->magic == OKV_ROOT_MAGIC_3)
		bytes = offsetof(struct okv_root_disk, moves);
	return okv_sum_behind(root, bytes, okv_seed(super, partition, OKV_NOWHERE, slot));
}

uint64_t okv_chunk_sum(const struct okv_super_disk *super, const struct okv_chunk_disk *chunk,
		       uint32_t partition, uint64_t location, uint64_t attempt)
{
	return okv_sum_behind(chunk, sizeof(*chunk),
			      okv_seed(super, partition, location, ~attempt));
}

static uint64_t data_offset(uint32_t nr_partitions)
{
	return okv_round_up(OKV_ROOTS_OFFSET_BYTES + OKV_NR_ROOTS * apart_bytes(nr_partitions),
			    OKV_SUPER_STRIDE_BYTES);
}

uint64_t okv_journal_offset(const struct okv_super_disk *super, uint32_t journal)
{
	uint64_t nr_segments = (uint64_t)super->nr_partitions * super->nr_segments;

	return super->data_offset_bytes + nr_segments * super->segment_bytes +
	       journal * super->journal_bytes;
}

uint64_t okv_journal_sum(const struct okv_super_disk *super, const struct okv_journal_disk *write,
			 uint32_t journal, uint64_t offset_bytes)
{
	return okv_sum_behind(write, write->bytes,
			      okv_seed(super, journal, OKV_NOWHERE, ~offset_bytes));
}

/* ---- formatting ---- */

/* Of each journal, unless the options say it. */
static uint64_t journal_bytes(const struct okv_disk *disk)
{
	uint64_t bytes = disk->size_bytes / OKV_JOURNAL_PART / OKV_PAGE_BYTES * OKV_PAGE_BYTES;

	if (disk->size_bytes < OKV_JOURNALED_MIN)
		return 0;
	return bytes < OKV_JOURNAL_BYTES_MAX ? bytes : OKV_JOURNAL_BYTES_MAX;
}

static bool is_journal_size(uint64_t bytes)
{
	return !bytes || (bytes >= OKV_JOURNAL_BYTES_MIN && bytes <= OKV_JOURNAL_BYTES_MAX &&
			  bytes % OKV_PAGE_BYTES == 0);
}

/*
 * Fill in the geometry: as many partitions as asked for. The default is halved until each has
 * enough segments.
 */
static int lay_out(const struct okv_disk *disk, const struct okv_format_options *options,
		   struct okv_super_disk *super)
{
	uint32_t nr = options->nr_partitions ? options->nr_partitions : OKV_PARTITIONS_DEFAULT;
	uint32_t segment_bytes = OKV_SEGMENT_BYTES;
	uint64_t nr_segments = 0;

	if (options->segment_bytes)
		segment_bytes = options->segment_bytes;
	if (nr > OKV_PARTITIONS_MAX || nr & (nr - 1) || segment_bytes % OKV_PAGE_BYTES ||
	    segment_bytes > OKV_SEGMENT_BYTES || segment_bytes < OKV_SEGMENT_BYTES_MIN ||
	    segment_bytes / OKV_BLOCKS_MIN < disk->block_bytes ||
	    disk->block_bytes > OKV_PAGE_BYTES || !is_journal_size(options->journal_bytes))
		return -EINVAL;
	if (okv_may_have_journals(super))
		super->journal_bytes = options->journal_bytes ? options->journal_bytes :
							       journal_bytes(disk);
	for (;; nr /= 2) {
		uint64_t other_bytes = data_offset(nr) + OKV_NR_JOURNALS * super->journal_bytes;

		if (disk->size_bytes > other_bytes)
			nr_segments = (disk->size_bytes - other_bytes) / nr / segment_bytes;
		if (nr_segments >= OKV_NR_SEGMENTS_MIN)
			break;
		if (nr == 1 || options->nr_partitions)
			return -ENOSPC;
	}
	if (options->has_slots && nr < OKV_SLOT_PARTITIONS_MIN)
		return -EDOM;
	if (nr_segments * segment_bytes / OKV_ALIGN_BYTES >= OKV_NOWHERE)
		nr_segments = (OKV_NOWHERE - 1) * OKV_ALIGN_BYTES / segment_bytes;
	super->nr_partitions = nr;
	super->segment_bytes = segment_bytes;
	super->nr_segments = nr_segments;
	super->data_offset_bytes = data_offset(nr);
	return 0;
}

int okv_draw(void *out, size_t bytes)
{
	return getrandom(out, bytes, 0) == (ssize_t)bytes ? 0 : -EIO;
}

static int draw_secrets(struct okv_super_disk *super, uint64_t seed)
{
	uint8_t *out[] = { super->uuid, super->hash_key, (uint8_t *)&super->secret };
	size_t bytes[] = { sizeof(super->uuid), sizeof(super->hash_key), sizeof(super->secret) };

	for (size_t i = 0; i < 3; i++) {
		for (size_t j = 0; seed && j < bytes[i]; j++)
			out[i][j] = okv_sum(&j, sizeof(j), seed + i);
		if (!seed && okv_draw(out[i], bytes[i]))
			return -EIO;
	}
	return 0;
}

/* Write two roots for each partition: no batch yet, nothing in the index. */
static int write_roots(struct okv_disk *disk, const struct okv_super_disk *super, void *page)
{
	struct okv_root_disk *root = page;
	int error = 0;

	for (uint32_t i = 0; i < super->nr_partitions * OKV_NR_ROOTS && !error; i++) {
		uint32_t partition = i / OKV_NR_ROOTS, slot = i % OKV_NR_ROOTS;

		memset(page, 0, OKV_PAGE_BYTES);
		root->magic = okv_root_magic(super);
		root->partition = partition;
		root->generation = OKV_NR_ROOTS + slot;
		root->seq = 1;
		root->next_life = 1;
		root->segment = root->moves.segment = super->nr_segments;	/* no batch yet */
		for (uint32_t j = 0; !okv_has_near_roots(super) && j < OKV_NR_NAMED_FIRST &&
		     j < super->nr_segments; j++)
			root->segments[root->nr_named++] = j;
		root->sum = okv_root_sum(super, root, partition, slot);
		error = okv_disk_io(disk, OKV_WRITE, okv_root_offset(super, partition, slot),
				    page, OKV_PAGE_BYTES);
	}
	return error ? error : okv_disk_io(disk, OKV_FLUSH, 0, NULL, 0);
}

static uint64_t super_sum(const struct okv_super_disk *super, uint32_t copy)
{
	return okv_sum_behind(super, offsetof(struct okv_super_disk, journal_bytes),
			      OKV_SUPER_MAGIC + copy);
}

static uint64_t more_sum(const struct okv_super_disk *super)
{
	const uint64_t parts[] = { super->journal_bytes, super->is_converting };

	return okv_sum(parts, sizeof(parts), super->sum);
}

void okv_super_sign(struct okv_super_disk *super, uint32_t copy)
{
	super->copy = copy;
	super->sum = super_sum(super, copy);
	super->more_sum = okv_may_have_journals(super) ? more_sum(super) : 0;
}

static int write_super(struct okv_disk *disk, struct okv_super_disk *super, uint32_t copy,
		       void *page)
{
	int error;

	okv_super_sign(super, copy);
	memset(page, 0, OKV_PAGE_BYTES);
	memcpy(page, super, sizeof(*super));
	error = okv_disk_io(disk, OKV_WRITE, (uint64_t)copy * OKV_SUPER_STRIDE_BYTES, page,
			    OKV_PAGE_BYTES);
	return error ? error : okv_disk_io(disk, OKV_FLUSH, 0, NULL, 0);
}

/* One after the other, each durable before the next one. */
static int write_supers(struct okv_disk *disk, struct okv_super_disk *super, void *page)
{
	int error = 0;

	for (uint32_t i = 0; i < OKV_NR_SUPERS && !error; i++)
		error = write_super(disk, super, i, page);
	return error;
}

static uint32_t version_of(const struct okv_format_options *options)
{
	static const uint32_t versions[][2] = {
		{ OKV_VERSION, OKV_VERSION_SLOTS },
		{ OKV_VERSION_BARE, OKV_VERSION_BARE_SLOTS },
		{ OKV_VERSION_NEAR, OKV_VERSION_NEAR_SLOTS },
		{ OKV_VERSION_WHOLE, OKV_VERSION_WHOLE_SLOTS },
	};

	return versions[options->former][options->has_slots];
}

int okv_device_format(struct okv_disk *disk, const struct okv_format_options *options)
{
	struct okv_super_disk super = {
		.magic = OKV_SUPER_MAGIC, .generation = 1,
		.version = version_of(options),
		.size_bytes = disk->size_bytes, .block_bytes = disk->block_bytes,
	};
	int error = lay_out(disk, options, &super);
	void *page;

	if (error)
		return error;
	error = draw_secrets(&super, options->seed);
	if (error)
		return error;
	page = okv_alloc_blocks(disk, OKV_PAGE_BYTES);
	error = write_roots(disk, &super, page);
	if (!error)
		error = write_supers(disk, &super, page);
	mem_free(page);
	return error;
}

/* ---- reading the superblock ---- */

/* How many segments of each partition have room; only with a plausible geometry. */
static uint64_t segments_max(const struct okv_super_disk *super)
{
	uint64_t bytes = super->size_bytes - super->data_offset_bytes -
			 OKV_NR_JOURNALS * super->journal_bytes;

	return bytes / super->nr_partitions / super->segment_bytes;
}

/* Returns 0 for a good copy, else what okv_device_info() does. */
static int judge_super(const struct okv_super_disk *super, uint32_t copy)
{
	if (super->magic != OKV_SUPER_MAGIC && super->magic != OKV_SEALED_MAGIC)
		return -ENODATA;
	if (super->sum != super_sum(super, copy) || super->copy != copy)
		return -EUCLEAN;
	if (super->magic == OKV_SEALED_MAGIC)
		return super->is_converting ? -ESTALE : -EINPROGRESS;
	if (!okv_may_have_journals(super) && super->version != OKV_VERSION_BARE &&
	    super->version != OKV_VERSION_BARE_SLOTS && !okv_has_near_roots(super))
		return -EPROTONOSUPPORT;
	if (okv_may_have_journals(super) && super->more_sum != more_sum(super))
		return -EUCLEAN;
	/* Not even a copy with a good checksum may lead out of the device or divide by 0. */
	if (!super->nr_partitions || super->nr_partitions > OKV_PARTITIONS_MAX ||
	    super->nr_partitions & (super->nr_partitions - 1) ||
	    super->segment_bytes < OKV_SEGMENT_BYTES_MIN ||
	    super->segment_bytes > OKV_SEGMENT_BYTES || super->segment_bytes % OKV_PAGE_BYTES ||
	    super->data_offset_bytes != data_offset(super->nr_partitions) ||
	    !is_journal_size(super->journal_bytes) ||
	    super->nr_segments < OKV_NR_SEGMENTS_MIN || super->block_bytes < 512 ||
	    super->block_bytes > OKV_PAGE_BYTES || super->block_bytes & (super->block_bytes - 1) ||
	    super->segment_bytes / OKV_BLOCKS_MIN < super->block_bytes ||
	    super->size_bytes < super->data_offset_bytes +
				OKV_NR_JOURNALS * super->journal_bytes ||
	    super->nr_segments > segments_max(super))
		return -EUCLEAN;
	return 0;
}

static bool same_super(const struct okv_super_disk *a, const struct okv_super_disk *b)
{
	struct okv_super_disk other = *b;

	other.copy = a->copy;
	other.sum = a->sum;
	other.more_sum = a->more_sum;
	return !memcmp(a, &other, sizeof(other));
}

/* Elect the copy that most others agree with; returns how many agree. */
static int elect_super(const struct okv_super_disk *supers, const int *verdicts,
		       struct okv_super_disk *elected)
{
	uint32_t nr_most = 0;

	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		uint32_t nr = 0;

		for (uint32_t j = 0; j < OKV_NR_SUPERS && !verdicts[i]; j++)
			nr += !verdicts[j] && same_super(&supers[i], &supers[j]);
		if (nr > nr_most) {
			nr_most = nr;
			*elected = supers[i];
		}
	}
	return nr_most;
}

int okv_layout_read(struct okv_disk *disk, struct okv_layout *layout, uint32_t *nr_bad)
{
	struct okv_super_disk supers[OKV_NR_SUPERS] = { 0 };
	int verdicts[OKV_NR_SUPERS], verdict = -ENODATA;
	uint32_t nr, nr_good = 0, nr_unread = 0, block_bytes, head_bytes;
	void *page;

	if (disk->size_bytes < data_offset(1))
		return -ENODATA;
	page = okv_alloc_blocks(disk, OKV_PAGE_BYTES);
	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		verdicts[i] = okv_disk_io(disk, OKV_READ, (uint64_t)i * OKV_SUPER_STRIDE_BYTES,
					  page, OKV_PAGE_BYTES);
		nr_unread += verdicts[i] != 0;
		if (!verdicts[i]) {
			memcpy(&supers[i], page, sizeof(supers[i]));
			verdicts[i] = judge_super(&supers[i], i);
			nr_good += !verdicts[i];
		}
		if (verdicts[i] && (verdict == -ENODATA || verdicts[i] == -EPROTONOSUPPORT ||
				    verdicts[i] == -EINPROGRESS || verdicts[i] == -ESTALE))
			verdict = verdicts[i];
	}
	mem_free(page);
	nr = elect_super(supers, verdicts, &layout->super);
	if (nr_bad)
		*nr_bad = OKV_NR_SUPERS - nr;
	/* Those that could not be read this time may agree with these, or with others. */
	if (nr_unread && (nr < nr_good || nr < OKV_NR_SUPERS_AGREE) &&
	    nr_good + nr_unread >= OKV_NR_SUPERS_AGREE)
		return -EIO;
	if (nr < OKV_NR_SUPERS_AGREE)
		return nr && verdict != -EINPROGRESS && verdict != -ESTALE ? -EUCLEAN : verdict;
	if (layout->super.size_bytes > disk->size_bytes)
		return -ENOSPC;
	if (layout->super.block_bytes < disk->block_bytes)
		return -EINVAL;
	block_bytes = layout->super.block_bytes;
	layout->partition_bits = __builtin_ctz(layout->super.nr_partitions);
	/* A segment has room for two of the longest values, each in a batch of its own. */
	head_bytes = sizeof(struct okv_batch_disk) +
		     okv_head_bytes(block_bytes, OKV_KEY_BYTES_MAX, OKV_ALIGN_BYTES);
	layout->value_bytes_max = layout->super.segment_bytes / 2 / block_bytes * block_bytes -
				  block_bytes - okv_round_up(head_bytes, block_bytes);
	if (layout->value_bytes_max > OKV_VALUE_BYTES_MAX)
		layout->value_bytes_max = OKV_VALUE_BYTES_MAX;
	return 0;
}

/*
 * Write the copies that do not agree. The others stay as they are: there may be just enough.
 * Nothing is written if a good one is of another store.
 */
static int mend_supers(struct okv_disk *disk, struct okv_super_disk *super)
{
	void *page = okv_alloc_blocks(disk, OKV_PAGE_BYTES);
	bool agrees[OKV_NR_SUPERS];
	int error = 0, result;

	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		result = okv_disk_io(disk, OKV_READ, (uint64_t)i * OKV_SUPER_STRIDE_BYTES, page,
				     OKV_PAGE_BYTES);
		if (!result)
			result = judge_super(page, i);
		agrees[i] = !result && same_super(super, page);
		if (!result && !agrees[i])
			error = -EUCLEAN;
	}
	for (uint32_t i = 0; i < OKV_NR_SUPERS && error != -EUCLEAN; i++) {
		result = agrees[i] ? 0 : write_super(disk, super, i, page);
		error = error ? error : result;
	}
	mem_free(page);
	return error;
}

int okv_device_mend(struct okv_disk *disk)
{
	struct okv_layout layout = { 0 };
	int error = okv_layout_read(disk, &layout, NULL);

	return error ? error : mend_supers(disk, &layout.super);
}

int okv_device_seal(struct okv_disk *disk, bool sealed)
{
	struct okv_super_disk *super = okv_alloc_blocks(disk, OKV_PAGE_BYTES);
	uint32_t nr = 0, nr_failed = 0;
	int error = 0;

	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		uint64_t offset_bytes = (uint64_t)i * OKV_SUPER_STRIDE_BYTES;
		int result = okv_disk_io(disk, OKV_READ, offset_bytes, super, OKV_PAGE_BYTES);
		int verdict = result ? 0 : judge_super(super, i);

		/* A damaged copy has no say. */
		if (verdict && verdict != -EINPROGRESS) {
			error = verdict;
			continue;
		}
		if (!result) {
			super->magic = sealed ? OKV_SEALED_MAGIC : OKV_SUPER_MAGIC;
			okv_super_sign(super, i);
			result = okv_disk_io(disk, OKV_WRITE, offset_bytes, super, OKV_PAGE_BYTES);
		}
		nr += !result;
		nr_failed += result != 0;
		error = result ? result : error;
	}
	mem_free(super);
	/* Those that failed may still say what they said before. */
	if (nr < OKV_NR_SUPERS_AGREE || nr_failed >= OKV_NR_SUPERS_AGREE)
		return error;
	return okv_disk_io(disk, OKV_FLUSH, 0, NULL, 0);
}

/* ---- what later versions have, for a store of an earlier one ---- */

/* What a conversion that was interrupted was to write: the last copy that has it; or @error. */
static int read_converting(struct okv_disk *disk, struct okv_super_disk *super, int error)
{
	void *page = okv_alloc_blocks(disk, OKV_PAGE_BYTES);

	for (uint32_t i = 0; i < OKV_NR_SUPERS; i++) {
		if (okv_disk_io(disk, OKV_READ, (uint64_t)i * OKV_SUPER_STRIDE_BYTES, page,
				OKV_PAGE_BYTES) || judge_super(page, i) != -ESTALE)
			continue;
		memcpy(super, page, sizeof(*super));
		error = 0;
	}
	mem_free(page);
	if (!error && super->more_sum != more_sum(super))
		error = -EUCLEAN;
	return error;
}

/* A store of a version without journals gets them, in what is behind its last segment. */
static int plan_journals(const struct okv_disk *disk, struct okv_super_disk *super)
{
	uint64_t begin_bytes, bytes;

	if (okv_may_have_journals(super))
		return 0;
	begin_bytes = okv_journal_offset(super, 0);
	bytes = (disk->size_bytes - begin_bytes) / OKV_NR_JOURNALS / OKV_PAGE_BYTES *
		OKV_PAGE_BYTES;
	super->journal_bytes = bytes < OKV_JOURNAL_BYTES_MAX ? bytes : OKV_JOURNAL_BYTES_MAX;
	super->size_bytes = disk->size_bytes;
	return bytes < OKV_JOURNAL_BYTES_MIN ? -ENOSPC : 0;
}

static int plan_upgrade(const struct okv_disk *disk, struct okv_super_disk *super)
{
	if (okv_has_small_records(super))
		return -EALREADY;
	if (okv_has_near_roots(super))
		return -EOPNOTSUPP;
	return plan_journals(disk, super);
}

/*
 * Until two copies are sealed, the others say what the store was. From then on neither this octokvd
 * nor an earlier one opens it, until two copies say what it is.
 */
int okv_device_upgrade(struct okv_disk *disk)
{
	struct okv_layout layout = { 0 };
	struct okv_super_disk *super = &layout.super;
	int error = okv_layout_read(disk, &layout, NULL);
	void *page;

	if (error == -ESTALE || error == -EIO)
		error = read_converting(disk, super, error == -EIO ? -EIO : -EUCLEAN);
	else if (!error)
		error = plan_upgrade(disk, super);
	/* One that was interrupted may have left copies sealed, or in the device's cache only. */
	if (error == -EALREADY) {
		error = mend_supers(disk, super);
		if (!error)
			error = okv_disk_io(disk, OKV_FLUSH, 0, NULL, 0);
		return error ? error : -EALREADY;
	}
	if (error)
		return error;
	page = okv_alloc_blocks(disk, OKV_PAGE_BYTES);
	super->version = okv_has_slots(super) ? OKV_VERSION_SLOTS : OKV_VERSION;
	super->magic = OKV_SEALED_MAGIC;
	super->is_converting = true;
	error = write_supers(disk, super, page);
	super->magic = OKV_SUPER_MAGIC;
	super->is_converting = false;
	if (!error)
		error = write_supers(disk, super, page);
	mem_free(page);
	/* That there is no room has another meaning here. */
	return error == -ENOSPC ? -EIO : error;
}
