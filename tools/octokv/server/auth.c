// SPDX-License-Identifier: GPL-2.0
/* auth.c - passwords that clients give: see auth.h */
#include <arpa/inet.h>
#include <sodium.h>
#include <stdio.h>

#include "auth.h"
#include "command.h"
#include "store/mem.h"
#include "tenant.h"

enum {
	NR_BUCKETS	= 4096,
	SAY_AGAIN_NS	= 1000000000,
	MILLION		= 1000000,
};

/* Of the thread that checks. A bucket has millionths of wrong passwords that may still come. */
static struct {
	struct { uint64_t filled_ns; uint32_t tokens_ppm; } buckets[NR_BUCKETS];
	uint8_t key[crypto_shorthash_KEYBYTES];
	bool has_key;
	uint64_t said_ns;
	uint32_t nr_unsaid;
} checker;

/* ---- in the thread that checks ---- */

static uint32_t bucket_of(const struct conn *c)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool is_v4 = !memcmp(c->address, mapped, sizeof(mapped));
	uint64_t hash;

	if (!checker.has_key)
		crypto_shorthash_keygen(checker.key);
	checker.has_key = true;
	crypto_shorthash((uint8_t *)&hash, c->address, is_v4 ? sizeof(c->address) : 8, checker.key);
	return hash % NR_BUCKETS;
}

/* May the address give another password? */
static bool has_token(uint32_t bucket, uint64_t now_ns)
{
	uint64_t passed_us = (now_ns - checker.buckets[bucket].filled_ns) / 1000;
	uint64_t ppm = checker.buckets[bucket].tokens_ppm + passed_us * AUTH_WRONG_PER_S;

	if (!checker.buckets[bucket].filled_ns || ppm > (uint64_t)AUTH_WRONG_BURST * MILLION)
		ppm = (uint64_t)AUTH_WRONG_BURST * MILLION;
	checker.buckets[bucket].filled_ns = now_ns;
	checker.buckets[bucket].tokens_ppm = ppm;
	return ppm >= MILLION;
}

/* One line a second at most. */
static void say_wrong(const struct auth *a)
{
	char address[INET6_ADDRSTRLEN] = "?";

	checker.nr_unsaid++;
	if (checker.said_ns && a->now_ns - checker.said_ns < SAY_AGAIN_NS)
		return;
	inet_ntop(AF_INET6, a->request->conn->address, address, sizeof(address));
	fprintf(stderr, "octokvd: %u wrong passwords, the last one from %s for %s%s\n",
		checker.nr_unsaid, address, a->tenant ? "user " : "a user that does not exist",
		a->tenant ? a->tenant->name : "");
	checker.nr_unsaid = 0;
	checker.said_ns = a->now_ns;
}

bool auth_check(struct kv_msg *msg)
{
	struct auth *a = (struct auth *)msg;
	const struct request *r = a->request;
	struct tenants *t = r->conn->worker->server->tenants;
	uint32_t bucket = bucket_of(r->conn);

	if (!has_token(bucket, a->now_ns)) {
		a->verdict = AUTH_TOO_MANY;
		checker.nr_unsaid++;
		return true;
	}
	/* A wrong name takes as long as a wrong password. */
	if (tenant_verify(t, a->tenant ? a->tenant : t->list[0], req_arg(r, a->arg),
			  req_len(r, a->arg)) && a->tenant) {
		a->verdict = AUTH_RIGHT;
	} else {
		a->verdict = AUTH_WRONG;
		checker.buckets[bucket].tokens_ppm -= MILLION;
		say_wrong(a);
	}
	return false;
}

/* ---- at home ---- */

static void settle(struct request *r)
{
	struct auth *a = r->auth;
	struct conn *c = r->conn;

	if (a->tenant && a->tenant->is_gone)
		a->verdict = AUTH_WRONG;
	if (a->verdict != AUTH_RIGHT) {
		worker_count(c->worker, COUNT_WRONG_PASSWORDS, 1);
		c->closing |= ++c->nr_wrong_passwords >= MAX_WRONG_PASSWORDS;
		request_fail(r, a->verdict == AUTH_WRONG ?
			     "WRONGPASS invalid username-password pair or user is disabled." :
			     "ERR too many wrong passwords from this address: try again later");
	} else if (c->first != r && a->tenant != c->tenant) {
		request_fail(r, "ERR cannot become another user while requests are under way");
	} else if (!tenant_enter(c, a->tenant)) {
		request_fail(r, "ERR max number of clients of this user reached");
	} else {
		a->then(r);
	}
}

static void check_done(struct worker *home, struct kv_msg *msg)
{
	(void)home;
	settle(((struct auth *)msg)->request);
}

void auth_begin(struct request *r, const char *name, size_t name_len, uint32_t i,
		void (*then)(struct request *r))
{
	struct worker *w = r->conn->worker;
	struct tenants *t = w->server->tenants;
	struct auth *a;

	if (!t->have_users) {
		request_fail(r, "ERR AUTH called without any users configured: there is no "
				"password to give");
		return;
	}
	a = r->auth = mem_zalloc(sizeof(*a));
	a->msg.done = check_done;
	a->msg.home = w->id;
	a->msg.returning = true;
	a->request = r;
	a->tenant = tenants_find(t, name, name_len);
	a->arg = i;
	a->now_ns = w->now_ns;
	a->then = then;
	if (a->tenant && tenant_knows(t, a->tenant, req_arg(r, i), req_len(r, i))) {
		a->verdict = AUTH_RIGHT;
		settle(r);
	} else if (!w->check) {
		auth_check(&a->msg);
		settle(r);
	} else if (!w->check(w, &a->msg)) {
		r->conn->closing = true;
		request_fail(r, "ERR too many passwords to check: try again later");
	}
}
