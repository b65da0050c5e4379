/* SPDX-License-Identifier: GPL-2.0 */
/* keys.h - commands about keys whose partitions are known */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "world.h"

/* Two keys of one partition, and one of another. */
static char a[8], b[8], other[8];

static uint32_t partition_of(const struct world *world, const char *key)
{
	uint16_t tenant = world->tenants.list[0]->id;

	return okv_store_partition_of(world->worker.store,
				      okv_store_hash(world->worker.store, tenant, key,
						     strlen(key)));
}

static void find_keys(const struct world *world)
{
	strcpy(a, "k0");
	b[0] = other[0] = 0;
	for (uint32_t i = 1; !b[0] || !other[0]; i++) {
		char key[8], *to;

		snprintf(key, sizeof(key), "k%u", i);
		to = partition_of(world, key) == partition_of(world, a) ? b : other;
		if (!to[0])
			strcpy(to, key);
		EXPECT(i < 1000);
	}
}

/* Say what @format makes of keys; and hear the reply. */
#define SAY(format, ...)								\
	do {										\
		char line[200];								\
		snprintf(line, sizeof(line), format "\r\n", __VA_ARGS__);		\
		say(world.c, line);							\
	} while (0)
#define ASK(wanted, format, ...)							\
	do {										\
		SAY(format, __VA_ARGS__);						\
		HEAR(wanted);								\
	} while (0)
#define QUEUED "+QUEUED\r\n"

#endif
