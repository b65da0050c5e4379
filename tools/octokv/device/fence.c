// SPDX-License-Identifier: GPL-2.0
/*
 * fence.c - one octokvd per device, even where several hosts reach it
 *
 * A drive behind NVMe-oF is a disk on each host that connects to it. A lock on the file keeps a
 * second octokvd of the same host away, and nobody else: two hosts would write into the same
 * segments, and both acknowledge.
 *
 * Reservations of NVMe act in the drive (NVM Express Base Specification 2.0, section 8.19). Each
 * host registers a key, and one of them reserves the namespace for itself. The reservation is
 * Exclusive Access: the drive refuses writes and reads of all others, so that a host that was cut
 * off for a while, and comes back, cannot answer with what it finds there. The key is a hash of
 * this boot's id and of the host's NVMe identity. So an octokvd that was killed gets its device
 * back without a question, and so does one whose host has booted again: the drive knows the host,
 * and takes its new key in place of the old one.
 *
 * If another host has the device, octokvd does not start. --preempt takes it away from that host,
 * and has the drive abort what the host has under way. That host's next request is refused
 * (EBADE), and its octokvd ends at once (fence_lost()). An idle one finds out within a second: a
 * thread of its own asks, since the question waits as long as the drive does not answer. If nobody
 * has the device any more, it was another host's meanwhile, or the drive has forgotten: octokvd
 * ends, too, since only a start reads again what is on the device.
 *
 * At its end octokvd gives the device back if it was free before. If it was not, requests of the
 * host that had it may still wait somewhere for their path, and have to be refused when they
 * arrive. The next host needs --preempt then.
 *
 * What needs no request the drive cannot refuse: that a key does not exist is known from memory. A
 * host that is cut off from the drive, but not from its clients, would go on to say so, while
 * another host serves. So a word of the drive counts for LEASE_S from when it was asked. After
 * that, fence_is_sure() is false until the drive answers again, and octokvd refuses commands. A
 * host that takes a device waits longer than that, in fence_settle(), before it serves. The clocks
 * go on in a suspend. The limits: a hypervisor that stops a virtual machine may stop its clocks,
 * too. And octokvd waits only with --preempt: if the drive has just forgotten who had it, or if the
 * start that took it is followed by one without the option, nobody waits.
 *
 * The commands go to the drive as they are. The kernel's own interface has most of them, but not
 * who has the reservation; how it unregisters a key, and what its calls return, differs between
 * kernels. The report comes with host identifiers of 128 bits from drives behind a fabric, and else
 * with 64 bits.
 *
 * Files, partitions, devices other than NVMe, and drives that know no reservations are not fenced.
 * Who only reads needs no reservation of its own: the drive refuses if another host has one.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nvme_ioctl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "fence.h"

enum {
	OPCODE_REGISTER	= 0x0d,
	OPCODE_REPORT	= 0x0e,
	OPCODE_ACQUIRE	= 0x11,
	OPCODE_RELEASE	= 0x15,

	/* dword 10 of these */
	REGISTER	= 0,
	UNREGISTER	= 1,
	REPLACE		= 2,
	ACQUIRE		= 0,
	PREEMPT		= 1,
	PREEMPT_ABORT	= 2,
	IGNORE_KEY	= 1 << 3,
	EXCLUSIVE	= 2 << 8,

	REPORT_BYTES	= 4096,
	EXTENDED	= 1,	/* dword 11 of a report */
	HOLDS		= 1,	/* in the status of a controller */
	STATUS_MASK	= 0x7ff,	/* of a status; above are bits that say more of it */
	TYPE_MASK	= 0x700,
	INVALID_OPCODE	= 0x001,
	PATH_ERROR	= 0x300,	/* a type */

	PERIOD_S	= 1,
	LEASE_S		= 5,
	SETTLE_S	= LEASE_S + 1,
	TRIES		= 10,
	SETTLE_POLL_US	= 10000,
};

#define NS_PER_S	1000000000ULL

/* Dword 10 of a registration: it outlives a loss of power. */
#define PERSISTS	(3U << 30)

/* Where a report has what; the second form has longer host identifiers. */
struct form {
	uint32_t first, bytes, key;
};

static const struct form forms[] = {
	{ .first = 24, .bytes = 24, .key = 16 },
	{ .first = 64, .bytes = 64, .key = 8 },
};

/* @fd is -1: the device has no reservations. */
static struct {
	const char *name;
	int fd;
	uint32_t nsid;
	uint64_t key;
	bool was_free;
	bool is_given;			/* atomic */
	uint64_t asked_ns;		/* atomic: when it was asked that said that we have it */
	uint64_t settled_ns;		/* until then another host may not know that it lost it */
} fence = { .fd = -1 };

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* ---- commands ---- */

/* Returns 0, a negative errno, or a status of NVMe. */
static int issue(uint8_t opcode, uint32_t dword10, uint32_t dword11, void *data, uint32_t bytes)
{
	struct nvme_passthru_cmd command = {
		.opcode = opcode, .nsid = fence.nsid, .addr = (uintptr_t)data, .data_len = bytes,
		.cdw10 = dword10, .cdw11 = dword11,
	};
	int result = ioctl(fence.fd, NVME_IOCTL_IO_CMD, &command);

	return result < 0 ? -errno : result;
}

static int issue_keys(uint8_t opcode, uint32_t dword10, uint64_t current, uint64_t other)
{
	uint64_t keys[2] = { htole64(current), htole64(other) };

	return issue(opcode, dword10, 0, keys,
		     opcode == OPCODE_RELEASE ? sizeof(keys[0]) : sizeof(keys));
}

static int read_report(uint8_t *report, uint32_t form)
{
	return issue(OPCODE_REPORT, REPORT_BYTES / 4 - 1, form, report, REPORT_BYTES);
}

/*
 * Finds the key of the host that has the device; 0: none has. Returns 0, a negative errno, or a
 * status of NVMe.
 */
static int find_holder(uint64_t *key)
{
	_Alignas(REPORT_BYTES) uint8_t report[REPORT_BYTES] = { 0 };
	const struct form *form = &forms[1];
	int result = read_report(report, EXTENDED);
	uint32_t nr;

	if (result > 0) {
		form = &forms[0];
		result = read_report(report, 0);
	}
	if (result)
		return result;
	*key = 0;
	nr = report[5] | report[6] << 8;
	for (uint32_t at = form->first; nr-- && at + form->bytes <= REPORT_BYTES;
	     at += form->bytes) {
		uint64_t found;

		memcpy(&found, report + at + form->key, sizeof(found));
		if (report[at + 2] & HOLDS)
			*key = le64toh(found);
	}
	return 0;
}

/* ---- the key ---- */

/* Appends the first line of a file; returns the new length. */
static size_t add_line(char *text, size_t len, size_t size, const char *path)
{
	FILE *file = fopen(path, "re");

	if (!file)
		return len;
	text[len] = 0;
	if (fgets(text + len, size - len, file))
		len += strlen(text + len);
	fclose(file);
	return len;
}

/* 0: nothing tells this host from others. */
static uint64_t make_key(dev_t device)
{
	static const char *const names[] = { "hostnqn", "hostid" };
	char path[128], text[1024];
	size_t len = add_line(text, 0, sizeof(text), "/proc/sys/kernel/random/boot_id");

	for (int i = 0; len && i < 2; i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/device/%s", major(device),
			 minor(device), names[i]);
		len = add_line(text, len, sizeof(text), path);
	}
	return len ? XXH64(text, len, 0) : 0;
}

/* ---- taking and giving ---- */

/* A host that is registered already, of its last boot, has to replace its key. */
static int register_key(void)
{
	int result = issue_keys(OPCODE_REGISTER, REGISTER | PERSISTS, 0, fence.key);

	if (result)
		result = issue_keys(OPCODE_REGISTER, REPLACE | IGNORE_KEY | PERSISTS, 0, fence.key);
	/* Not every drive remembers. */
	if (result)
		result = issue_keys(OPCODE_REGISTER, REGISTER, 0, fence.key);
	if (result)
		result = issue_keys(OPCODE_REGISTER, REPLACE | IGNORE_KEY, 0, fence.key);
	return result;
}

static void unregister_key(void)
{
	issue_keys(OPCODE_REGISTER, UNREGISTER | IGNORE_KEY, fence.key, 0);
}

/* Tries to reserve the device. Returns the key of the host that has it then; 0: none has. */
static uint64_t reserve(bool preempts)
{
	uint64_t holder = 0;

	fence.asked_ns = now_ns();
	if (!find_holder(&holder))
		fence.was_free = !holder;
	if (!register_key())
		issue_keys(OPCODE_ACQUIRE, ACQUIRE | EXCLUSIVE, fence.key, 0);
	find_holder(&holder);
	if (preempts && holder && holder != fence.key) {
		/* Not every drive can abort what is under way. */
		if (issue_keys(OPCODE_ACQUIRE, PREEMPT_ABORT | EXCLUSIVE, fence.key, holder))
			issue_keys(OPCODE_ACQUIRE, PREEMPT | EXCLUSIVE, fence.key, holder);
		find_holder(&holder);
	}
	/* Even if it was ours, or free: it may have been another host's a moment ago. */
	if (preempts)
		fence.settled_ns = now_ns() + SETTLE_S * NS_PER_S;
	return holder;
}

static bool is_partition(dev_t device)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(device),
		 minor(device));
	return !access(path, F_OK);
}

/*
 * Is it a namespace whose drive knows reservations? It may be out of reach for a moment: only an
 * answer counts. Returns 1, 0 or a negative errno.
 */
static int knows_reservations(int fd)
{
	int error = EAGAIN;

	for (int i = 0; i < TRIES; i++) {
		int nsid = ioctl(fd, NVME_IOCTL_ID), result;
		uint64_t holder;

		/* Not of NVMe. The driver of loop devices says EINVAL. */
		if (nsid < 0 && (errno == ENOTTY || errno == EINVAL))
			return 0;
		fence.fd = fd;
		fence.nsid = nsid;
		result = nsid < 0 ? -errno : find_holder(&holder);
		if (result >= 0 && (result & TYPE_MASK) != PATH_ERROR)
			return (result & STATUS_MASK) != INVALID_OPCODE;
		error = result < 0 ? -result : EAGAIN;
		if (error == EACCES || error == EPERM)
			return result;
		sleep(PERIOD_S);
	}
	return -error;
}

bool fence_take(int fd, const char *name, bool preempts, char *why, size_t bytes)
{
	struct stat st;
	uint64_t holder;
	int known;

	if (fstat(fd, &st) || !S_ISBLK(st.st_mode) || is_partition(st.st_rdev))
		return true;
	fence.name = name;
	known = knows_reservations(fd);
	if (known > 0) {
		fence.key = make_key(st.st_rdev);
		known = fence.key ? known : -ENOENT;
	}
	holder = known > 0 ? reserve(preempts) : 0;
	if (known > 0 && holder == fence.key)
		return true;
	if (known > 0)
		unregister_key();
	fence.fd = -1;
	if (holder)
		snprintf(why, bytes, "%s: another host has reserved it (key %016llx): end octokvd "
			 "there, or give --preempt if that host is gone", name,
			 (unsigned long long)holder);
	else if (known)
		snprintf(why, bytes, "%s: cannot reserve it%s%s: --no-fence does without, if no "
			 "other host uses it", name, known < 0 ? ": " : "",
			 known < 0 ? strerror(-known) : "");
	return !known;
}

void fence_give(void)
{
	if (fence.fd < 0 || !fence.was_free || fence.is_given)
		return;
	__atomic_store_n(&fence.is_given, true, __ATOMIC_RELEASE);
	issue_keys(OPCODE_RELEASE, EXCLUSIVE, fence.key, 0);
	unregister_key();
}

void fence_settle(void)
{
	while (now_ns() < fence.settled_ns)
		usleep(SETTLE_POLL_US);
}

/* ---- losing ---- */

bool fence_is_sure(void)
{
	/* First: the watching thread may write a later one at any moment. */
	uint64_t asked_ns = __atomic_load_n(&fence.asked_ns, __ATOMIC_ACQUIRE);

	return fence.fd < 0 || now_ns() - asked_ns < LEASE_S * NS_PER_S;
}

void fence_lost(void)
{
	fprintf(stderr, "octokvd: another host has reserved %s: ends at once\n",
		fence.name ? fence.name : "the device");
	_exit(1);
}

static void *watch(void *unused)
{
	uint64_t asked_ns, holder;

	(void)unused;
	for (;; sleep(PERIOD_S)) {
		asked_ns = now_ns();
		/* A report that fails says nothing: the device is away, and requests wait. */
		if (find_holder(&holder))
			continue;
		if (holder == fence.key)
			__atomic_store_n(&fence.asked_ns, asked_ns, __ATOMIC_RELEASE);
		else if (!__atomic_load_n(&fence.is_given, __ATOMIC_ACQUIRE))
			break;
	}
	if (holder)
		fence_lost();
	fprintf(stderr, "octokvd: %s is not reserved any more, and another host may have used it: "
		"ends at once\n", fence.name);
	_exit(1);
}

void fence_watch(void)
{
	pthread_t thread;

	if (fence.fd < 0)
		return;
	if (!pthread_create(&thread, NULL, watch, NULL)) {
		pthread_detach(thread);
		return;
	}
	/* Nobody would ask the drive, and commands would be refused for ever. */
	fprintf(stderr, "octokvd: %s: no thread to watch its reservation: ends\n", fence.name);
	_exit(1);
}
