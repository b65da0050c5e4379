// SPDX-License-Identifier: GPL-2.0
/* map.c - the file with the map of a cluster; map.h says what is in it */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	for (uint32_t i = 0; i < c->nr_nodes; i++)
		if (!strcmp(c->nodes[i].id, id))
			return "an ID is there twice";
	if (c->nr_nodes == CLUSTER_NODES_MAX)
		return "there are too many nodes: 1000 at most";
	c->nodes = mem_grow(c->nodes, (c->nr_nodes + 1) * sizeof(*c->nodes));
	c->nodes[c->nr_nodes++] = node;
	word = strtok(NULL, spaces);
	c->nr_serving += word != NULL;
	for (; !why && word; word = strtok(NULL, spaces))
		why = add_slots(c, word);
	return why;
}

static const char *set_epoch(struct cluster *c, char *line)
{
	const char *name = strtok(line, spaces), *value = strtok(NULL, spaces);
	char *end;

	if (strcmp(name, "epoch") || !value || strtok(NULL, spaces) ||
	    !number(value, INT64_MAX, &c->epoch, &end) || *end || !c->epoch)
		return "the first line is \"epoch\" and the number of the map";
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
	while (c->self < c->nr_nodes && strcmp(c->nodes[c->self].id, id))
		c->self++;
	return c->self < c->nr_nodes;
}

struct cluster *cluster_load(const char *path, const char *id, char *why, size_t why_bytes)
{
	FILE *file = fopen(path, "re");
	struct cluster *c;
	const char *wrong;
	int nr = 0;

	if (!file) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		return NULL;
	}
	c = mem_zalloc(sizeof(*c));
	wrong = read_lines(c, file, &nr);
	fclose(file);
	if (wrong)
		snprintf(why, why_bytes, "%s:%d: %s", path, nr, wrong);
	else if (!find_self(c, id))
		snprintf(why, why_bytes, "%s: the ID of this store is not there: %s", path, id);
	else
		return c;
	cluster_free(c);
	return NULL;
}

void cluster_free(struct cluster *c)
{
	if (c)
		mem_free(c->nodes);
	mem_free(c);
}

bool cluster_is_same(const struct cluster *a, const struct cluster *b)
{
	return a->epoch == b->epoch && a->nr_nodes == b->nr_nodes &&
	       !memcmp(a->nodes, b->nodes, a->nr_nodes * sizeof(*a->nodes)) &&
	       !memcmp(a->owner, b->owner, sizeof(a->owner));
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

uint32_t cluster_nr_assigned(const struct cluster *c)
{
	uint32_t nr = 0;

	for (uint32_t slot = 0; slot < OKV_NR_SLOTS; slot++)
		nr += c->owner[slot] != 0;
	return nr;
}
