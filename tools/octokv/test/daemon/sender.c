// SPDX-License-Identifier: GPL-2.0
/*
 * sender.c - keys go to a node with TLS, and to no other one
 *
 * The other node is a thread here, with OpenSSL and a certificate of its own. It answers each line
 * that it reads, as a node answers each command, so a key is a line.
 */
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/cluster/secure.h"
#include "daemon/cluster/sender.h"
#include "server/clock.h"
#include "server/cluster/slots.h"
#include "test/test.h"

enum {
	NR_KEYS		= 5,
	NR_MANY		= 20000,
	ANSWER_BYTES	= 1000,
	BUFFER_BYTES	= 64 << 10,
	LONG_BYTES	= 8 << 20,
	TIME_MS		= 20000,
	SHORT_MS	= 300,
};

static char folder[] = "/tmp/sender-XXXXXX";

/**
 * struct node - the other one
 * @cert:		the name of its certificate, or NULL: it has no TLS
 * @asks:		for a certificate of this authority, or NULL: for none
 * @is_silent:		it reads and says nothing, and ends with the connection
 * @refuses:		with each answer
 * @nr_answered:	it closes after so many lines; 0: never
 * @answer_bytes:	of each answer
 * @nr_lines, @first:	what it was sent; of TLS, after the handshake
 */
struct node {
	const char *cert, *asks;
	bool is_silent, refuses;
	uint32_t nr_answered, answer_bytes;

	int listen_fd, fd;
	uint16_t port;
	pthread_t thread;
	SSL_CTX *context;
	SSL *ssl;
	uint32_t nr_lines;
	bool was_shown;
};

/* ---- certificates ---- */

static const char *path_of(const char *name, const char *ending)
{
	static char paths[4][128];
	static uint32_t nr;
	char *path = paths[nr++ % 4];

	snprintf(path, sizeof(*paths), "%s/%s.%s", folder, name, ending);
	return path;
}

static void sign(const char *name, const char *subject, const char *by, const char *names)
{
	char command[1024], more[256] = "";

	if (by)
		snprintf(more, sizeof(more), "-CA %s -CAkey %s -addext subjectAltName=%s",
			 path_of(by, "pem"), path_of(by, "key"), names);
	snprintf(command, sizeof(command), "openssl req -x509 -newkey ec -nodes -pkeyopt "
		 "ec_paramgen_curve:P-256 -keyout %s -out %s -subj /CN=%s -addext "
		 "basicConstraints=critical,CA:%s %s 2> /dev/null", path_of(name, "key"),
		 path_of(name, "pem"), subject, by ? "false" : "true", more);
	EXPECT(!system(command));
}

static struct tls_files files_of(const char *cert, const char *ca)
{
	return (struct tls_files){ .cert = path_of(cert, "pem"), .key = path_of(cert, "key"),
				   .cluster_ca = path_of(ca, "pem") };
}

static void use(const char *ca)
{
	struct tls_files files = files_of("ours", ca);
	char why[256];
	SSL_CTX *context = secure_read(&files, why, sizeof(why));

	EXPECT(context);
	secure_use(context);
	EXPECT(secure_is_on());
}

/* ---- the other node ---- */

static int node_read(struct node *n, char *to, int bytes)
{
	return n->ssl ? SSL_read(n->ssl, to, bytes) : read(n->fd, to, bytes);
}

static bool node_write(struct node *n, const char *text, int len)
{
	return (n->ssl ? SSL_write(n->ssl, text, len) : send(n->fd, text, len, MSG_NOSIGNAL)) ==
	       len;
}

static bool node_answer(struct node *n)
{
	char answer[ANSWER_BYTES + 8];
	uint32_t len = n->answer_bytes;

	memcpy(answer, n->refuses ? "-NO" : "+OK", 3);
	memset(answer + 3, '.', len - 3);
	memcpy(answer + len, "\r\n", 2);
	n->nr_lines++;
	/* The answer to the first one comes with new keys, and has to be answered with such. */
	if (n->ssl && n->nr_lines == 1 && SSL_version(n->ssl) == TLS1_3_VERSION)
		SSL_key_update(n->ssl, SSL_KEY_UPDATE_REQUESTED);
	return node_write(n, answer, len + 2);
}

static void node_talk(struct node *n)
{
	char data[16 << 10];
	int len;

	while ((len = node_read(n, data, sizeof(data))) > 0) {
		for (int i = 0; i < len; i++) {
			if (data[i] == '\n' && !node_answer(n))
				return;
			if (n->nr_lines && n->nr_lines == n->nr_answered)
				return;
		}
	}
}

/* In a node without TLS, a handshake is a wrong command. */
static void node_refuse(struct node *n)
{
	char data[16 << 10];

	if (read(n->fd, data, sizeof(data)) > 0 && data[0] == 0x16)
		node_write(n, "-ERR unknown command\r\n", 22);
}

/* Or the kernel takes back what was said, as something is not read. */
static void node_drain(struct node *n)
{
	char data[1024];

	if (!n->is_silent)
		shutdown(n->fd, SHUT_WR);
	while (read(n->fd, data, sizeof(data)) > 0)
		;
}

static void *node_main(void *argument)
{
	struct node *n = argument;

	n->fd = accept(n->listen_fd, NULL, NULL);
	if (n->fd < 0)
		return NULL;
	if (n->is_silent) {
		node_drain(n);
	} else if (n->context) {
		n->ssl = SSL_new(n->context);
		EXPECT(n->ssl && SSL_set_fd(n->ssl, n->fd));
		if (SSL_accept(n->ssl) == 1) {
			n->was_shown = SSL_get0_peer_certificate(n->ssl);
			node_talk(n);
		} else {
			node_drain(n);
		}
	} else if (secure_is_on()) {
		node_refuse(n);
	} else {
		node_talk(n);
	}
	SSL_free(n->ssl);
	close(n->fd);
	return NULL;
}

static void node_start(struct node *n)
{
	struct sockaddr_in6 at = { .sin6_family = AF_INET6, .sin6_addr = in6addr_any };
	socklen_t len = sizeof(at);
	int no = 0, buffer_bytes = BUFFER_BYTES;

	n->listen_fd = socket(AF_INET6, SOCK_STREAM, 0);
	EXPECT(!setsockopt(n->listen_fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no)));
	setsockopt(n->listen_fd, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof(buffer_bytes));
	setsockopt(n->listen_fd, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
	EXPECT(!bind(n->listen_fd, (struct sockaddr *)&at, len) && !listen(n->listen_fd, 1));
	EXPECT(!getsockname(n->listen_fd, (struct sockaddr *)&at, &len));
	n->port = ntohs(at.sin6_port);
	if (n->answer_bytes < 3)
		n->answer_bytes = 3;
	if (n->cert) {
		n->context = SSL_CTX_new(TLS_server_method());
		SSL_CTX_set_num_tickets(n->context, 0);
		EXPECT(SSL_CTX_use_certificate_chain_file(n->context, path_of(n->cert, "pem")) &&
		       SSL_CTX_use_PrivateKey_file(n->context, path_of(n->cert, "key"),
						   SSL_FILETYPE_PEM));
	}
	if (n->asks) {
		EXPECT(SSL_CTX_load_verify_file(n->context, path_of(n->asks, "pem")));
		SSL_CTX_set_verify(n->context,
				   SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	EXPECT(!pthread_create(&n->thread, NULL, node_main, n));
}

static void node_end(struct node *n)
{
	/* If nobody came. */
	shutdown(n->listen_fd, SHUT_RDWR);
	pthread_join(n->thread, NULL);
	close(n->listen_fd);
	SSL_CTX_free(n->context);
}

/* ---- shipments ---- */

struct trip {
	const char *host;
	uint32_t nr_keys, key_bytes, time_ms;
	uint32_t nr[SHIP_REFUSED + 1];	/* keys by outcome */
	bool is_cut;
	char why[160];
};

/* Sends keys to the node, and waits until that has ended. */
static void travel(struct trip *t, struct node *n)
{
	uint32_t nr_keys = t->nr_keys ?: NR_KEYS, bytes = t->key_bytes ?: 4;
	struct shipment s = {
		.host = t->host ?: "127.0.0.1", .nr_keys = nr_keys, .first_len = 5,
		.len = 5 + (size_t)nr_keys * bytes,
		.until_ns = clock_ns(CLOCK_MONOTONIC) + (t->time_ms ?: TIME_MS) * 1000000ULL,
	};

	node_start(n);
	s.port = n->port;
	s.bytes = malloc(s.len);
	s.outcomes = calloc(1, nr_keys);
	memset(s.bytes, 'k', s.len);
	memcpy(s.bytes, "PING\n", 5);
	for (uint32_t i = 1; i <= nr_keys; i++)
		s.bytes[4 + (size_t)i * bytes] = '\n';
	EXPECT(!sender_work(&s.msg));
	node_end(n);
	memset(t->nr, 0, sizeof(t->nr));
	for (uint32_t i = 0; i < nr_keys; i++)
		t->nr[s.outcomes[i]]++;
	t->is_cut = s.is_cut;
	strcpy(t->why, s.why);
	free(s.outcomes);
	free(s.bytes);
}

#define GOES(trip, node) goes(__LINE__, trip, node)
#define STAYS(trip, node, text) stays(__LINE__, trip, node, text)

static void goes(int line, struct trip t, struct node n)
{
	uint32_t nr_keys = t.nr_keys ?: NR_KEYS;

	travel(&t, &n);
	if (t.is_cut || t.nr[SHIP_TAKEN] != nr_keys || n.nr_lines != 1 + nr_keys ||
	    n.was_shown != !!n.asks) {
		printf("%s:%d: %u of %u keys, %u lines: %s\n", __FILE__, line, t.nr[SHIP_TAKEN],
		       nr_keys, n.nr_lines, t.why);
		exit(1);
	}
}

/* No key is sent, and that is known. */
static void stays(int line, struct trip t, struct node n, const char *text)
{
	travel(&t, &n);
	if (!t.is_cut || t.nr[SHIP_REFUSED] != NR_KEYS || n.nr_lines > 1 ||
	    !strstr(t.why, text)) {
		printf("%s:%d: %u keys stay, %u lines: %s\n", __FILE__, line, t.nr[SHIP_REFUSED],
		       n.nr_lines, t.why);
		exit(1);
	}
}

#define TRIP(...) ((struct trip){ __VA_ARGS__ })
#define NODE(...) ((struct node){ __VA_ARGS__ })
/* More than the buffers of sockets hold, in both directions. */
#define MANY .nr_keys = NR_MANY, .key_bytes = ANSWER_BYTES

/* After a refusal no key follows. */
static void test_refused(struct node n)
{
	struct trip t = { 0 };

	travel(&t, &n);
	EXPECT(!t.is_cut && t.nr[SHIP_REFUSED] == NR_KEYS && n.nr_lines == 1);
	EXPECT(!strcmp(t.why, "NO"));
}

static void test_plain(void)
{
	EXPECT(!secure_is_on());
	GOES(TRIP(), NODE());
	GOES(TRIP(MANY), NODE(.answer_bytes = ANSWER_BYTES));
	GOES(TRIP(.nr_keys = 2, .key_bytes = LONG_BYTES), NODE());
	/* It does not shake hands. */
	STAYS(TRIP(.time_ms = SHORT_MS), NODE(.cert = "node"), "");
	test_refused(NODE(.refuses = true));
}

static void test_secure(void)
{
	use("ca");
	GOES(TRIP(), NODE(.cert = "node"));
	GOES(TRIP(.host = "localhost"), NODE(.cert = "node"));
	GOES(TRIP(), NODE(.cert = "node", .asks = "ca"));
	/* Neither end may wait until the other one has said all. */
	GOES(TRIP(MANY), NODE(.cert = "node", .answer_bytes = ANSWER_BYTES));
	GOES(TRIP(.nr_keys = 2, .key_bytes = LONG_BYTES), NODE(.cert = "node"));
}

static void test_others(void)
{
	use("ca");
	STAYS(TRIP(), NODE(.cert = "stranger"), "no TLS: its certificate is of no authority");
	STAYS(TRIP(), NODE(.cert = "elsewhere"), "no TLS: its certificate is not for this host");
	STAYS(TRIP(.host = "localhost"), NODE(.cert = "elsewhere"), "is not for this host");
	STAYS(TRIP(), NODE(), "no TLS: it does not speak TLS");
	STAYS(TRIP(.time_ms = SHORT_MS), NODE(.is_silent = true), "no TLS: no answer in time");
	/* It refuses ours: TLS 1.3 says so after the handshake. */
	STAYS(TRIP(), NODE(.cert = "node", .asks = "other"), "unknown ca");
	/* The authority has changed. */
	use("other");
	STAYS(TRIP(), NODE(.cert = "node"), "is of no authority");
	GOES(TRIP(), NODE(.cert = "stranger"));
}

static void test_closed(void)
{
	struct node n = { .cert = "node", .nr_answered = 3 };
	struct trip t = { 0 };

	use("ca");
	travel(&t, &n);
	EXPECT(t.is_cut && t.nr[SHIP_TAKEN] == 2 && t.nr[SHIP_UNKNOWN] == NR_KEYS - 2);
	EXPECT(!strcmp(t.why, "the connection was closed"));
}

static void test_files(void)
{
	struct tls_files files = files_of("ours", "nowhere");
	char why[256];

	EXPECT(!secure_read(&files, why, sizeof(why)));
	EXPECT(strstr(why, "--tls-cluster-ca-cert-file ") && strstr(why, "No such file"));
	files.cluster_ca = path_of("ours", "key");
	EXPECT(!secure_read(&files, why, sizeof(why)));
	EXPECT(strstr(why, "no certificates in PEM format"));
	files = files_of("ours", "ca");
	files.key = path_of("node", "key");
	EXPECT(!secure_read(&files, why, sizeof(why)));
	EXPECT(strstr(why, "not the key of the certificate"));
}

static void *stop_soon(void *argument)
{
	usleep(SHORT_MS * 1000);
	sender_stop();
	return argument;
}

/* The last one: nothing is sent any more. */
static void test_stop(void)
{
	pthread_t thread;

	use("ca");
	EXPECT(!pthread_create(&thread, NULL, stop_soon, NULL));
	STAYS(TRIP(), NODE(.is_silent = true), "octokvd ends");
	pthread_join(thread, NULL);
}

/* In a network namespace of its own, the loopback may be down. */
static void raise_loopback(void)
{
	struct ifreq lo = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	EXPECT(!ioctl(fd, SIOCGIFFLAGS, &lo));
	lo.ifr_flags |= IFF_UP;
	ioctl(fd, SIOCSIFFLAGS, &lo);
	close(fd);
}

int main(void)
{
	char command[64];

	raise_loopback();
	signal(SIGPIPE, SIG_IGN);
	EXPECT(mkdtemp(folder));
	sign("ca", "ca", NULL, NULL);
	sign("other", "other", NULL, NULL);
	sign("node", "node", "ca", "IP:127.0.0.1,DNS:localhost");
	sign("ours", "ours", "ca", "DNS:ours");
	sign("elsewhere", "localhost", "ca", "IP:127.0.0.2");
	sign("stranger", "node", "other", "IP:127.0.0.1,DNS:localhost");
	test_plain();
	test_secure();
	test_others();
	test_closed();
	test_refused(NODE(.cert = "node", .refuses = true));
	test_files();
	test_stop();
	secure_use(NULL);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	EXPECT(!system(command));
	printf("ok server_sender: keys go to a node with TLS and the right certificate only\n");
	return 0;
}
