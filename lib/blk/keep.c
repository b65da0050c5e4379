// SPDX-License-Identifier: GPL-2.0
/*
 * keep.c - what was set or found for a disk survives the scheduler; the manual is in keep.h
 *
 * A disk that a scheduler was attached to has a struct keep_disk. It is a managed resource of the
 * disk's device: the driver core calls keep_gone() and frees it when the device is deleted, or
 * released if it was never added. Both are long before the memory of the disk can be used again,
 * so a pointer to the disk on keep_disks is never an old one.
 *
 * Unloading. A resource that is still with its device is taken from there. One that is not on its
 * device any more is about to be released by another CPU, through keep_gone(), and keep_exit()
 * waits for that:
 *
 *	1. keep_exit() finds a keep_disk on the list, and its resource is not on the device: it lets
 *	   go of keep_lock, sleeps, and looks again. keep_gone() takes the keep_disk off the list.
 *	2. keep_gone() subtracts from keep_nr_gone as the last thing that it does with our memory.
 *	   keep_exit() waits for 0.
 *	3. keep_gone() may be preempted after that, before its last instruction. The task cannot
 *	   sleep there by itself, so a grace period of RCU tasks ends only when it has left.
 */
#define pr_fmt(fmt) "mqfair_lib: " fmt

#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/export.h>
#include <linux/printk.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "blk/keep.h"

enum {
	KEEP_EXIT_MS	= 5,
};

/* What a tunable showed: its name, a NUL, the text. */
struct keep_text {
	struct list_head node;
	size_t text_at;
	char name[];
};

/**
 * struct keep_disk - a disk that a scheduler was attached to
 * @node:	on keep_disks
 * @disk:	the disk
 * @keeps:	what is kept, by scheduler
 */
struct keep_disk {
	struct list_head node;
	struct gendisk *disk;
	struct list_head keeps;
};

static DEFINE_SPINLOCK(keep_lock);
static LIST_HEAD(keep_disks);
static atomic_t keep_nr_gone = ATOMIC_INIT(0);

/* ---- a keep ---- */

static void keep_release(struct kref *ref)
{
	struct keep *k = container_of(ref, struct keep, ref);
	struct keep_text *t, *next;

	list_for_each_entry_safe(t, next, &k->texts, node)
		kfree(t);
	xa_destroy(&k->numbers);
	kfree(k->found);
	kfree(k);
}

void keep_put(struct keep *k)
{
	kref_put(&k->ref, keep_release);
}
EXPORT_SYMBOL_GPL(keep_put);

static struct keep *keep_alloc(const struct elevator_queue *eq)
{
	struct keep *k = kzalloc(sizeof(*k), GFP_NOIO);

	if (!k)
		return NULL;
	kref_init(&k->ref);
	INIT_LIST_HEAD(&k->node);
	INIT_LIST_HEAD(&k->texts);
	xa_init(&k->numbers);
	strscpy(k->name, eq->type->elevator_name, sizeof(k->name));
	return k;
}

static int keep_set_found_size(struct keep *k, size_t size)
{
	void *found;

	if (k->found_size == size)
		return 0;
	found = kzalloc(size, GFP_NOIO);
	if (!found)
		return -ENOMEM;
	kfree(k->found);
	k->found = found;
	k->found_size = size;
	return 0;
}

/* ---- disks ---- */

static struct keep_disk *keep_find_disk(const struct gendisk *disk)
{
	struct keep_disk *kd;

	lockdep_assert_held(&keep_lock);

	list_for_each_entry(kd, &keep_disks, node)
		if (kd->disk == disk)
			return kd;
	return NULL;
}

static struct keep *keep_find(const struct keep_disk *kd, const char *name)
{
	struct keep *k;

	lockdep_assert_held(&keep_lock);

	list_for_each_entry(k, &kd->keeps, node)
		if (!strcmp(k->name, name))
			return k;
	return NULL;
}

/* Takes @kd off the list. Its keeps are the caller's, on @keeps. */
static void keep_unlist(struct keep_disk *kd, struct list_head *keeps)
{
	lockdep_assert_held(&keep_lock);

	list_del(&kd->node);
	list_splice(&kd->keeps, keeps);
}

static void keep_put_list(struct list_head *keeps)
{
	struct keep *k, *next;

	/* The scheduler that still uses one does not look at its node. */
	list_for_each_entry_safe(k, next, keeps, node)
		keep_put(k);
}

/* Called by the driver core, in process context. */
static void keep_gone(struct device *dev, void *res)
{
	struct keep_disk *kd = res;
	LIST_HEAD(keeps);

	atomic_inc(&keep_nr_gone);
	spin_lock(&keep_lock);
	keep_unlist(kd, &keeps);
	spin_unlock(&keep_lock);
	keep_put_list(&keeps);
	/* What was done before is visible to keep_exit(). Pairs with its atomic_read_acquire(). */
	atomic_dec_return_release(&keep_nr_gone);
}

static struct keep_disk *keep_alloc_disk(struct gendisk *disk)
{
	struct keep_disk *kd = devres_alloc(keep_gone, sizeof(*kd), GFP_NOIO);

	if (!kd)
		return NULL;
	kd->disk = disk;
	INIT_LIST_HEAD(&kd->keeps);
	return kd;
}

/* The keep of @kd's disk that has the name of @k; from now on that is @k, if there is none. */
static struct keep *keep_find_or_list(struct keep_disk *kd, struct keep *k)
{
	struct keep_disk *known;
	struct keep *found;

	spin_lock(&keep_lock);
	known = keep_find_disk(kd->disk);
	if (!known) {
		known = kd;
		list_add(&kd->node, &keep_disks);
		devres_add(disk_to_dev(kd->disk), kd);
	}
	found = keep_find(known, k->name);
	if (!found) {
		found = k;
		list_add(&k->node, &known->keeps);
	}
	kref_get(&found->ref);
	spin_unlock(&keep_lock);
	if (known != kd)
		devres_free(kd);
	return found;
}

struct keep *keep_get(struct request_queue *q, const struct elevator_queue *eq, size_t found_size)
{
	struct keep *made = keep_alloc(eq), *k = made;
	struct keep_disk *kd;

	if (!made)
		return NULL;
	if (q->disk) {
		kd = keep_alloc_disk(q->disk);
		if (!kd)
			goto err;
		k = keep_find_or_list(kd, made);
		if (k != made)
			keep_put(made);
	}
	if (!keep_set_found_size(k, found_size))
		return k;
err:
	keep_put(k);
	return NULL;
}
EXPORT_SYMBOL_GPL(keep_get);

/* Unloading: no scheduler is left, so all that there is are disks with what is kept for them. */
void keep_exit(void)
{
	struct keep_disk *kd;
	LIST_HEAD(keeps);
	void *res = NULL;

	spin_lock(&keep_lock);
	while ((kd = list_first_entry_or_null(&keep_disks, struct keep_disk, node))) {
		res = devres_remove(disk_to_dev(kd->disk), keep_gone, NULL, NULL);
		if (res)
			keep_unlist(kd, &keeps);
		spin_unlock(&keep_lock);
		if (res)
			devres_free(res);
		else
			msleep(KEEP_EXIT_MS);
		spin_lock(&keep_lock);
	}
	spin_unlock(&keep_lock);
	keep_put_list(&keeps);
	/* Pairs with atomic_dec_return_release() in keep_gone(). */
	while (atomic_read_acquire(&keep_nr_gone))
		msleep(KEEP_EXIT_MS);
	synchronize_rcu_tasks();
}

/* ---- tunables ---- */

static struct keep_text *keep_find_text(const struct keep *k, const char *name)
{
	struct keep_text *t;

	list_for_each_entry(t, &k->texts, node)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

static void keep_drop_text(struct keep *k, const char *name)
{
	struct keep_text *t = keep_find_text(k, name);

	if (!t)
		return;
	list_del(&t->node);
	kfree(t);
}

static int keep_set_text(struct keep *k, const char *name, const char *text)
{
	const struct keep_text *old = keep_find_text(k, name);
	struct keep_text *t;
	size_t text_at = strlen(name) + 1, text_size = strlen(text) + 1;

	if (old && !strcmp(old->name + old->text_at, text))
		return 0;
	t = kmalloc(struct_size(t, name, text_at + text_size), GFP_NOIO);
	if (!t)
		return -ENOMEM;
	t->text_at = text_at;
	memcpy(t->name, name, text_at);
	memcpy(t->name + text_at, text, text_size);
	keep_drop_text(k, name);
	list_add_tail(&t->node, &k->texts);
	return 0;
}

static bool keep_is_one_line(const char *text)
{
	const char *end = strchr(text, '\n');

	return end && end > text && !end[1];
}

void keep_save(struct keep *k, struct elevator_queue *eq)
{
	const struct elv_fs_entry *entry;
	/* A whole page: that is what show() expects. */
	char *page = (char *)get_zeroed_page(GFP_NOIO);
	bool complete = page;

	for (entry = eq->type->elevator_attrs; page && entry->attr.name; entry++) {
		ssize_t length = entry->show && entry->store ? entry->show(eq, page) : 0;

		if (length < 0 || length >= PAGE_SIZE)
			continue;
		page[length] = '\0';
		if (!keep_is_one_line(page))
			keep_drop_text(k, entry->attr.name);
		else if (keep_set_text(k, entry->attr.name, page))
			complete = false;
	}
	free_page((unsigned long)page);
	if (!complete)
		pr_warn_ratelimited("no memory to keep all tunables of %s\n", k->name);
}
EXPORT_SYMBOL_GPL(keep_save);

void keep_restore(const struct keep *k, struct elevator_queue *eq)
{
	const struct elv_fs_entry *entry;
	const struct keep_text *t;

	/* In the order of the table: it has what others depend on first. */
	for (entry = eq->type->elevator_attrs; entry->attr.name; entry++) {
		t = keep_find_text(k, entry->attr.name);
		if (t && entry->store)
			entry->store(eq, t->name + t->text_at, strlen(t->name + t->text_at));
	}
}
EXPORT_SYMBOL_GPL(keep_restore);
