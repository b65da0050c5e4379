// SPDX-License-Identifier: GPL-2.0
/*
 * Who has which cache line, for all of the guest's memory: a table of pages, filled on first
 * touch
 *
 * The rule is in lines.h. A page of 4 KiB has 64 lines. The table is open-addressed, a power of
 * two large, and at most half full; it doubles when it would be fuller. Of two accesses in a row
 * many are to the same page, so the last one found is kept.
 */
#include <stdlib.h>
#include <string.h>

#include "lines.h"

enum {
	PAGE_SHIFT	= 12,
	LINES_PER_PAGE	= 1 << (PAGE_SHIFT - LINE_SHIFT),
	FIRST_SLOTS	= 1 << 12,
};

struct page {
	uint64_t number;
	struct line lines[LINES_PER_PAGE];
};

static struct {
	struct page **slots;
	size_t nr_slots, nr_pages;
	struct page *last;
} table;

static size_t slot_of(struct page **slots, size_t nr_slots, uint64_t number)
{
	size_t at = number * 0x9e3779b97f4a7c15ULL >> 32 & (nr_slots - 1);

	while (slots[at] && slots[at]->number != number)
		at = (at + 1) & (nr_slots - 1);
	return at;
}

static bool grow(void)
{
	size_t nr_slots = table.nr_slots ? 2 * table.nr_slots : FIRST_SLOTS;
	struct page **slots = calloc(nr_slots, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < table.nr_slots; i++)
		if (table.slots[i])
			slots[slot_of(slots, nr_slots, table.slots[i]->number)] = table.slots[i];
	free(table.slots);
	table.slots = slots;
	table.nr_slots = nr_slots;
	return true;
}

static struct page *new_page(uint64_t number)
{
	struct page *page = calloc(1, sizeof(*page));

	if (!page)
		return NULL;
	page->number = number;
	for (int i = 0; i < LINES_PER_PAGE; i++)
		page->lines[i].writer = NO_CPU;
	table.nr_pages++;
	return page;
}

struct line *line_of(uint64_t phys)
{
	uint64_t number = phys >> PAGE_SHIFT;
	struct page *page = table.last;
	size_t at;

	if (!page || page->number != number) {
		if (2 * table.nr_pages >= table.nr_slots && !grow())
			return NULL;
		at = slot_of(table.slots, table.nr_slots, number);
		if (!table.slots[at])
			table.slots[at] = new_page(number);
		page = table.slots[at];
		if (!page)
			return NULL;
		table.last = page;
	}
	return &page->lines[phys >> LINE_SHIFT & (LINES_PER_PAGE - 1)];
}

static bool others_have(const struct line *line, unsigned int cpu)
{
	for (unsigned int i = 0; i < MAX_CPUS / 64; i++)
		if (line->has[i] & ~(i == cpu / 64 ? 1ULL << cpu % 64 : 0))
			return true;
	return false;
}

bool line_access(struct line *line, unsigned int cpu, bool is_store)
{
	uint64_t bit = 1ULL << cpu % 64;
	bool has = line->has[cpu / 64] & bit, moved;

	if (!is_store) {
		moved = !has && line->writer != NO_CPU && line->writer != cpu;
		line->has[cpu / 64] |= bit;
		return moved;
	}
	moved = others_have(line, cpu);
	if (moved || !has) {
		memset(line->has, 0, sizeof(line->has));
		line->has[cpu / 64] = bit;
	}
	line->writer = cpu;
	return moved;
}

unsigned int line_nr_sharers(const struct line *line)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < MAX_CPUS / 64; i++)
		nr += __builtin_popcountll(line->has[i]);
	return nr;
}

void lines_forget(void)
{
	for (size_t i = 0; i < table.nr_slots; i++)
		free(table.slots[i]);
	free(table.slots);
	memset(&table, 0, sizeof(table));
}
