// SPDX-License-Identifier: GPL-2.0
/*
 * link.c - sockets on a ring; link.h has the rules
 *
 * Life of a link: a worker accepts it, and hands it to another worker that has fewer. Whenever it
 * has something to do, it is in the list of ready links, and once per round link_run() feeds what
 * was kept, arms a receive, and arms a send. It ends by shutdown(), which makes requests under way
 * complete. When none is left, the socket is closed and the connection killed. The memory is freed
 * when the last request of the connection is done.
 *
 * A link with TLS ends later, if it ends in order. Its client is told that no more comes. The
 * kernel may still hold records that the socket had no room for, and shutdown() and close() would
 * lose them. So the link waits until all that was sent has arrived. The kernel passes on such a
 * record as soon as there is room, in a thread of its own: TLS_SETTLE_NS after the last send is
 * enough.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "link.h"
#include "server/metrics.h"
#include "server/tenant.h"
#include "store/mem.h"

enum {
	TLS_SETTLE_NS		= 50000000,
	TLS_ALERT		= 21,		/* a kind of record */
};

static char *buffer_of(const struct net *net, uint32_t id)
{
	return net->buffers + (size_t)id * RECV_BUFFER_BYTES;
}

static void give_buffer(struct net *net, uint32_t id)
{
	io_uring_buf_ring_add(net->buf_ring, buffer_of(net, id), RECV_BUFFER_BYTES, id,
			      io_uring_buf_ring_mask(RECV_BUFFERS), 0);
	io_uring_buf_ring_advance(net->buf_ring, 1);
}

int net_open(struct net *net, struct io_uring *ring, struct worker *worker, const int *listen_fds)
{
	int result;

	*net = (struct net){ .ring = ring, .worker = worker };
	for (int i = 0; i < NR_LISTENERS; i++)
		net->listeners[i].fd = listen_fds[i];
	net->ready_tail = &net->ready;
	net->buf_ring = io_uring_setup_buf_ring(ring, RECV_BUFFERS, RECV_GROUP, 0, &result);
	if (!net->buf_ring)
		return result;
	net->buffers = mem_alloc((size_t)RECV_BUFFERS * RECV_BUFFER_BYTES);
	for (uint32_t i = 0; i < RECV_BUFFERS; i++)
		give_buffer(net, i);
	return 0;
}

void net_close(struct net *net)
{
	net_stop_listening(net);
	io_uring_free_buf_ring(net->ring, net->buf_ring, RECV_BUFFERS, RECV_GROUP);
	mem_free(net->buffers);
}

void net_ready(struct net *net, struct link *link)
{
	if (link->queued)
		return;
	link->queued = true;
	link->next_ready = NULL;
	*net->ready_tail = link;
	net->ready_tail = &link->next_ready;
}

/* ---- the end of a link ---- */

/* Says by TLS that nothing more comes. False: there is no room to say it now. */
static bool say_end(int fd)
{
	static uint8_t close_notify[] = { 1, 0 };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(1)];
	} control = {
		.head = {
			.cmsg_len = CMSG_LEN(1), .cmsg_level = SOL_TLS,
			.cmsg_type = TLS_SET_RECORD_TYPE,
		},
	};
	struct iovec iov = { close_notify, sizeof(close_notify) };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	*CMSG_DATA(&control.head) = TLS_ALERT;
	return sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno != EAGAIN;
}

/* All that was sent is there, or the peer is gone. */
static bool has_arrived(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);
	int unsent = 0;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) || info.tcpi_state == TCP_CLOSE)
		return true;
	return ioctl(fd, SIOCOUTQ, &unsent) || !unsent;
}

/* Nothing is left to do and to send: may the socket be closed without losing anything? */
static bool may_close(const struct net *net, struct link *link)
{
	if (!link->is_tls)
		return true;
	if (!link->said_end)
		link->said_end = say_end(link->fd);
	return link->said_end && net->worker->now_ns - link->sent_ns >= TLS_SETTLE_NS &&
	       has_arrived(link->fd);
}

bool net_holds(const struct net *net, struct link *link)
{
	return !link->conn.dead && !link->ending && (link->sending || link->conn.out.nr_bytes ||
						     !may_close(net, link));
}

static void link_end(struct link *link)
{
	if (link->conn.dead)
		return;
	if (!link->ending) {
		link->ending = true;
		if (link->is_tls && !link->said_end && !link->sending)
			say_end(link->fd);
		shutdown(link->fd, SHUT_RDWR);
	}
	/* A link in the list of ready links ends in its turn. */
	if (link->receiving || link->sending || link->queued)
		return;
	close(link->fd);
	tenant_request_none(&link->conn);
	mem_free(link->rest);
	link->rest = NULL;
	conn_kill(&link->conn);
}

void net_end(struct link *link)
{
	link_end(link);
}

/* ---- input ---- */

static void keep_rest(struct link *link, const char *data, uint32_t len)
{
	char *rest = memcpy(mem_alloc(len), data, len);

	mem_free(link->rest);
	link->rest = rest;
	link->rest_len = len;
	link->rest_used = 0;
}

static void link_feed(struct link *link, const char *data, uint32_t len)
{
	uint32_t used = conn_feed(&link->conn, data, len);

	if (used < len && !link->conn.closing)
		keep_rest(link, data + used, len - used);
}

static void feed_rest(struct link *link)
{
	if (conn_wants_input(&link->conn))
		link->rest_used += conn_feed(&link->conn, link->rest + link->rest_used,
					     link->rest_len - link->rest_used);
	else if (!link->conn.parked)
		tenant_request_none(&link->conn);
	if (link->rest_used < link->rest_len && !link->conn.closing)
		return;
	mem_free(link->rest);
	link->rest = NULL;
}

static void arm_recv(struct net *net, struct link *link)
{
	struct io_uring_sqe *sqe = ring_sqe(net->ring);

	io_uring_prep_recv(sqe, link->fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	/* Most clients wait for a reply before they send more. */
	if (!link->has_more)
		sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
	sqe->buf_group = RECV_GROUP;
	ring_tag(sqe, link, TAG_RECV);
	link->receiving = true;
}

static void recv_done(struct net *net, struct link *link, int result, uint32_t flags)
{
	link->receiving = false;
	link->has_more = flags & IORING_CQE_F_SOCK_NONEMPTY;
	if (result > 0) {
		uint32_t id = flags >> IORING_CQE_BUFFER_SHIFT;

		if (!link->ending && !net->stopping)
			link_feed(link, buffer_of(net, id), result);
		give_buffer(net, id);
	}
	/* The client sends no more, but may still read replies. */
	link->said_all |= !result || (link->is_tls && result == -EIO);
	if (link->ending ||
	    (result < 0 && result != -ENOBUFS && result != -EINTR && !link->said_all))
		link_end(link);
	else
		net_ready(net, link);
}

/* ---- output ---- */

static void arm_send(struct net *net, struct link *link)
{
	struct io_uring_sqe *sqe = ring_sqe(net->ring);
	int nr = 0;

	for (struct resp_chunk *c = link->conn.out.head; c && nr < SEND_IOVECS; c = c->next)
		link->iov[nr++] = (struct iovec){ c->data + c->start, resp_chunk_len(c) };
	link->msg = (struct msghdr){ .msg_iov = link->iov, .msg_iovlen = nr };
	if (nr == 1)
		io_uring_prep_send(sqe, link->fd, link->iov->iov_base, link->iov->iov_len,
				   MSG_NOSIGNAL);
	else
		io_uring_prep_sendmsg(sqe, link->fd, &link->msg, MSG_NOSIGNAL);
	ring_tag(sqe, link, TAG_SEND);
	link->sending = true;
	link->sent_ns = net->worker->now_ns;
}

static void send_done(struct net *net, struct link *link, int result)
{
	link->sending = false;
	metrics_stage(net->worker, link->conn.tenant ? link->conn.tenant->id : NO_TENANT,
		      STAGE_SEND, net->worker->now_ns - link->sent_ns);
	if (result > 0)
		conn_sent(&link->conn, result);
	if (link->ending || (result < 0 && result != -EINTR && result != -EAGAIN))
		link_end(link);
	else
		net_ready(net, link);
}

static void link_run(struct net *net, struct link *link)
{
	if (link->ending || (conn_finished(&link->conn) && may_close(net, link))) {
		link_end(link);
		return;
	}
	if (link->rest && !net->stopping)
		feed_rest(link);
	link->conn.closing |= link->said_all && !link->rest;
	if (!link->rest && !link->receiving && conn_wants_input(&link->conn) && !net->stopping)
		arm_recv(net, link);
	if (link->conn.out.nr_bytes && !link->sending)
		arm_send(net, link);
	if (conn_finished(&link->conn) && may_close(net, link))
		link_end(link);
}

void net_run(struct net *net)
{
	struct link *link = net->ready;

	net->ready = NULL;
	net->ready_tail = &net->ready;
	while (link) {
		struct link *next = link->next_ready;

		link->queued = false;
		link_run(net, link);
		link = next;
	}
}

/* ---- accepting ---- */

void net_accept(struct net *net)
{
	if (net->stopping || net->worker->now_ns < net->accept_again_ns)
		return;
	for (int i = 0; i < NR_LISTENERS; i++) {
		struct listener *l = &net->listeners[i];
		struct io_uring_sqe *sqe;

		if (l->fd < 0 || l->accepting)
			continue;
		sqe = ring_sqe(net->ring);
		io_uring_prep_multishot_accept(sqe, l->fd, NULL, NULL, SOCK_CLOEXEC);
		ring_tag(sqe, l, TAG_ACCEPT);
		l->accepting = true;
	}
}

/*
 * A closed socket still listens until the ring lets go of it; after shutdown() it does not.
 */
void net_stop_listening(struct net *net)
{
	for (int i = 0; i < NR_LISTENERS; i++) {
		if (net->listeners[i].fd >= 0) {
			shutdown(net->listeners[i].fd, SHUT_RDWR);
			close(net->listeners[i].fd);
		}
		net->listeners[i].fd = -1;
	}
}

/* Three quarters of the connections are for those who have logged in. */
static bool too_many_strangers(const struct server *s)
{
	uint32_t nr = __atomic_load_n(&s->nr_strangers, __ATOMIC_RELAXED);

	return nr && nr >= (config_number(&s->config.max_connections) + 3) / 4;
}

static void refuse(struct net *net, int fd, bool is_tls)
{
	const char *text = mem_has_room() ? "-ERR max number of clients reached\r\n" :
					    "-OOM no memory for another client\r\n";

	if (too_many_strangers(net->worker->server))
		text = "-ERR too many clients that have not logged in\r\n";
	worker_count(net->worker, COUNT_REFUSED, 1);
	send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
	if (is_tls)
		say_end(fd);
	close(fd);
}

/* ---- which worker has it ---- */

static uint64_t nr_conns(const struct worker *w)
{
	return __atomic_load_n(&w->nr_conns, __ATOMIC_RELAXED);
}

static void count_conn(struct worker *w, int more)
{
	__atomic_add_fetch(&w->nr_conns, more, __ATOMIC_RELAXED);
}

/* The worker for a new connection: that with the fewest; this one, if no other has fewer. */
static struct worker *with_fewest(const struct net *net)
{
	const struct server *s = net->worker->server;
	struct worker *best = net->worker;

	for (uint32_t i = 0; i < s->nr_listening; i++)
		if (nr_conns(s->workers[i]) < nr_conns(best))
			best = s->workers[i];
	return best;
}

void net_freed(struct link *link)
{
	count_conn(link->conn.worker, -1);
	mem_free(link);
}

/* The address of the peer as IPv6, and its port; all 0 for one that came through a path. */
static void address_of(int fd, struct conn *c)
{
	struct sockaddr_in6 peer = { 0 };
	socklen_t len = sizeof(peer);

	if (getpeername(fd, (struct sockaddr *)&peer, &len))
		return;
	if (peer.sin6_family == AF_INET6) {
		memcpy(c->address, &peer.sin6_addr, 16);
		c->peer_port = ntohs(peer.sin6_port);
	} else if (peer.sin6_family == AF_INET) {
		c->address[10] = c->address[11] = 0xff;
		memcpy(c->address + 12, &((struct sockaddr_in *)&peer)->sin_addr, 4);
		c->peer_port = ntohs(((struct sockaddr_in *)&peer)->sin_port);
	}
}

/* The connection is counted already. */
static void adopt(struct net *net, int fd, bool is_tls)
{
	struct link *link;

	if (net->stopping) {
		count_conn(net->worker, -1);
		close(fd);
		return;
	}
	link = mem_zalloc(sizeof(*link));
	link->fd = fd;
	link->is_tls = is_tls;
	conn_init(&link->conn, net->worker);
	address_of(fd, &link->conn);
	net_ready(net, link);
}

struct handed {
	struct kv_msg msg;
	int fd;
	bool is_tls;
};

static void handed_run(struct worker *at, struct kv_msg *msg)
{
	adopt(at->net, ((struct handed *)msg)->fd, ((struct handed *)msg)->is_tls);
	worker_return(at, msg);
}

static void handed_done(struct worker *home, struct kv_msg *msg)
{
	home->net->nr_handed--;
	mem_free(msg);
}

static void hand_over(struct net *net, struct worker *to, int fd, bool is_tls)
{
	struct handed *handed = mem_zalloc(sizeof(*handed));

	handed->msg.run = handed_run;
	handed->msg.done = handed_done;
	handed->fd = fd;
	handed->is_tls = is_tls;
	net->nr_handed++;
	worker_send(net->worker, &handed->msg, to->id);
}

/*
 * The kernel notices after a while that a peer has vanished. Otherwise its connection would stay
 * for ever.
 */
static void set_options(int fd)
{
	int one = 1, idle_s = KEEPALIVE_S;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

/* A new connection: this worker's, or that of another one that has fewer. */
static void welcome(struct net *net, int fd, bool is_tls)
{
	const struct server *s = net->worker->server;
	struct worker *to;
	uint64_t nr = 0;

	for (uint32_t i = 0; i < s->nr_workers; i++)
		nr += nr_conns(s->workers[i]);
	if (nr >= config_number(&s->config.max_connections) || net->stopping || !mem_has_room() ||
	    too_many_strangers(s)) {
		refuse(net, fd, is_tls);
		return;
	}
	set_options(fd);
	to = with_fewest(net);
	count_conn(to, 1);
	if (to == net->worker)
		adopt(net, fd, is_tls);
	else
		hand_over(net, to, fd, is_tls);
}

static void accepted(struct net *net, struct listener *l, int result, uint32_t flags)
{
	if (!(flags & IORING_CQE_F_MORE))
		l->accepting = false;
	if (result >= 0) {
		welcome(net, result, false);
		return;
	}
	/* Most likely there are no descriptors left: try again a little later. */
	net->accept_again_ns = net->worker->now_ns + ACCEPT_RETRY_NS;
}

void net_complete(struct net *net, uint64_t user_data, int result, uint32_t flags)
{
	struct link *link = (struct link *)(uintptr_t)(user_data & ~(uint64_t)TAG_MASK);

	switch (user_data & TAG_MASK) {
	case TAG_RECV:
		recv_done(net, link, result, flags);
		break;
	case TAG_SEND:
		send_done(net, link, result);
		break;
	case TAG_ACCEPT:
		accepted(net, (struct listener *)(void *)link, result, flags);
		break;
	case TAG_TLS:
		welcome(net, result, true);
		break;
	default:
		break;
	}
}

void net_tick(struct net *net)
{
	struct conn *c, *next;

	for (c = net->worker->conns; c; c = next) {
		struct link *link = (struct link *)c;

		next = c->next;
		if (link->ending || c->dead)
			continue;
		/* It may wait for what is on its way to arrive. */
		if (link->is_tls && conn_finished(c))
			net_ready(net, link);
		if (!conn_overdue(c, net->worker->now_ns))
			continue;
		worker_count(net->worker, COUNT_TIMEOUTS, 1);
		link_end(link);
	}
}

void net_end_all(struct net *net)
{
	struct conn *c, *next;

	for (c = net->worker->conns; c; c = next) {
		next = c->next;
		if (!c->dead)
			link_end((struct link *)c);
	}
}

void net_end_gone(struct net *net)
{
	struct conn *c, *next;

	for (c = net->worker->conns; c; c = next) {
		next = c->next;
		if (!c->dead && c->tenant && c->tenant->is_gone)
			link_end((struct link *)c);
	}
}
