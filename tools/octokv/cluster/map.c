// SPDX-License-Identifier: GPL-2.0
/*
 * map.c - the file with the map of a cluster, and what CLUSTER SETSLOT changes in it
 *
 * map.h says what is in the file.
 *
 * A slot goes from node to node in this order, each step at the node that it names:
 *
 *	IMPORTING at the new one, MIGRATING at the old one, MIGRATE for all keys, NODE at all
 *
 * After MIGRATING the old node makes no new key of the slot. So a slot without keys there
 * stays so, and the new node may take it. NODE is refused to an old node that has not heard
 * MIGRATING, and to a new one that has not heard IMPORTING: no two nodes make new keys of a slot.
 *
 * NODE makes the number of the map greater by one. Nodes that have heard the same have the same
 * number.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "map.h"
#include "store/mem.h"

enum { UUID_BYTES = 16 };

static const char spaces[] = " \t\r\n";

void cluster_id(const uint8_t *uuid, char *id)
{
	for (int i = 0; i < UUID_BYTES; i++)
		sprintf(id + 2 * i, "%02x", uuid[i]);
	memset(id + 2 * UUID_BYTES, '0', CLUSTER_ID_LEN - 2 * UUID_BYTES);
	id[CLUSTER_ID_LEN] = 0;
}

/* A decimal number up to @max, and what comes behind it. */
static bool number(const char *text, uint64_t max, uint64_t *value, char **end)
{
	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	*value = strtoull(text, end, 10);
	return !errno && *value <= max;
}

/* ADDRESS:PORT; an IPv6 address may be in brackets. */
static bool parse_address(const char *word, struct cluster_node *node)
{
	const char *colon = strrchr(word, ':'), *host = word;
	size_t len = colon ? colon - word : 0;
	uint64_t port;
	char *end;

	if (!colon || !number(colon + 1, UINT16_MAX, &port, &end) || *end || !port)
		return false;
	if (len > 2 && host[0] == '[' && host[len - 1] == ']') {
		host++;
		len -= 2;
	}
	if (!len || len >= sizeof(node->host))
		return false;
	memcpy(node->host, host, len);
	node->host[len] = 0;
	node->port = port;
	return true;
}

/* SLOT or FIRST-LAST, for the node that was added last. */
static const char *add_slots(struct cluster *c, const char *word)
{
	uint64_t first, last;
	char *end;

	if (!number(word, OKV_NR_SLOTS - 1, &first, &end))
		return "a slot is a number from 0 to 16383";
	last = first;
	if (*end == '-' && !number(end + 1, OKV_NR_SLOTS - 1, &last, &end))
		return "a slot is a number from 0 to 16383";
	if (*end || last < first)
		return "slots are SLOT or FIRST-LAST";
	for (uint64_t slot = first; slot <= last; slot++) {
		if (c->owner[slot])
			return "a slot is given away twice";
		c->owner[slot] = c->nr_nodes;
	}
	return NULL;
}

/* [SLOT->-ID] or [SLOT-<-ID] */
static const char *add_word(struct cluster *c, const char *text)
{
	struct cluster_word word = { .node = c->nr_nodes - 1 };
	uint64_t slot;
	char *end;

	if (!number(text + 1, OKV_NR_SLOTS - 1, &slot, &end) ||
	    (strncmp(end, "->-", 3) && strncmp(end, "-<-", 3)) ||
	    strlen(end + 3) != CLUSTER_ID_LEN + 1 || end[3 + CLUSTER_ID_LEN] != ']')
		return "a slot on its way is [SLOT->-ID] or [SLOT-<-ID]";
	word.slot = slot;
	word.leaves = end[1] == '>';
	memcpy(word.other, end + 3, CLUSTER_ID_LEN);
	c->words = mem_grow(c->words, (c->nr_words + 1) * sizeof(word));
	c->words[c->nr_words++] = word;
	return NULL;
}

static const char *add_node(struct cluster *c, char *line)
{
	char *id = strtok(line, spaces), *address = strtok(NULL, spaces), *word;
	struct cluster_node node = { 0 };
	const char *why = NULL;

	if (!address || strlen(id) != CLUSTER_ID_LEN ||
	    strspn(id, "0123456789abcdef") != CLUSTER_ID_LEN)
		return "a line is ID ADDRESS:PORT and slots; an ID has 40 hexadecimal digits";
	if (!parse_address(address, &node))
		return "an address is ADDRESS:PORT";
	strcpy(node.id, id);
	if (cluster_find(c, id, CLUSTER_ID_LEN) < c->nr_nodes)
		return "an ID is there twice";
	if (c->nr_nodes == CLUSTER_NODES_MAX)
		return "there are too many nodes: 1000 at most";
	c->nodes = mem_grow(c->nodes, (c->nr_nodes + 1) * sizeof(*c->nodes));
	c->nodes[c->nr_nodes++] = node;
	while (!why && (word = strtok(NULL, spaces)))
		why = word[0] == '[' ? add_word(c, word) : add_slots(c, word);
	return why;
}

static const char *set_epoch(struct cluster *c, char *line)
{
	const char *name = strtok(line, spaces), *value = strtok(NULL, spaces);
	const char *since = strtok(NULL, spaces), *from = strtok(NULL, spaces);
	char *end;

	if (strcmp(name, "epoch") || !value || (since && (strcmp(since, "since") || !from)) ||
	    strtok(NULL, spaces) || !number(value, INT64_MAX, &c->epoch, &end) || *end ||
	    !c->epoch)
		return "the first line is \"epoch\" and the number of the map";
	c->since = c->epoch;
	if (from && (!number(from, c->epoch, &c->since, &end) || *end || !c->since))
		return "behind \"since\" is the number of an older map";
	return NULL;
}

/* Reads all lines; @nr is the number of the last one. */
static const char *read_lines(struct cluster *c, FILE *file, int *nr)
{
	char *line = mem_alloc(CLUSTER_LINE_BYTES);
	const char *why = NULL;

	while (!why && fgets(line, CLUSTER_LINE_BYTES, file)) {
		++*nr;
		if (!strchr(line, '\n') && !feof(file))
			why = "a line is too long";
		else if (line[strspn(line, spaces)] && line[strspn(line, " \t")] != '#')
			why = c->epoch ? add_node(c, line) : set_epoch(c, line);
	}
	mem_free(line);
	return why;
}

/* Which of the nodes we are; false: none. */
static bool find_self(struct cluster *c, const char *id)
{
	c->self = cluster_find(c, id, CLUSTER_ID_LEN);
	return c->self < c->nr_nodes;
}

void cluster_set_way(struct cluster *c, uint32_t slot, uint32_t way)
{
	c->nr_ways += (way != 0) - (c->way[slot] != 0);
	c->way[slot] = way;
	c->in_doubt[slot] = false;
}

/* Takes the slots on their way from the lines. Nobody knows what was under way when they ended. */
static bool take_words(struct cluster *c)
{
	for (uint32_t i = 0; i < c->nr_words; i++) {
		const struct cluster_word *word = &c->words[i];
		uint32_t other = cluster_find(c, word->other, CLUSTER_ID_LEN);

		if (word->node != c->self || other == c->nr_nodes || other == c->self ||
		    word->leaves != cluster_owns(c, word->slot) || c->way[word->slot])
			return false;
		cluster_set_way(c, word->slot, other + 1);
		c->in_doubt[word->slot] = word->leaves;
	}
	mem_free(c->words);
	c->words = NULL;
	return true;
}

/* @file was opened under this name, or could not be; it is closed. */
static struct cluster *load(FILE *file, const char *name, const char *id, char *why,
			    size_t why_bytes)
{
	struct cluster *c;
	const char *wrong;
	int nr = 0;

	if (!file) {
		snprintf(why, why_bytes, "%s: %s", name, strerror(errno));
		return NULL;
	}
	c = mem_zalloc(sizeof(*c));
	c->version = 1;
	wrong = read_lines(c, file, &nr);
	fclose(file);
	if (wrong)
		snprintf(why, why_bytes, "%s:%d: %s", name, nr, wrong);
	else if (!find_self(c, id))
		snprintf(why, why_bytes, "%s: the ID of this store is not there: %s", name, id);
	else if (!take_words(c))
		snprintf(why, why_bytes, "%s: only the line of this store has slots on their way, "
			 "[SLOT->-ID] its own, [SLOT-<-ID] others", name);
	else
		return c;
	cluster_free(c);
	return NULL;
}

struct cluster *cluster_load(const char *path, const char *id, char *why, size_t why_bytes)
{
	return load(fopen(path, "re"), path, id, why, why_bytes);
}

struct cluster *cluster_parse(const char *text, size_t len, const char *id, char *why,
			      size_t why_bytes)
{
	struct cluster *c = load(fmemopen((void *)text, len, "r"), "map", id, why, why_bytes);

	if (!c || !c->nr_ways)
		return c;
	snprintf(why, why_bytes, "map: it has slots on their way");
	cluster_free(c);
	return NULL;
}

void cluster_free(struct cluster *c)
{
	if (c) {
		mem_free(c->nodes);
		mem_free(c->words);
	}
	mem_free(c);
}

struct cluster *cluster_copy(const struct cluster *c)
{
	struct cluster *copy = memcpy(mem_alloc(sizeof(*c)), c, sizeof(*c));

	copy->nodes = memcpy(mem_alloc(c->nr_nodes * sizeof(*c->nodes)), c->nodes,
			     c->nr_nodes * sizeof(*c->nodes));
	return copy;
}

bool cluster_is_same(const struct cluster *a, const struct cluster *b)
{
	return a->epoch == b->epoch && a->nr_nodes == b->nr_nodes &&
	       !memcmp(a->nodes, b->nodes, a->nr_nodes * sizeof(*a->nodes)) &&
	       !memcmp(a->owner, b->owner, sizeof(a->owner));
}

/* Of the owner of a slot; empty: it has none. */
static const char *owner_id(const struct cluster *c, uint32_t slot)
{
	return c->owner[slot] ? c->nodes[c->owner[slot] - 1].id : "";
}

/* It concerns us, too. What other nodes have, they know. */
static bool is_moved(const struct cluster *c, const struct cluster *old, uint32_t slot)
{
	return (cluster_owns(old, slot) || cluster_owns(c, slot) || old->way[slot]) &&
	       strcmp(owner_id(c, slot), owner_id(old, slot));
}

/* It says that it was made of the map of now, or no slot has moved. */
static bool may_move(const struct cluster *c, const struct cluster *old)
{
	return old->epoch == old->since || (c->since != c->epoch && c->since == old->epoch);
}

bool cluster_follows(const struct cluster *c, const struct cluster *old, char *why,
		     size_t why_bytes)
{
	uint32_t slot = 0;

	while (slot < OKV_NR_SLOTS && !is_moved(c, old, slot))
		slot++;
	if (slot == OKV_NR_SLOTS || may_move(c, old))
		return true;
	snprintf(why, why_bytes, "slots have moved since map %" PRIu64 ", and this one moves slot "
		 "%u: if it is to, begin with \"epoch %" PRIu64 " since %" PRIu64 "\"", old->since,
		 slot, c->epoch, old->epoch);
	return false;
}

bool cluster_next(const struct cluster *c, uint32_t *at, struct cluster_range *range)
{
	while (*at < OKV_NR_SLOTS && !c->owner[*at])
		++*at;
	if (*at == OKV_NR_SLOTS)
		return false;
	range->first = *at;
	range->node = c->owner[*at] - 1;
	while (*at < OKV_NR_SLOTS && c->owner[*at] == range->node + 1)
		range->last = (*at)++;
	return true;
}

struct cluster_range *cluster_ranges(const struct cluster *c)
{
	/* Of each node: how many, and then where the next one goes. */
	uint32_t places[CLUSTER_NODES_MAX + 1] = { 0 }, nr = 0;
	struct cluster_range range, *ranges;

	for (uint32_t at = 0; cluster_next(c, &at, &range); nr++)
		places[range.node + 1]++;
	for (uint32_t i = 1; i < c->nr_nodes; i++)
		places[i] += places[i - 1];
	ranges = mem_alloc((nr + 1) * sizeof(*ranges));
	for (uint32_t at = 0; cluster_next(c, &at, &range);)
		ranges[places[range.node]++] = range;
	ranges[nr].node = c->nr_nodes;
	return ranges;
}

uint32_t cluster_nr_assigned(const struct cluster *c)
{
	uint32_t nr = 0;

	for (uint32_t slot = 0; slot < OKV_NR_SLOTS; slot++)
		nr += c->owner[slot] != 0;
	return nr;
}

uint32_t cluster_nr_serving(const struct cluster *c)
{
	bool serves[CLUSTER_NODES_MAX + 1] = { false };
	uint32_t nr = 0;

	for (uint32_t slot = 0; slot < OKV_NR_SLOTS; slot++) {
		nr += c->owner[slot] && !serves[c->owner[slot]];
		serves[c->owner[slot]] = true;
	}
	return nr;
}

uint32_t cluster_find(const struct cluster *c, const char *id, size_t len)
{
	uint32_t node = 0;

	while (node < c->nr_nodes &&
	       (len != CLUSTER_ID_LEN || memcmp(c->nodes[node].id, id, CLUSTER_ID_LEN)))
		node++;
	return node;
}

/* ---- changes ---- */

/* A slot begins to move from us or to us. */
static const char *begin(struct cluster *c, uint32_t slot, bool leaves, uint32_t node)
{
	if (leaves && !cluster_owns(c, slot))
		return "ERR I'm not the owner of hash slot %u";
	if (!leaves && cluster_owns(c, slot))
		return "ERR I'm already the owner of hash slot %u";
	if (node == c->self)
		return "ERR slot %u cannot move to where it is";
	if (!leaves && c->owner[slot] != node + 1)
		return "ERR slot %u is another node's by the map of this one";
	if (c->way[slot] && c->way[slot] != node + 1)
		return "ERR slot %u is on its way from or to another node: end that first";
	if (!c->way[slot])
		cluster_set_way(c, slot, node + 1);
	return NULL;
}

static const char *give(struct cluster *c, uint32_t slot, uint32_t node)
{
	bool is_new = c->owner[slot] != node + 1;

	if (is_new && cluster_owns(c, slot) && c->way[slot] != node + 1)
		return "ERR slot %u is not on its way there: CLUSTER SETSLOT MIGRATING first";
	if (is_new && node == c->self && !c->way[slot])
		return "ERR slot %u is not on its way here: CLUSTER SETSLOT IMPORTING first";
	if (is_new && !cluster_owns(c, slot) && node != c->self && c->way[slot])
		return "ERR slot %u is on its way here: CLUSTER SETSLOT STABLE first";
	cluster_set_way(c, slot, 0);
	c->owner[slot] = node + 1;
	c->epoch += is_new;
	return NULL;
}

bool cluster_change(struct cluster *c, uint32_t slot, enum cluster_change what, uint32_t node,
		    char *why, size_t why_bytes)
{
	const char *wrong = NULL;

	if (what == CLUSTER_STABLE)
		cluster_set_way(c, slot, 0);
	else if (what == CLUSTER_NODE)
		wrong = give(c, slot, node);
	else
		wrong = begin(c, slot, what == CLUSTER_MIGRATING, node);
	c->version += !wrong;
	if (wrong)
		snprintf(why, why_bytes, wrong, slot);
	return !wrong;
}

void cluster_keep_ways(struct cluster *c, const struct cluster *old)
{
	c->version = old->version + 1;
	c->since = may_move(c, old) ? c->epoch : old->since;
	for (uint32_t slot = 0; slot < OKV_NR_SLOTS; slot++) {
		uint32_t other;

		if (!old->way[slot] || cluster_owns(old, slot) != cluster_owns(c, slot))
			continue;
		other = cluster_find(c, old->nodes[old->way[slot] - 1].id, CLUSTER_ID_LEN);
		if (other == c->nr_nodes || other == c->self ||
		    (!cluster_owns(c, slot) && c->owner[slot] != other + 1))
			continue;
		cluster_set_way(c, slot, other + 1);
		c->in_doubt[slot] = old->in_doubt[slot];
	}
}

/* ---- the own file ---- */

static char *join(const char *a, const char *b, const char *c)
{
	size_t bytes = strlen(a) + strlen(b) + strlen(c) + 1;
	char *text = mem_alloc(bytes);

	snprintf(text, bytes, "%s%s%s", a, b, c);
	return text;
}

char *cluster_own_path(const char *path, const char *id)
{
	return join(path, ".", id);
}

struct cluster *cluster_load_given(const char *path, const char *id, char *why, size_t why_bytes)
{
	struct cluster *c = cluster_load(path, id, why, why_bytes);

	if (!c || !c->nr_ways)
		return c;
	snprintf(why, why_bytes, "%s: slots on their way belong in %s.%s only", path, path, id);
	cluster_free(c);
	return NULL;
}

struct cluster *cluster_load_newest(const char *path, const char *id, enum cluster_own *which,
				    char *why, size_t why_bytes)
{
	struct cluster *given = cluster_load_given(path, id, why, why_bytes), *own = NULL;
	char *own_path = cluster_own_path(path, id), reason[200];

	*which = CLUSTER_OWN_SAME;
	if (given && !access(own_path, F_OK)) {
		own = cluster_load(own_path, id, why, why_bytes);
		if (!own) {
			cluster_free(given);
			given = NULL;
		}
	}
	mem_free(own_path);
	if (!own)
		return given;
	if (own->epoch < given->epoch) {
		if (!cluster_follows(given, own, reason, sizeof(reason))) {
			snprintf(why, why_bytes, "%s: %s", path, reason);
			cluster_free(given);
			cluster_free(own);
			return NULL;
		}
		if (cluster_is_own(own))
			*which = CLUSTER_OWN_OLDER;
		cluster_keep_ways(given, own);
		cluster_free(own);
		return given;
	}
	if (!cluster_is_same(own, given))
		*which = CLUSTER_OWN_COUNTS;
	cluster_free(given);
	return own;
}

/* The ranges at *@at are those of the node, and then behind them. */
static void write_line(FILE *file, const struct cluster *c, uint32_t node,
		       const struct cluster_range **at)
{
	const struct cluster_node *n = &c->nodes[node];

	fprintf(file, "%s %s:%u", n->id, n->host, n->port);
	for (; (*at)->node == node; ++*at)
		if ((*at)->last > (*at)->first)
			fprintf(file, " %u-%u", (*at)->first, (*at)->last);
		else
			fprintf(file, " %u", (*at)->first);
	for (uint32_t slot = 0; slot < OKV_NR_SLOTS && node == c->self; slot++)
		if (c->way[slot])
			fprintf(file, " [%u%s%s]", slot, cluster_owns(c, slot) ? "->-" : "-<-",
				c->nodes[c->way[slot] - 1].id);
	fputc('\n', file);
}

static bool write_all(FILE *file, const struct cluster *c)
{
	struct cluster_range *ranges = cluster_ranges(c);
	const struct cluster_range *at = ranges;

	fprintf(file, "# octokvd writes this: the map as this node knows it.\nepoch %" PRIu64,
		c->epoch);
	if (c->since != c->epoch)
		fprintf(file, " since %" PRIu64, c->since);
	fputc('\n', file);
	for (uint32_t i = 0; i < c->nr_nodes; i++)
		write_line(file, c, i, &at);
	mem_free(ranges);
	return !fflush(file) && !ferror(file) && !fsync(fileno(file));
}

static bool sync_folder(const char *path)
{
	char *copy = join(path, "", "");
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC), error;

	mem_free(copy);
	if (fd < 0)
		return false;
	error = fsync(fd);
	close(fd);
	return !error;
}

int cluster_save(const struct cluster *c, const char *path, char *why, size_t why_bytes)
{
	char *fresh = join(path, ".", "new");
	FILE *file = fopen(fresh, "we");
	bool is_good = file && write_all(file, c);
	int error = errno;

	if (file)
		fclose(file);
	if (is_good && (rename(fresh, path) || !sync_folder(path))) {
		is_good = false;
		error = errno;
	}
	if (!is_good)
		snprintf(why, why_bytes, "%s: %s", path, strerror(error));
	mem_free(fresh);
	return is_good ? 0 : -1;
}
