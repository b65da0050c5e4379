// SPDX-License-Identifier: GPL-2.0
/*
 * users.c - connections of a user with a bound on requests, and users that change
 *
 * Connections that have many requests to send get the user's token in turn. One that goes, or asks
 * for nothing, passes the token on. What is under way when the bounds change is counted rightly.
 * Only an admin sees what others do.
 */
#include "world.h"

enum { NR_CONNS = 5, NR_ROUNDS = 20 };

static const char get[] = "GET k\r\n";

/* Feeds those that are ready and have more to ask; returns the number of requests. */
static uint32_t feed(struct conn **conns, uint32_t *nr_asked)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < NR_CONNS; i++) {
		while (conns[i] && !conns[i]->parked && conn_wants_input(conns[i]) &&
		       conn_feed(conns[i], get, sizeof(get) - 1)) {
			nr_asked[i]++;
			nr++;
		}
	}
	return nr;
}

static void test_turns(void)
{
	char *path = write_users("requests=2");
	uint32_t nr_asked[NR_CONNS] = { 0 };
	struct conn *conns[NR_CONNS];
	struct world world;
	struct tenant *ann;

	open_world(&world, path);
	ann = world.tenants.list[0];
	for (uint32_t i = 0; i < NR_CONNS; i++) {
		conns[i] = connect_one(&world);
		say(conns[i], "AUTH ann secret\r\n");
		conn_sent(conns[i], conns[i]->out.nr_bytes);
	}
	memstore_hold(world.worker.store, true);
	for (uint32_t round = 0; round < NR_ROUNDS; round++) {
		EXPECT(feed(conns, nr_asked) == 2 && ann->nr_requests == 2);
		EXPECT(world.worker.nr_parked == NR_CONNS);
		memstore_release_oldest(world.worker.store);
		memstore_release_oldest(world.worker.store);
		for (uint32_t i = 0; i < NR_CONNS; i++)
			conn_sent(conns[i], conns[i]->out.nr_bytes);
	}
	for (uint32_t i = 0; i < NR_CONNS; i++)
		EXPECT(nr_asked[i] + 2 >= 2 * NR_ROUNDS / NR_CONNS);
	/* Those that have the tokens now go. */
	for (uint32_t i = 0; i < NR_CONNS; i++) {
		if (conns[i]->has_token) {
			conn_kill(conns[i]);
			conns[i] = NULL;
		}
	}
	EXPECT(feed(conns, nr_asked) == 2);
	memstore_hold(world.worker.store, false);
	memstore_release(world.worker.store);
	for (uint32_t i = 0; i < NR_CONNS; i++)
		if (conns[i])
			conn_kill(conns[i]);
	EXPECT(!ann->nr_requests && !world.worker.nr_parked);
	close_world(&world);
	unlink(path);
	free(path);
}

static void reload(struct world *world, const char *options)
{
	char *path = write_users(options), why[256];
	struct tenants fresh;

	EXPECT(!tenants_load(&fresh, path, why, sizeof(why)));
	tenants_replace(&world->tenants, &fresh);
	tenants_free(&fresh);
	unlink(path);
	free(path);
}

static void test_change(void)
{
	char *path = write_users("requests=2"), *other;
	struct world world;
	struct tenants fresh;
	struct tenant *ann;
	char why[256];
	FILE *file;

	open_world(&world, path);
	ann = world.tenants.list[0];
	TALK("AUTH ann secret", "+OK\r\n");
	/* The bound goes while a request is counted, and comes while one is not. */
	memstore_hold(world.worker.store, true);
	say(world.c, "GET k\r\n");
	EXPECT(ann->nr_requests == 1);
	reload(&world, "");
	EXPECT(world.tenants.list[0] == ann && !ann->max_requests);
	memstore_release(world.worker.store);
	EXPECT(!ann->nr_requests);
	say(world.c, "GET k\r\n");
	reload(&world, "requests=1");
	memstore_release(world.worker.store);
	memstore_hold(world.worker.store, false);
	EXPECT(!ann->nr_requests);
	HEAR("$-1\r\n$-1\r\n");
	TALK("GET k", "$-1\r\n");
	/* ann goes, and comes back as the same user, with another name. */
	other = write_users("");
	file = fopen(other, "w");
	fprintf(file, "eve 3 %s\n", ann->hash);
	fclose(file);
	EXPECT(!tenants_load(&fresh, other, why, sizeof(why)));
	tenants_replace(&world.tenants, &fresh);
	EXPECT(ann->is_gone && !tenants_find(&world.tenants, "ann", 3));
	file = fopen(other, "w");
	fprintf(file, "anne 1 %s\n", ann->hash);
	fclose(file);
	EXPECT(!tenants_load(&fresh, other, why, sizeof(why)));
	tenants_replace(&world.tenants, &fresh);
	EXPECT(tenants_find(&world.tenants, "anne", 4) == ann && !ann->is_gone);
	EXPECT(ann->nr_connections == 1 && world.tenants.nr == 1);
	close_world(&world);
	unlink(other);
	free(other);
	unlink(path);
	free(path);
}

/* Of a users file with this text, in which %s is the hash of a password. */
__attribute__((format(printf, 1, 0)))
static uint64_t digest_of(const char *format, const char *hash)
{
	char path[] = "/tmp/users-XXXXXX", why[256];
	int fd = mkstemp(path);
	struct tenants t;
	uint64_t digest;

	EXPECT(fd >= 0 && dprintf(fd, format, hash) > 0 && !close(fd));
	EXPECT(!tenants_load(&t, path, why, sizeof(why)));
	digest = t.digest;
	tenants_free(&t);
	unlink(path);
	return digest;
}

static void test_digest(void)
{
	char *path = write_users("");
	struct world world;
	const char *hash;
	uint64_t digest;

	open_world(&world, path);
	hash = world.tenants.list[0]->hash;
	digest = digest_of("ann 1 %s\n", hash);
	EXPECT(digest && digest == digest_of("# Ann.\n\nann 1 %s\r\n", hash));
	EXPECT(digest != digest_of("ann 2 %s\n", hash));
	EXPECT(digest != digest_of("ann 1 %s weight=200\n", hash));
	EXPECT(digest != digest_of("ann 1 %1$s\nbob 2 %1$s\n", hash));
	/* A file that is read again, and none. */
	digest = world.tenants.digest;
	reload(&world, "weight=3");
	EXPECT(digest && world.tenants.digest && digest != world.tenants.digest);
	close_world(&world);
	open_world(&world, NULL);
	EXPECT(!world.tenants.digest);
	close_world(&world);
	unlink(path);
	free(path);
}

static bool says(struct conn *c, const char *word)
{
	char *text;
	bool found;

	say(c, "INFO\r\n");
	text = out_text(&c->out);
	found = strstr(text, word);
	conn_sent(c, c->out.nr_bytes);
	free(text);
	return found;
}

static void test_admin(void)
{
	char *path = write_users("");
	struct world world;

	open_world(&world, path);
	TALK("AUTH ann secret", "+OK\r\n");
	EXPECT(says(world.c, "tenant1:name=ann") && says(world.c, "health:ok"));
	EXPECT(!says(world.c, "bob") && !says(world.c, "keyspace_hits"));
	reload(&world, "admin");
	EXPECT(says(world.c, "bob") && says(world.c, "keyspace_hits"));
	EXPECT(!world.tenants.list[0]->ioprio);
	tenants_set_tags(&world.tenants, true);
	reload(&world, "");
	EXPECT(world.tenants.list[0]->ioprio == 16396);
	close_world(&world);
	unlink(path);
	free(path);
}

int main(void)
{
	test_admin();
	test_turns();
	test_change();
	test_digest();
	puts("ok server_users: connections get tokens in turn; users change");
	return 0;
}
