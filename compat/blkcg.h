/* SPDX-License-Identifier: GPL-2.0 */
/*
 * blkcg.h - our declarations of the block cgroup's private interface: what it takes to keep a
 * weight per cgroup and show it in cgroupfs
 *
 * As in private.h, every type here is compared with the target kernel by layout.py.
 */
#ifndef MQFAIR_BLKCG_H
#define MQFAIR_BLKCG_H

#include <linux/blk-cgroup.h>
#include <linux/cgroup.h>

#ifdef CONFIG_BLK_CGROUP

struct blkcg_gq;
struct blkg_policy_data;

/* One cgroup, as the block layer sees it. */
struct blkcg {
	struct cgroup_subsys_state css;
	spinlock_t lock;
	refcount_t online_pin;
	atomic_t congestion_count;
	struct radix_tree_root blkg_tree;
	struct blkcg_gq __rcu *blkg_hint;
	struct hlist_head blkg_list;
	struct blkcg_policy_data *cpd[BLKCG_MAX_POLS];
	struct list_head all_blkcgs_node;
	struct llist_head __percpu *lhead;
#ifdef CONFIG_BLK_CGROUP_FC_APPID
	char fc_app_id[FC_APPID_LEN];
#endif
#ifdef CONFIG_CGROUP_WRITEBACK
	struct list_head cgwb_list;
#endif
};

/* What a policy keeps per cgroup begins with this. */
struct blkcg_policy_data {
	struct blkcg *blkcg;
	int plid;
};

/* A policy's own structures: per cgroup (cpd), and per cgroup and device (pd). */
typedef struct blkcg_policy_data *(blkcg_pol_alloc_cpd_fn)(gfp_t gfp);
typedef void (blkcg_pol_free_cpd_fn)(struct blkcg_policy_data *cpd);
typedef struct blkg_policy_data *(blkcg_pol_alloc_pd_fn)(struct gendisk *disk, struct blkcg *blkcg,
							 gfp_t gfp);
typedef void (blkcg_pol_init_pd_fn)(struct blkg_policy_data *pd);
typedef void (blkcg_pol_online_pd_fn)(struct blkg_policy_data *pd);
typedef void (blkcg_pol_offline_pd_fn)(struct blkg_policy_data *pd);
typedef void (blkcg_pol_free_pd_fn)(struct blkg_policy_data *pd);
typedef void (blkcg_pol_reset_pd_stats_fn)(struct blkg_policy_data *pd);
typedef void (blkcg_pol_stat_pd_fn)(struct blkg_policy_data *pd, struct seq_file *s);

/* A policy: its files in cgroupfs, and the life of its structures. */
struct blkcg_policy {
	int plid;
	struct cftype *dfl_cftypes;
	struct cftype *legacy_cftypes;
	blkcg_pol_alloc_cpd_fn *cpd_alloc_fn;
	blkcg_pol_free_cpd_fn *cpd_free_fn;
	blkcg_pol_alloc_pd_fn *pd_alloc_fn;
	blkcg_pol_init_pd_fn *pd_init_fn;
	blkcg_pol_online_pd_fn *pd_online_fn;
	blkcg_pol_offline_pd_fn *pd_offline_fn;
	blkcg_pol_free_pd_fn *pd_free_fn;
	blkcg_pol_reset_pd_stats_fn *pd_reset_stats_fn;
	blkcg_pol_stat_pd_fn *pd_stat_fn;
};

int blkcg_policy_register(struct blkcg_policy *pol);
void blkcg_policy_unregister(struct blkcg_policy *pol);

static inline struct blkcg *css_to_blkcg(struct cgroup_subsys_state *css)
{
	return css ? container_of(css, struct blkcg, css) : NULL;
}

#endif /* CONFIG_BLK_CGROUP */

#endif /* MQFAIR_BLKCG_H */
