// SPDX-License-Identifier: GPL-2.0
/*
 * tenant.c - the users file, passwords, bounds; tenant.h says what they are
 *
 * A password is checked with small parameters of Argon2id (one pass over 1 MiB), as clients wait
 * for the one thread that does it (auth.h). A connection may give three wrong passwords. Clients of
 * a pool give the same password again and again: a keyed hash, whose key lives as long as the
 * process, remembers the last right one of each tenant.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "store/mem.h"
#include "tenant.h"

enum {
	DEFAULT_WEIGHT	= 100,
	MAX_WEIGHT	= 10000,
	IOPRIO_BE	= 2 << 13,
	IOPRIO_LEVEL	= 4,
	LINE_BYTES	= 512,
	DIGEST_BYTES	= 16,
};

_Static_assert(TENANT_HASH_BYTES >= crypto_pwhash_STRBYTES, "a hash fits");

/* ---- the file ---- */

static uint16_t tag(uint16_t id)
{
	return IOPRIO_BE | id << 3 | IOPRIO_LEVEL;
}

static bool parse_size(const char *text, uint64_t *value)
{
	static const char units[] = "kmgt";
	const char *unit;
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno || end == text || !isdigit((unsigned char)text[0]))
		return false;
	if (!*end)
		return true;
	unit = strchr(units, tolower((unsigned char)*end));
	if (!unit || end[1] || *value > UINT64_MAX >> 10 * (unit - units + 1))
		return false;
	*value <<= 10 * (unit - units + 1);
	return true;
}

static const char *parse_option(struct tenant *tenant, char *word)
{
	char *equals = strchr(word, '=');
	uint64_t value;

	if (!strcmp(word, "admin")) {
		tenant->is_admin = true;
		return NULL;
	}
	if (!strcmp(word, "compress")) {
		tenant->compresses = true;
		return NULL;
	}
	if (!equals || !parse_size(equals + 1, &value))
		return "an option is neither NAME=NUMBER nor admin nor compress";
	*equals = 0;
	if (!strcmp(word, "bytes"))
		tenant->max_bytes = value;
	else if (!strcmp(word, "keys"))
		tenant->max_keys = value;
	else if (!strcmp(word, "connections") && value <= UINT32_MAX)
		tenant->max_connections = value;
	else if (!strcmp(word, "requests") && value <= UINT32_MAX)
		tenant->max_requests = value;
	else if (!strcmp(word, "weight") && value >= 1 && value <= MAX_WEIGHT)
		tenant->weight = value;
	else
		return "an option is unknown or out of range";
	return NULL;
}

static const char *parse_line(char *line, struct tenant *tenant)
{
	char *name = strtok(line, " \t\r\n"), *id = strtok(NULL, " \t\r\n"),
	     *hash = strtok(NULL, " \t\r\n"), *word;
	const char *why = NULL;
	uint64_t number;

	if (!hash)
		return "a line is NAME ID HASH and options";
	if (strlen(name) >= sizeof(tenant->name) || strlen(hash) >= sizeof(tenant->hash))
		return "a name or a hash is too long";
	if (!parse_size(id, &number) || !number || number > MAX_TENANT_ID)
		return "an ID is a number from 1 to 1023";
	if (crypto_pwhash_str_needs_rehash(hash, crypto_pwhash_OPSLIMIT_MIN,
					   crypto_pwhash_MEMLIMIT_MIN) < 0)
		return "the hash is not one that octokvd --hash-password prints";
	strcpy(tenant->name, name);
	strcpy(tenant->hash, hash);
	tenant->id = number;
	tenant->weight = DEFAULT_WEIGHT;
	while (!why && (word = strtok(NULL, " \t\r\n")))
		why = parse_option(tenant, word);
	return why;
}

static void add(struct tenants *t, const struct tenant *tenant)
{
	t->list = mem_grow(t->list, (t->nr + 1) * sizeof(*t->list));
	t->list[t->nr] = mem_alloc(sizeof(*tenant));
	*t->list[t->nr++] = *tenant;
}

static const char *add_line(struct tenants *t, char *line)
{
	struct tenant tenant = { 0 };
	const char *why = parse_line(line, &tenant);

	for (uint32_t i = 0; !why && i < t->nr; i++)
		if (t->list[i]->id == tenant.id || !strcmp(t->list[i]->name, tenant.name))
			why = "a name or an ID is there twice";
	if (why)
		return why;
	add(t, &tenant);
	return NULL;
}

static int load_file(struct tenants *t, const char *path, char *why, size_t why_bytes)
{
	FILE *file = fopen(path, "re");
	const char *wrong = NULL;
	crypto_generichash_state lines;
	uint8_t digest[DIGEST_BYTES];
	char line[LINE_BYTES];
	int number = 0;

	if (!file) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		return -1;
	}
	crypto_generichash_init(&lines, NULL, 0, sizeof(digest));
	while (!wrong && fgets(line, sizeof(line), file)) {
		number++;
		if (!strchr(line, '\n') && !feof(file))
			wrong = "a line is too long";
		if (wrong || !line[strspn(line, " \t\r\n")] || line[strspn(line, " \t")] == '#')
			continue;
		crypto_generichash_update(&lines, (const uint8_t *)line, strcspn(line, "\r\n"));
		crypto_generichash_update(&lines, (const uint8_t *)"\n", 1);
		wrong = add_line(t, line);
	}
	fclose(file);
	crypto_generichash_final(&lines, digest, sizeof(digest));
	memcpy(&t->digest, digest, sizeof(t->digest));
	if (!wrong && !t->nr)
		wrong = "there is no user in it";
	if (!wrong)
		return 0;
	snprintf(why, why_bytes, "%s:%d: %s", path, number, wrong);
	return -1;
}

int tenants_load(struct tenants *t, const char *path, char *why, size_t why_bytes)
{
	*t = (struct tenants){ .have_users = path };
	if (sodium_init() < 0) {
		snprintf(why, why_bytes,
			 "libsodium cannot start: there is no source of random numbers");
		return -1;
	}
	randombytes_buf(t->key, sizeof(t->key));
	if (path)
		return load_file(t, path, why, why_bytes);
	add(t, &(struct tenant){
		.name = "default", .weight = DEFAULT_WEIGHT, .is_admin = true,
	});
	return 0;
}

void tenants_set_tags(struct tenants *t, bool have_tags)
{
	t->have_tags = have_tags;
	for (uint32_t i = 0; i < t->nr; i++)
		t->list[i]->ioprio = have_tags ? tag(t->list[i]->id) : 0;
}

void tenants_share_keys(struct tenants *t, uint64_t nr_keys)
{
	uint64_t nr_given = 0, nr_sharing = 0;

	for (uint32_t i = 0; i < t->nr; i++) {
		nr_given += t->list[i]->max_keys;
		nr_sharing += !t->list[i]->max_keys;
	}
	for (uint32_t i = 0; i < t->nr && t->nr > 1; i++) {
		if (!t->list[i]->max_keys)
			t->list[i]->max_keys =
				nr_given < nr_keys ? (nr_keys - nr_given) / nr_sharing + 1 : 1;
	}
}

void tenants_free(struct tenants *t)
{
	struct tenant *tenant;

	for (uint32_t i = 0; i < t->nr; i++)
		mem_free(t->list[i]);
	while ((tenant = t->gone)) {
		t->gone = tenant->next_gone;
		mem_free(tenant);
	}
	mem_free(t->list);
	sodium_memzero(t, sizeof(*t));
}

/* ---- another users file ---- */

/* Takes the user with that ID out of @t. */
static struct tenant *take_out(struct tenants *t, uint16_t id)
{
	struct tenant **at = &t->gone, *tenant;

	for (uint32_t i = 0; i < t->nr; i++) {
		tenant = t->list[i];
		if (tenant && tenant->id == id) {
			t->list[i] = NULL;
			return tenant;
		}
	}
	while (*at && (*at)->id != id)
		at = &(*at)->next_gone;
	tenant = *at;
	if (tenant)
		*at = tenant->next_gone;
	return tenant;
}

/* What the file says of a user; the rest is what the user does. */
static void set(struct tenant *tenant, const struct tenant *from)
{
	if (strcmp(tenant->hash, from->hash))
		memset(tenant->known, 0, sizeof(tenant->known));
	strcpy(tenant->name, from->name);
	strcpy(tenant->hash, from->hash);
	tenant->weight = from->weight;
	tenant->max_bytes = from->max_bytes;
	tenant->max_keys = from->max_keys;
	tenant->max_connections = from->max_connections;
	tenant->max_requests = from->max_requests;
	tenant->is_admin = from->is_admin;
	tenant->compresses = from->compresses;
	tenant->is_gone = false;
}

void tenants_replace(struct tenants *t, struct tenants *fresh)
{
	for (uint32_t i = 0; i < fresh->nr; i++) {
		struct tenant *tenant = take_out(t, fresh->list[i]->id);

		if (!tenant)
			continue;
		set(tenant, fresh->list[i]);
		mem_free(fresh->list[i]);
		fresh->list[i] = tenant;
	}
	for (uint32_t i = 0; i < t->nr; i++) {
		if (!t->list[i])
			continue;
		t->list[i]->is_gone = true;
		t->list[i]->next_gone = t->gone;
		t->gone = t->list[i];
	}
	mem_free(t->list);
	t->list = fresh->list;
	t->nr = fresh->nr;
	t->digest = fresh->digest;
	fresh->list = NULL;
	fresh->nr = 0;
	tenants_set_tags(t, t->have_tags);
}

struct tenant *tenants_default(struct tenants *t)
{
	return t->have_users ? NULL : t->list[0];
}

struct tenant *tenants_find(struct tenants *t, const char *name, size_t len)
{
	for (uint32_t i = 0; i < t->nr; i++)
		if (strlen(t->list[i]->name) == len && !memcmp(t->list[i]->name, name, len))
			return t->list[i];
	return NULL;
}

struct tenant *tenants_find_id(struct tenants *t, int64_t id)
{
	for (uint32_t i = 0; i < t->nr; i++)
		if (t->list[i]->id == id)
			return t->list[i];
	return NULL;
}

/* ---- passwords ---- */

/*
 * Workers may learn a password at the same time. Both write the same 16 bytes, or those of two
 * passwords that are both right (the file has one). So the bytes are moved as two relaxed words: a
 * mixture of both is only not recognised.
 */
static bool known_compare(const struct tenant *tenant, const uint8_t *digest)
{
	const uint64_t *known = (const uint64_t *)tenant->known;
	uint64_t copy[2] = { __atomic_load_n(&known[0], __ATOMIC_RELAXED),
			     __atomic_load_n(&known[1], __ATOMIC_RELAXED) };

	return !sodium_memcmp(copy, digest, sizeof(copy));
}

static void known_set(struct tenant *tenant, const uint8_t *digest)
{
	uint64_t *known = (uint64_t *)tenant->known, copy[2];

	memcpy(copy, digest, sizeof(copy));
	__atomic_store_n(&known[0], copy[0], __ATOMIC_RELAXED);
	__atomic_store_n(&known[1], copy[1], __ATOMIC_RELAXED);
}

static void digest_of(const struct tenants *t, const char *password, size_t len, uint8_t *digest)
{
	crypto_generichash(digest, DIGEST_BYTES, (const uint8_t *)password, len, t->key,
			   sizeof(t->key));
}

bool tenant_knows(const struct tenants *t, const struct tenant *tenant, const char *password,
		  size_t len)
{
	uint8_t digest[DIGEST_BYTES];

	digest_of(t, password, len, digest);
	return known_compare(tenant, digest);
}

bool tenant_verify(struct tenants *t, struct tenant *tenant, const char *password, size_t len)
{
	uint8_t digest[DIGEST_BYTES];

	digest_of(t, password, len, digest);
	if (crypto_pwhash_str_verify(tenant->hash, password, len))
		return false;
	known_set(tenant, digest);
	return true;
}

int tenant_hash_password(const char *password, char *hash, size_t hash_bytes)
{
	char text[crypto_pwhash_STRBYTES];

	if (sodium_init() < 0 || hash_bytes < sizeof(text) ||
	    crypto_pwhash_str(text, password, strlen(password), 1, 1 << 20))
		return -1;
	memcpy(hash, text, sizeof(text));
	return 0;
}

/* ---- bounds ---- */

static bool take(uint32_t *counter, uint32_t bound)
{
	if (__atomic_add_fetch(counter, 1, __ATOMIC_RELAXED) <= bound || !bound)
		return true;
	__atomic_sub_fetch(counter, 1, __ATOMIC_RELAXED);
	return false;
}

bool tenant_enter(struct conn *c, struct tenant *tenant)
{
	if (tenant == c->tenant)
		return true;
	if (tenant && !take(&tenant->nr_connections, tenant->max_connections))
		return false;
	tenant_leave(c);
	c->tenant = tenant;
	tenant_count_stranger(c, !tenant);
	return true;
}

void tenant_count_stranger(struct conn *c, bool is_stranger)
{
	if (c->is_stranger == is_stranger)
		return;
	c->is_stranger = is_stranger;
	c->stranger_since_ns = c->worker->now_ns;
	__atomic_add_fetch(&c->worker->server->nr_strangers, is_stranger ? 1 : -1,
			   __ATOMIC_RELAXED);
}

void tenant_leave(struct conn *c)
{
	tenant_request_none(c);
	if (c->tenant)
		__atomic_sub_fetch(&c->tenant->nr_connections, 1, __ATOMIC_RELAXED);
	c->tenant = NULL;
}

static bool take_token(struct tenant *tenant)
{
	return take(&tenant->nr_requests, tenant->max_requests);
}

static void set_parked(struct conn *c, struct tenant_queue *q, bool parked)
{
	c->parked = parked;
	c->worker->nr_parked += parked ? 1 : -1;
	__atomic_store_n(&q->nr, q->nr + (parked ? 1 : -1), __ATOMIC_RELAXED);
}

static void park(struct conn *c, struct tenant_queue *q)
{
	c->next_parked = NULL;
	c->parked_ns = c->worker->now_ns;
	if (q->first)
		q->last->next_parked = c;
	else
		q->first = c;
	q->last = c;
	set_parked(c, q, true);
}

static void unpark(struct conn *c, struct tenant_queue *q)
{
	struct conn *before = NULL;

	for (struct conn *at = q->first; at != c; at = at->next_parked)
		before = at;
	if (before)
		before->next_parked = c->next_parked;
	else
		q->first = c->next_parked;
	if (q->last == c)
		q->last = before;
	set_parked(c, q, false);
}

bool tenant_request_begin(struct conn *c)
{
	struct tenant *tenant = c->tenant;
	struct tenant_queue *q;

	if (!tenant || !tenant->max_requests || c->has_token)
		return true;
	q = &tenant->parked[c->worker->id];
	/* Those that wait go first, also if a token has just come back. */
	c->has_token = !q->first && take_token(tenant);
	if (!c->has_token)
		park(c, q);
	return c->has_token;
}

/* The first connection that waits at @w has a token now. */
static void give_token(struct worker *w, struct tenant *tenant)
{
	struct conn *c = tenant->parked[w->id].first;

	unpark(c, &tenant->parked[w->id]);
	c->has_token = true;
	w->ready(w, c);
}

/* A token on its way to another worker. */
struct token_msg {
	struct kv_msg msg;
	struct tenant *tenant;
};

static void token_run(struct worker *at, struct kv_msg *msg)
{
	struct tenant *tenant = ((struct token_msg *)msg)->tenant;

	if (tenant->parked[at->id].first)
		give_token(at, tenant);
	else
		tenant_request_end(at, tenant);
	worker_return(at, msg);
}

static void token_done(struct worker *home, struct kv_msg *msg)
{
	(void)home;
	mem_free(msg);
}

static void send_token(struct worker *w, struct tenant *tenant, uint32_t to)
{
	struct token_msg *msg = mem_zalloc(sizeof(*msg));

	*msg = (struct token_msg){
		.msg = { .run = token_run, .done = token_done }, .tenant = tenant,
	};
	worker_send(w, &msg->msg, to);
}

void tenant_request_end(struct worker *w, struct tenant *tenant)
{
	uint32_t nr = w->server->nr_workers;

	for (uint32_t i = 1; i < nr; i++) {
		uint32_t to = (w->id + i) % nr;

		if (__atomic_load_n(&tenant->parked[to].nr, __ATOMIC_RELAXED)) {
			send_token(w, tenant, to);
			return;
		}
	}
	if (tenant->parked[w->id].first)
		give_token(w, tenant);
	else
		__atomic_sub_fetch(&tenant->nr_requests, 1, __ATOMIC_RELAXED);
}

void tenant_request_none(struct conn *c)
{
	if (c->parked)
		unpark(c, &c->tenant->parked[c->worker->id]);
	c->parked_ns = 0;
	if (c->has_token) {
		c->has_token = false;
		tenant_request_end(c->worker, c->tenant);
	}
}

static void wake(struct worker *w, struct tenant *tenant)
{
	while (tenant->parked[w->id].first && take_token(tenant))
		give_token(w, tenant);
}

void tenants_wake(struct worker *w)
{
	struct tenants *t = w->server->tenants;

	for (uint32_t i = 0; i < t->nr; i++)
		wake(w, t->list[i]);
	for (struct tenant *gone = t->gone; gone; gone = gone->next_gone)
		wake(w, gone);
}

/*
 * Reads what is set aside before what is used: a write that has let go is counted there. Pairs with
 * the release in tenant_let_go().
 */
bool tenant_hold_bytes(struct tenant *tenant, uint32_t nr_workers, uint64_t nr_bytes)
{
	uint64_t nr_held = __atomic_add_fetch(&tenant->nr_held_bytes, nr_bytes, __ATOMIC_ACQ_REL);
	struct tenant_usage sum;

	tenant_sum(tenant, nr_workers, &sum);
	if (!nr_bytes || !tenant->max_bytes || sum.nr_bytes + nr_held <= tenant->max_bytes)
		return true;
	tenant_let_go(tenant, nr_bytes, false);
	return false;
}

bool tenant_hold_key(struct tenant *tenant, uint32_t nr_workers)
{
	uint64_t nr_held = __atomic_add_fetch(&tenant->nr_held_keys, 1, __ATOMIC_ACQ_REL);
	struct tenant_usage sum;

	tenant_sum(tenant, nr_workers, &sum);
	if (sum.nr_keys + nr_held <= tenant->max_keys)
		return true;
	tenant_let_go(tenant, 0, true);
	return false;
}

/*
 * Pairs with the acquires in tenant_hold_*(): a reader that does not see it set aside sees it used.
 */
void tenant_let_go(struct tenant *tenant, uint64_t nr_bytes, bool key)
{
	__atomic_sub_fetch(&tenant->nr_held_bytes, nr_bytes, __ATOMIC_ACQ_REL);
	__atomic_sub_fetch(&tenant->nr_held_keys, key, __ATOMIC_ACQ_REL);
}

static void publish(struct worker *w, struct tenant *tenant)
{
	struct tenant_usage *usage = &tenant->usage[w->id];
	uint64_t nr_bytes, nr_keys;

	okv_store_tenant_usage(w->store, tenant->id, &nr_bytes, &nr_keys);
	__atomic_store_n(&usage->nr_bytes, nr_bytes, __ATOMIC_RELAXED);
	__atomic_store_n(&usage->nr_keys, nr_keys, __ATOMIC_RELAXED);
}

bool tenant_compresses(const struct worker *w, const struct tenant *tenant)
{
	return tenant->compresses || w->server->tenants->compress;
}

void tenants_publish(struct worker *w)
{
	struct tenants *t = w->server->tenants;

	for (uint32_t i = 0; i < t->nr; i++)
		publish(w, t->list[i]);
}

void tenant_publish(struct worker *w, struct tenant *tenant)
{
	/* For the page of metrics the next tick is soon enough. */
	if (tenant->max_bytes || tenant->max_keys)
		publish(w, tenant);
}

void tenant_sum(const struct tenant *tenant, uint32_t nr_workers, struct tenant_usage *sum)
{
	*sum = (struct tenant_usage){ 0 };
	for (uint32_t i = 0; i < nr_workers; i++) {
		sum->nr_bytes += __atomic_load_n(&tenant->usage[i].nr_bytes, __ATOMIC_RELAXED);
		sum->nr_keys += __atomic_load_n(&tenant->usage[i].nr_keys, __ATOMIC_RELAXED);
		sum->nr_requests +=
			__atomic_load_n(&tenant->usage[i].nr_requests, __ATOMIC_RELAXED);
	}
}

/* ---- weights for the scheduler ---- */

static void weights_path(const char *folder, char *path, size_t bytes)
{
	snprintf(path, bytes, "%s/queue/iosched/weights", folder);
}

/* What a file with lines of an ioprio and a weight says; it has no line for the default. */
static uint32_t weight_in(FILE *file, uint16_t ioprio)
{
	unsigned int number, weight;

	rewind(file);
	while (fscanf(file, "%u %u", &number, &weight) == 2)
		if (number == ioprio)
			return weight;
	return DEFAULT_WEIGHT;
}

int tenants_weights_differ(const struct tenants *t, const char *folder, char *why, size_t why_bytes)
{
	int differ = 0;
	char path[512];
	FILE *file;

	weights_path(folder, path, sizeof(path));
	file = fopen(path, "re");
	if (!file) {
		snprintf(why, why_bytes, "%s: %s", path, strerror(errno));
		return -1;
	}
	for (uint32_t i = 0; i < t->nr && !differ; i++)
		differ = weight_in(file, tag(t->list[i]->id)) != t->list[i]->weight;
	fclose(file);
	return differ;
}

int tenants_write_weights(const struct tenants *t, const char *folder, char *why, size_t why_bytes)
{
	char path[512], line[32];

	weights_path(folder, path, sizeof(path));
	for (uint32_t i = 0; i < t->nr; i++) {
		int len = snprintf(line, sizeof(line), "%u %u\n", tag(t->list[i]->id),
				   t->list[i]->weight);
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		bool good = fd >= 0 && write(fd, line, len) == len;
		int error = errno;

		if (fd >= 0)
			close(fd);
		if (!good) {
			snprintf(why, why_bytes, "%s: %s (mq-mqfq with flow=ioprio takes weights)",
				 path, strerror(error));
			return -1;
		}
	}
	return 0;
}
