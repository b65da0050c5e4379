// SPDX-License-Identifier: GPL-2.0
/*
 * history.c - the search for an order of a history, of Wing and Gong
 *
 * The next entry is one that was sent before any other of those that are left was answered. If none
 * of them fits, the last step is undone. As Lowe has shown, it is enough to remember the sets of
 * entries that were done, with what the keys had then: the search goes on from none of them twice.
 */
#include <stdio.h>
#include <string.h>

#include "history.h"
#include "test/test.h"

enum { NR_SEEN = 1 << 18 };

const char *const verb_names[] = { "GET", "SET", "INCR", "DEL" };

struct place {
	uint64_t done;			/* entries, by bit */
	int64_t keys[2];
};

struct search {
	const struct history *h;
	uint64_t known;			/* entries with an answer */
	uint64_t number;
	uint32_t nr_seen;
};

/* Of the search with that number; others have left their places. */
static struct {
	struct place place;
	uint64_t number;
} seen[NR_SEEN];

void history_add(struct history *h, const struct entry *e)
{
	EXPECT(h->nr < NR_ENTRIES_MAX);
	h->entries[h->nr++] = *e;
}

/* False: it does not give these answers. */
static bool apply(const struct entry *e, int64_t *keys)
{
	for (uint32_t i = 0; i < e->nr; i++) {
		const struct step *s = &e->steps[i];
		int64_t *key = &keys[s->key], answer = 0;

		if (s->verb == GET)
			answer = *key;
		else if (s->verb == SET)
			answer = *key = s->number;
		else if (s->verb == INCR)
			answer = *key = *key == NOTHING ? 1 : *key + 1;
		else
			answer = *key != NOTHING;
		if (s->verb == DEL)
			*key = NOTHING;
		if (e->answered != UINT64_MAX && s->verb != SET && answer != s->answer)
			return false;
	}
	return true;
}

static bool is_new(struct search *s, const struct place *p)
{
	uint64_t hash = p->done * 0x9e3779b97f4a7c15ULL ^ p->keys[0] * 0x94d049bb133111ebULL ^
			p->keys[1] * 0xbf58476d1ce4e5b9ULL;
	uint32_t at = (hash ^ hash >> 32) % NR_SEEN;

	for (; seen[at].number == s->number; at = (at + 1) % NR_SEEN)
		if (!memcmp(&seen[at].place, p, sizeof(*p)))
			return false;
	seen[at].place = *p;
	seen[at].number = s->number;
	EXPECT(++s->nr_seen < NR_SEEN / 2);
	return true;
}

/* Of several without an answer that are alike, the one that was sent first stands for all. */
static bool is_alike(const struct history *h, uint64_t done, uint32_t i)
{
	const struct entry *e = &h->entries[i];

	for (uint32_t j = 0; j < h->nr; j++) {
		const struct entry *f = &h->entries[j];

		if (j != i && !(done >> j & 1) && f->answered == UINT64_MAX && f->sent < e->sent &&
		    f->nr == e->nr && !memcmp(f->steps, e->steps, sizeof(e->steps)))
			return true;
	}
	return false;
}

static bool find(struct search *s, const struct place *from);

/* Whether the rest fits if this entry is the next one. */
static bool find_behind(struct search *s, const struct place *from, uint32_t i)
{
	const struct entry *e = &s->h->entries[i];
	struct place to = *from;

	if (!apply(e, to.keys))
		return false;
	/* It may as well not have happened. */
	if (e->answered == UINT64_MAX &&
	    (!memcmp(to.keys, from->keys, sizeof(to.keys)) || is_alike(s->h, from->done, i)))
		return false;
	to.done |= 1ULL << i;
	return is_new(s, &to) && find(s, &to);
}

/* Those that may not have happened come last. */
static bool find(struct search *s, const struct place *from)
{
	const struct history *h = s->h;
	uint64_t left = ~from->done & (h->nr < 64 ? (1ULL << h->nr) - 1 : UINT64_MAX);
	uint64_t until = UINT64_MAX, known = left & s->known, unknown = left & ~s->known;

	if (!known)
		return true;
	for (uint64_t some = known; some; some &= some - 1) {
		const struct entry *e = &h->entries[__builtin_ctzll(some)];

		until = e->answered < until ? e->answered : until;
	}
	for (; known | unknown; known ? (known &= known - 1) : (unknown &= unknown - 1)) {
		uint32_t i = __builtin_ctzll(known ? known : unknown);

		if (h->entries[i].sent <= until && find_behind(s, from, i))
			return true;
	}
	return false;
}

bool history_fits(const struct history *h)
{
	static uint64_t nr_searches;
	struct search s = { .h = h, .number = ++nr_searches };
	struct place begin = { .keys = { NOTHING, NOTHING } };

	for (uint32_t i = 0; i < h->nr; i++)
		s.known |= (uint64_t)(h->entries[i].answered != UINT64_MAX) << i;
	return find(&s, &begin);
}

void entry_print(const struct entry *e, char *text, size_t bytes)
{
	int at = snprintf(text, bytes, "%llu", (unsigned long long)e->sent);

	for (uint32_t i = 0; i < e->nr; i++) {
		const struct step *s = &e->steps[i];

		at += snprintf(text + at, bytes - at, " %s %c", verb_names[s->verb], "xy"[s->key]);
		if (s->verb == SET)
			at += snprintf(text + at, bytes - at, " %lld", (long long)s->number);
		else if (e->answered != UINT64_MAX)
			at += snprintf(text + at, bytes - at, " -> %lld", (long long)s->answer);
	}
	if (e->answered != UINT64_MAX)
		snprintf(text + at, bytes - at, " by %llu", (unsigned long long)e->answered);
	else
		snprintf(text + at, bytes - at, " unknown");
}
