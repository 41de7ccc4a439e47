/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_gpus.c - are the GPUs there, whole, free and alike.
 */
#include "preflight/preflight_gpus.h"

#include <stdio.h>
#include <sys/klog.h>
#include <time.h>

#define KERNEL_LOG_MOST (1 << 20)

/* Bits of NVML's clocks event reasons that no healthy GPU shows before a job. */
static const struct {
	int64_t bit;
	const char *what;
} throttles[] = {
	{ 0x08, "hardware slowdown" },
	{ 0x20, "software thermal slowdown" },
	{ 0x40, "hardware thermal slowdown" },
	{ 0x80, "power brake" },
};
/* XIDs after which the GPU, its memory or its link is not to be trusted until it is reset or
   repaired. */
static const struct {
	int64_t xid;
	const char *what;
} broken[] = {
	{ 48, "double bit ECC error" },	      { 62, "internal micro-controller halt" },
	{ 64, "row remapper failure" },	      { 74, "NVLink error" },
	{ 79, "fallen off the bus" },	      { 92, "high single-bit ECC error rate" },
	{ 95, "uncontained memory error" },   { 110, "security fault" },
	{ 119, "GSP does not answer" },	      { 120, "GSP error" },
	{ 136, "link training failed" },      { 140, "unrecovered ECC error" },
	{ 143, "GPU initialization failed" },
};

/* --- on each node --- */

/* By itself: where the driver hangs, the kernel's log may say why. */
int facts_of_kernel_log(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	_cleanup_free_ char *text = NULL;
	json_t *facts = json_object(), *xids = json_array();
	struct timespec up;
	int len = 0;

	(void)p;
	(void)reterr;
	if (*preflight_root()) {
		text = system_text("/kernel.log", KERNEL_LOG_MOST);
	} else {
		text = xmalloc(KERNEL_LOG_MOST + 1);
		len = klogctl(3 /* SYSLOG_ACTION_READ_ALL */, text, KERNEL_LOG_MOST);
		text[MAX(len, 0)] = 0;
	}
	clock_gettime(CLOCK_BOOTTIME, &up);
	if (text)
		kernel_xids(text, up.tv_sec, xids);
	json_object_set_new(facts, "kernel_log", json_boolean(len >= 0));
	json_object_set_new(facts, "xids", xids);
	*ret = facts;
	return 0;
}

/* "8 x NVIDIA H200, 143,771 MiB": what nodes are compared by; mixed ones are counted. */
static void put_models(json_t *facts, const json_t *gpus)
{
	json_t *models = json_object(), *g, *v;
	json_t *items = facts_group(facts, "gpus");
	const char *key;
	size_t i;

	json_array_foreach(gpus, i, g)
	{
		const char *model = fact_text(g, "model");
		_cleanup_free_ char *name = xasprintf("%s, %s MiB", model ? model : "unknown",
						      thousands(fact_number(g, "memory_mib", -1)));

		json_object_set_new(models, name, json_integer(fact_number(models, name, 0) + 1));
	}
	json_object_set_new(items, "count", json_sprintf("%zu", json_array_size(gpus)));
	json_object_foreach(models, key, v)
	{
		(void)v;
		json_object_set_new(items, "model", text_json(key));
	}
	json_object_set_new(facts, "models", json_integer((json_int_t)json_object_size(models)));
	json_decref(models);
}

static void name_processes(json_t *gpus)
{
	json_t *g, *p;
	size_t i, k;

	json_array_foreach(gpus, i, g) json_array_foreach(json_object_get(g, "processes"), k, p)
	{
		_cleanup_free_ char *path =
		    xasprintf("/proc/%" PRId64 "/comm", fact_number(p, "pid", 0));
		_cleanup_free_ char *name = fact_text(p, "name") ? NULL : system_text(path, 64);

		if (name)
			json_object_set_new(p, "name", text_json(name));
	}
}

int facts_of_gpus(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object(), *gpus = json_array();
	bool made_up = *preflight_root(); /* then the machine's own library is not asked */

	(void)p;
	(void)reterr;
	if (!(!made_up && gpus_by_nvml(facts, gpus)) && !gpus_by_nvidia_smi(facts, gpus) &&
	    !gpus_by_rocm_smi(facts, gpus))
		json_object_set_new(facts, "source", json_string("none"));
	name_processes(gpus);
	put_models(facts, gpus);
	json_object_set_new(facts, "gpus", gpus);
	*ret = facts;
	return 0;
}

/* --- at the judge --- */

struct gpu_rules {
	struct judging *j;
	struct gathered count, trouble, used, strangers, errors, throttle, busy, idle, mixed, xids,
	    old_xids;
	size_t gpus, nodes;
	size_t deaf; /* nodes whose kernel's log may not be read */
};

static bool is_expected(const char *name)
{
	static const char *const harmless[] = {
		"nvidia-cuda-mps", "Xorg", "dcgm", "nv-hostengine", "nvidia-persiste", "nvidia-smi"
	};

	for (size_t i = 0; name && i < ARRAY_SIZE(harmless); i++)
		if (strstr(name, harmless[i]))
			return true;
	return false;
}

static void look_at_processes(struct gpu_rules *r, const struct preflight_node *node,
			      const json_t *g, int64_t index)
{
	const json_t *p;
	size_t i;

	json_array_foreach(json_object_get(g, "processes"), i, p)
	{
		const char *name = fact_text(p, "name");

		if (!is_expected(name))
			gather(&r->strangers, node,
			       xasprintf("GPU %" PRId64 ": %.60s (process %" PRId64 ")", index,
					 name ? name : "a process", fact_number(p, "pid", 0)));
	}
}

static void look_at_errors(struct gpu_rules *r, const struct preflight_node *node, const json_t *g,
			   int64_t index)
{
	static const struct {
		const char *key, *what;
	} marks[] = {
		{ "retire_pending", "pages wait to be retired" },
		{ "remap_pending", "rows wait to be remapped" },
		{ "remap_failed", "a row could not be remapped" },
	};
	int64_t ecc = fact_number(g, "ecc_uncorrected", 0), bits = fact_number(g, "throttle", 0);

	if (ecc > 0)
		gather(&r->errors, node,
		       xasprintf("GPU %" PRId64 ": %s uncorrected ECC error%s", index,
				 thousands(ecc), ecc == 1 ? "" : "s"));
	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (fact_true(g, marks[i].key))
			gather(&r->errors, node,
			       xasprintf("GPU %" PRId64 ": %s", index, marks[i].what));
	for (size_t i = 0; i < ARRAY_SIZE(throttles); i++)
		if (bits & throttles[i].bit)
			gather(&r->throttle, node,
			       xasprintf("GPU %" PRId64 ": %s", index, throttles[i].what));
}

static void look_at_gpu(struct gpu_rules *r, const struct preflight_node *node, const json_t *g)
{
	const int64_t *limits = r->j->plan->limits;
	int64_t index = fact_number(g, "index", -1), used = fact_number(g, "used_mib", 0);
	int64_t busy = fact_number(g, "busy_pct", 0);
	const char *trouble = fact_text(g, "trouble");

	r->gpus++;
	if (trouble)
		gather(&r->trouble, node, xasprintf("GPU %" PRId64 ": %.120s", index, trouble));
	if (used > limits[LIMIT_GPU_USED_MIB])
		gather(&r->used, node,
		       xasprintf("GPU %" PRId64 ": %s MiB in use", index, thousands(used)));
	if (busy > limits[LIMIT_GPU_BUSY_PCT])
		gather(&r->busy, node, xasprintf("GPU %" PRId64 ": %" PRId64 " %%", index, busy));
	if (json_is_false(json_object_get(g, "persistence")))
		gather(&r->idle, node, xasprintf("GPU %" PRId64, index));
	look_at_processes(r, node, g, index);
	look_at_errors(r, node, g, index);
}

static void look_at_xids(struct gpu_rules *r, const struct preflight_node *node)
{
	const json_t *facts = node_facts(node, "kernel-log"), *x;
	size_t i;

	json_array_foreach(json_object_get(facts, "xids"), i, x)
	{
		int64_t xid = fact_number(x, "xid", 0), age = fact_number(x, "age_s", 0);
		const char *bus = fact_text(x, "bus");
		bool young = age <= r->j->plan->limits[LIMIT_XID_HOURS] * 3600;

		for (size_t k = 0; k < ARRAY_SIZE(broken); k++)
			if (broken[k].xid == xid)
				gather(young ? &r->xids : &r->old_xids, node,
				       xasprintf("%.40s: XID %" PRId64 ", %s, %.1f hours ago",
						 bus ? bus : "a GPU", xid, broken[k].what,
						 (double)age / 3600));
	}
}

static int64_t count_of(const json_t *facts)
{
	return (int64_t)json_array_size(json_object_get(facts, "gpus"));
}

/* What most nodes have. */
static int64_t usual_count(const struct judging *j)
{
	int64_t best = -1;
	size_t most = 0;

	for (size_t i = 0; i < j->n; i++) {
		const json_t *facts = node_facts(&j->nodes[i], "gpus");
		int64_t n = facts ? count_of(facts) : -1;
		size_t votes = 0;

		for (size_t k = 0; n >= 0 && k < j->n; k++) {
			const json_t *f = node_facts(&j->nodes[k], "gpus");

			votes += f && count_of(f) == n;
		}
		if (n >= 0 && (votes > most || (votes == most && n > best))) {
			best = n;
			most = votes;
		}
		if (votes > j->n / 2)
			break;
	}
	return best;
}

static void look_at_node(struct gpu_rules *r, const struct preflight_node *node, int64_t wanted)
{
	const json_t *facts = node_facts(node, "gpus"), *g;
	const char *trouble = fact_text(facts, "trouble"), *source = fact_text(facts, "source");
	int64_t n = count_of(facts);
	size_t i;

	if (!facts)
		return;
	r->nodes++;
	r->deaf += json_is_false(json_object_get(node_facts(node, "kernel-log"), "kernel_log"));
	/* Who says how many ranks a node has wants a GPU for each, where there are GPUs. */
	if (r->j->plan->gpus_here < 0 && n && node->ranks > wanted)
		wanted = node->ranks;
	if (trouble)
		gather(&r->trouble, node, xasprintf("%.160s", trouble));
	if (n < wanted)
		gather(&r->count, node,
		       xasprintf("%s of %s GPUs%s", thousands(n), thousands(wanted),
				 source && !strcmp(source, "none")
				     ? " (no NVML, nvidia-smi or rocm-smi there)"
				     : ""));
	if (fact_number(facts, "models", 1) > 1)
		gather(&r->mixed, node,
		       xasprintf("%s kinds of GPU", thousands(fact_number(facts, "models", 1))));
	json_array_foreach(json_object_get(facts, "gpus"), i, g) if (i < 64)
	    look_at_gpu(r, node, g);
}

static void put_gpu_checks(struct judging *j, struct gpu_rules *r)
{
	const int64_t *limits = j->plan->limits;
	_cleanup_free_ char *used =
	    xasprintf("at most %s MiB in use", thousands(limits[LIMIT_GPU_USED_MIB]));
	_cleanup_free_ char *busy =
	    xasprintf("at most %s %% busy before the job", thousands(limits[LIMIT_GPU_BUSY_PCT]));
	_cleanup_free_ char *young = xasprintf("no XID of broken hardware in the last %s hours",
					       thousands(limits[LIMIT_XID_HOURS]));
	const struct row {
		struct gathered *g;
		const char *name;
		enum check_state state;
		const char *well, *limit, *remedy;
	} rows[] = {
		{ &r->trouble, "answer", CHECK_REFUSE, NULL, "every GPU answers",
		  "reset or replace the GPU, load the driver anew" },
		{ &r->mixed, "mixed", CHECK_WARN, NULL, "GPUs of one kind",
		  "the slowest GPU sets the pace: use nodes of one kind" },
		{ &r->used, "memory", CHECK_REFUSE, "memory is free", used,
		  "end what holds the memory, or reset the GPU" },
		{ &r->strangers, "strangers", CHECK_REFUSE, "no other process is on them",
		  "no process of others on a GPU", "end it, or wait for it" },
		{ &r->busy, "busy", CHECK_REFUSE, "they are idle", busy,
		  "end what runs there; with no process on it the GPU needs a reset" },
		{ &r->errors, "errors", CHECK_REFUSE, "no memory error is pending",
		  "no uncorrected ECC error, no page or row to be retired",
		  "reset the GPU (nvidia-smi -r) or drain the node" },
		{ &r->throttle, "throttle", CHECK_REFUSE, "no clock is held down",
		  "no thermal or hardware slowdown", "look at cooling and power of the node" },
		{ &r->xids, "xid", CHECK_REFUSE, NULL, young, "reset the GPU or drain the node" },
		{ &r->old_xids, "old-xid", CHECK_WARN, NULL, young,
		  "make sure that the GPU was reset since" },
		{ &r->idle, "persistence", CHECK_WARN, NULL, "persistence mode is on",
		  "start nvidia-persistenced, or nvidia-smi -pm 1" },
	};

	if (r->gpus && !r->xids.n)
		check_put(j, INVARIANT_GPUS, "xid", CHECK_OK,
			  r->deaf
			      ? xasprintf("not known of %zu node%s: the kernel's log may not be "
					  "read there",
					  r->deaf, r->deaf == 1 ? "" : "s")
			      : xstrdup("no such XID in the kernel's log"),
			  young, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		gathered_put(j, rows[i].g, INVARIANT_GPUS, rows[i].name, rows[i].state,
			     r->gpus && rows[i].well ? xstrdup(rows[i].well) : NULL, rows[i].limit,
			     rows[i].remedy);
}

static void put_count(struct judging *j, struct gpu_rules *r, int64_t asked)
{
	if (!r->gpus && asked <= 0 && !r->trouble.n && !r->count.n)
		check_put(j, INVARIANT_GPUS, "count",
			  j->plan->asked[INVARIANT_GPUS] && asked < 0 ? CHECK_UNKNOWN : CHECK_OK,
			  xstrdup("no GPU on any node, and none was asked for"),
			  "as many GPUs as were asked for", "ask for them by --gpus");
	else
		gathered_put(j, &r->count, INVARIANT_GPUS, "count", CHECK_REFUSE,
			     xasprintf("%s on %zu node%s", thousands((int64_t)r->gpus), r->nodes,
				       r->nodes == 1 ? "" : "s"),
			     asked >= 0 ? "as many GPUs as were asked for"
					: "as many GPUs as other nodes, and as ranks",
			     "reset or replace what is missing, or leave the node out");
}

void rules_of_gpus(struct judging *j)
{
	static const struct same_rule alike = {
		INVARIANT_GPUS,
		"gpus",
		"gpus",
		"alike",
		CHECK_REFUSE,
		false,
		"as many GPUs of the same kind on every node",
		"use nodes of one kind; look at nodes that lack a GPU"
	};
	struct gpu_rules r = { .j = j };
	int64_t usual = usual_count(j), asked = j->plan->gpus_here;
	int64_t wanted = asked >= 0 ? asked : usual;

	for (size_t i = 0; i < j->n; i++) {
		look_at_node(&r, &j->nodes[i], wanted);
		look_at_xids(&r, &j->nodes[i]);
	}
	if (r.nodes) /* else it is said already what became of the probe */
		put_count(j, &r, asked);
	if (r.gpus)
		rule_of_same(j, &alike);
	put_gpu_checks(j, &r);
}
