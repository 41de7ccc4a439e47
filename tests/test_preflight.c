/* SPDX-License-Identifier: Apache-2.0 */
/* test_preflight.c - the judge of the gate on made parts: each invariant's odd node is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "preflight/preflight.h"

#define NODES 4u

/* Nodes n0.. with the facts of one probe each; %s of the form is the node's own text. */
struct made {
	struct preflight_plan plan;
	struct meet_part parts[NODES];
	char *texts[NODES], names[NODES][8];
	json_t *verdict;
};

static void made_nodes(struct made *m, const char *invariant, const char *probe, const char *form,
		       const char *usual, const char *odd)
{
	*m = (struct made){ 0 };
	preflight_plan_init(&m->plan);
	m->plan.gpus_here = 1;		     /* the made ones have one each, and eight ranks */
	for (int i = 0; i < INVARIANTS; i++) /* the made ones look at one of them */
		if (strcmp(invariant_name((enum invariant)i), invariant) != 0)
			m->plan.strict[i] = STRICT_OFF;
	for (unsigned i = 0; i < NODES; i++) {
		char *facts = malloc(4096);

		/* The third is the odd one. */
		snprintf(facts, 4096, "%.*s%s%s", (int)(strchr(form, '@') - form), form,
			 i == 2 ? odd : usual, strchr(form, '@') + 1);
		m->texts[i] = xasprintf(
		    "{\"lockstep_preflight\":1,\"host\":\"h\",\"first_rank\":%u,\"ranks_here\":8,"
		    "\"probes\":[{\"name\":\"%s\",\"invariant\":\"%s\",\"state\":\"done\","
		    "\"facts\":%s}]}",
		    8 * i, probe, invariant, facts);
		free(facts);
		snprintf(m->names[i], sizeof(m->names[i]), "n%u", i);
		m->parts[i] = (struct meet_part){ .node = i,
						  .name = m->names[i],
						  .presence = MEET_CAME,
						  .part = (uint8_t *)m->texts[i],
						  .part_len = strlen(m->texts[i]),
						  .clock_ns = 0 };
	}
}

static void judge(struct made *m)
{
	json_decref(m->verdict);
	m->verdict = preflight_judge(&m->plan, m->parts, NODES);
}

static void made_done(struct made *m)
{
	for (unsigned i = 0; i < NODES; i++)
		free(m->texts[i]);
	json_decref(m->verdict);
}

static const json_t *check_named(const struct made *m, const char *invariant, const char *name)
{
	const json_t *checks = json_object_get(m->verdict, "checks"), *c;
	size_t i;

	json_array_foreach(
	    checks, i,
	    c) if (!strcmp(json_string_value(json_object_get(c, "invariant")), invariant) &&
		   !strcmp(json_string_value(json_object_get(c, "name")), name)) return c;
	return NULL;
}

/* The check is there, in this state, and names the odd node alone. */
static void assert_odd(const struct made *m, const char *invariant, const char *name,
		       const char *state)
{
	const json_t *c = check_named(m, invariant, name);
	const json_t *hosts = json_object_get(c, "hosts");

	assert_non_null(c);
	assert_string_equal(json_string_value(json_object_get(c, "state")), state);
	assert_int_equal(json_array_size(hosts), 1);
	assert_string_equal(json_string_value(json_array_get(hosts, 0)), "n2");
	assert_non_null(json_string_value(json_object_get(c, "limit")));
	assert_non_null(json_string_value(json_object_get(c, "remedy")));
	/* Its ranks too. */
	assert_int_equal(json_array_size(json_object_get(c, "ranks")), 8);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(c, "ranks"), 0)), 16);
}

static const struct odd_case {
	const char *invariant, *probe, *form, *usual, *odd, *name, *state;
} cases[] = {
	{ "agreement", "environment", "{\"items\":{\"environment\":{\"NCCL_ALGO\":@}}}", "\"Ring\"",
	  "\"Tree\"", "environment", "refuse" },
	{ "agreement", "environment", "{\"items\":{\"environment\":{@}}}", "", "\"NCCL_A\":\"1\"",
	  "environment", "refuse" },
	{ "agreement", "versions", "{\"items\":{\"versions\":{\"torch\":@}}}", "\"2.13.0\"",
	  "\"2.12.1\"", "versions", "refuse" },
	{ "agreement", "versions", "{\"items\":{\"platform\":{\"kernel\":@}}}", "\"6.1\"",
	  "\"6.8\"", "platform", "warn" },
	{ "agreement", "code", "{\"items\":{\"code\":{\"commit\":@}}}", "\"a\"", "\"b\"", "code",
	  "refuse" },
	{ "agreement", "config", "{\"items\":{\"config\":{\"f: lr\":@}}}", "\"1\"", "\"2\"",
	  "config", "refuse" },
	{ "agreement", "data", "{\"items\":{\"data\":{\"x.bin\":@}}}", "\"5\"", "\"6\"", "data",
	  "refuse" },
	{ "agreement", "data", "{\"items\":{\"data times\":{\"x.bin\":@}}}", "\"5\"", "\"6\"",
	  "data-times", "warn" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"used_mib\":@}]}", "4", "70000", "memory",
	  "refuse" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"busy_pct\":@}]}", "0", "100", "busy",
	  "refuse" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"ecc_uncorrected\":@}]}", "0", "1", "errors",
	  "refuse" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"remap_failed\":@}]}", "false", "true",
	  "errors", "refuse" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"throttle\":@}]}", "1", "65", "throttle",
	  "refuse" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"persistence\":@}]}", "true", "false",
	  "persistence", "warn" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0,\"processes\":@}]}", "[]",
	  "[{\"pid\":5,\"name\":\"python\"}]", "strangers", "refuse" },
	{ "gpus", "gpus", "{\"gpus\":[{\"index\":0}],\"items\":{\"gpus\":{\"model\":@}}}",
	  "\"H100\"", "\"A100\"", "alike", "refuse" },
	{ "gpus", "kernel-log", "{\"xids\":@}", "[]", "[{\"xid\":79,\"bus\":\"b\",\"age_s\":60}]",
	  "xid", "refuse" },
	{ "fabric", "fabric", "{\"items\":{\"mtu\":{\"eth0\":@}}}", "\"9000\"", "\"1500\"", "mtu",
	  "refuse" },
	{ "fabric", "fabric", "{\"items\":{\"rdma\":{\"mlx5_0/1\":@}}}", "\"ACTIVE\"", "\"DOWN\"",
	  "rdma", "refuse" },
	{ "fabric", "fabric", "{\"rdma\":[{\"port\":\"m/1\",\"state\":@}]}", "\"ACTIVE\"",
	  "\"INIT\"", "ports", "refuse" },
	{ "fabric", "fabric", "{\"contradictions\":@}", "[]",
	  "[{\"text\":\"A with B\",\"hard\":true}]", "variables", "refuse" },
	{ "fabric", "rendezvous", "{\"place\":\"h:1\",\"address\":\"a\",@}",
	  "\"answer\":\"refused\"", "\"answer\":\"No route to host\"", "rendezvous", "refuse" },
	{ "storage", "storage", "{\"folder\":\"/c\",\"writable\":@}", "true",
	  "false,\"why\":\"No space left on device\"", "write", "refuse" },
	{ "storage", "storage", "{\"newest_bytes\":1000,\"free_bytes\":@}", "2000", "1999", "room",
	  "refuse" },
	{ "storage", "storage", "{\"free_bytes\":5,\"free_inodes\":@}", "20000", "9", "inodes",
	  "refuse" },
	{ "storage", "storage", "{\"items\":{\"storage\":{\"/c\":@}}}", "\"s:/e nfs4\"",
	  "\"/dev/sda ext4\"", "shared", "warn" },
	{ "storage", "storage", "{\"shm_free_mib\":@}", "9000", "64", "shm", "warn" },
	{ "storage", "storage", "{\"open_files\":@}", "65536", "1024", "open-files", "warn" },
};

static void each_odd_node_is_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct odd_case *c = &cases[i];
		struct made m;

		made_nodes(&m, c->invariant, c->probe, c->form, c->usual, c->odd);
		judge(&m);
		print_message("%s.%s\n", c->invariant, c->name);
		assert_odd(&m, c->invariant, c->name, c->state);
		assert_int_equal(preflight_status(m.verdict), !strcmp(c->state, "refuse"));
		made_done(&m);
	}
}

static void nodes_that_agree_are_not_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct odd_case *c = &cases[i];
		const json_t *check;
		struct made m;

		made_nodes(&m, c->invariant, c->probe, c->form, c->usual, c->usual);
		judge(&m);
		check = check_named(&m, c->invariant, c->name);
		if (check && strcmp(c->name, "rendezvous")) /* there nobody has the address */
			assert_string_equal(json_string_value(json_object_get(check, "state")),
					    "ok");
		made_done(&m);
	}
}

static void alike_but_unreadable_or_without_a_step_is_not_ready(void **state)
{
	static const struct {
		const char *invariant, *probe, *form, *name, *told;
		int status;
	} said[] = {
		{ "agreement", "data", "{\"items\":{\"data\":{\"/d\":\"cannot be read: No\"@}}}",
		  "data", "refuse", 1 },
		{ "agreement", "config", "{\"items\":{\"config\":{\"f\":\"cannot be read: No\"@}}}",
		  "config", "refuse", 1 },
		{ "agreement", "data", "{\"items\":{\"data\":{\"/d/x\":\"not read: No\"@}}}",
		  "data", "ok", 0 },
		{ "blocks", "blocks",
		  "{\"given\":true,\"ranks\":2,\"digest\":\"d\",\"runs\":[{\"first\":0,\"blocks\":["
		  "7,5]@}]}",
		  "balance", "refuse", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		struct made m;
		const json_t *c;

		made_nodes(&m, said[i].invariant, said[i].probe, said[i].form, "", "");
		m.plan.blocks_per_step = 8;
		judge(&m);
		c = check_named(&m, said[i].invariant, said[i].name);
		assert_string_equal(json_string_value(json_object_get(c, "state")), said[i].told);
		assert_int_equal(preflight_status(m.verdict), said[i].status);
		made_done(&m);
	}
}

static void a_tie_names_both_sides(void **state)
{
	struct made m;

	(void)state;
	made_nodes(&m, "agreement", "code", "{\"items\":{\"code\":{\"commit\":@}}}", "\"a\"",
		   "\"b\"");
	/* The fourth sides with the odd one. */
	free(m.texts[3]);
	m.texts[3] = xstrdup(m.texts[2]);
	m.parts[3].part = (uint8_t *)m.texts[3];
	m.parts[3].part_len = strlen(m.texts[3]);
	judge(&m);
	assert_int_equal(
	    json_array_size(json_object_get(check_named(&m, "agreement", "code"), "hosts")), 4);
	made_done(&m);
}

static void a_wrong_clock_is_named_even_if_it_is_the_judges(void **state)
{
	struct made m;

	(void)state;
	made_nodes(&m, "fabric", "fabric", "{@}", "", "");
	m.parts[2].clock_ns = 700000000;
	m.parts[2].clock_doubt_ns = 1000000;
	judge(&m);
	assert_odd(&m, "fabric", "clock", "refuse");
	/* All others are ahead of node 0 by as much. */
	m.parts[1].clock_ns = m.parts[3].clock_ns = 700000000;
	judge(&m);
	assert_string_equal(json_string_value(json_array_get(
				json_object_get(check_named(&m, "fabric", "clock"), "hosts"), 0)),
			    "n0");
	/* What is within the doubt is no fault, and what is unknown none either. */
	m.parts[1].clock_ns = m.parts[3].clock_ns = 0;
	m.parts[2].clock_doubt_ns = 300000000;
	m.parts[1].clock_ns = INT64_MIN;
	judge(&m);
	assert_string_equal(
	    json_string_value(json_object_get(check_named(&m, "fabric", "clock"), "state")), "ok");
	made_done(&m);
}

static void nodes_that_did_not_come_refuse_whatever_is_off(void **state)
{
	static const enum meet_presence all[] = { MEET_ABSENT, MEET_LOST, MEET_IMPOSTOR,
						  MEET_MISFIT };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct made m;

		made_nodes(&m, "fabric", "fabric", "{@}", "", "");
		for (int k = 0; k < INVARIANTS; k++)
			m.plan.strict[k] = STRICT_OFF;
		m.parts[2].presence = all[i];
		m.parts[2].part = NULL;
		if (all[i] >= MEET_IMPOSTOR)
			m.parts[2].node = UINT32_MAX;
		if (all[i] == MEET_IMPOSTOR)
			m.parts[3].presence = MEET_ABSENT;
		judge(&m);
		assert_int_equal(preflight_status(m.verdict), 1);
		assert_non_null(strstr(json_string_value(json_object_get(
					   check_named(&m, "agreement", "presence"), "measured")),
				       "n2"));
		made_done(&m);
	}
}

/* Else anybody who reaches the port could keep a job from starting. */
static void an_impostor_refuses_only_where_a_node_is_not_there(void **state)
{
	static const struct {
		uint32_t claims;
		enum meet_presence second, third;
		const char *name, *told;
	} said[] = {
		{ 1, MEET_CAME, MEET_CAME, "stranger", "warn" },
		{ UINT32_MAX, MEET_CAME, MEET_CAME, "stranger", "warn" },
		{ 77, MEET_CAME, MEET_CAME, "stranger", "warn" },
		{ 1, MEET_ABSENT, MEET_CAME, "presence", "refuse" },
		{ 1, MEET_CAME, MEET_ABSENT, "stranger", "warn" },
		{ UINT32_MAX, MEET_CAME, MEET_LOST, "presence", "refuse" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
		bool away = said[i].second || said[i].third;
		const json_t *c;
		struct made m;

		made_nodes(&m, "agreement", "code", "{@}", "", "");
		m.parts[1].presence = said[i].second;
		m.parts[2].presence = said[i].third;
		m.parts[3].presence = MEET_IMPOSTOR;
		m.parts[3].node = said[i].claims;
		m.parts[3].address = (char *)(uintptr_t) "10.0.0.9";
		judge(&m);
		c = check_named(&m, "agreement", said[i].name);
		assert_string_equal(json_string_value(json_object_get(c, "state")), said[i].told);
		assert_int_equal(preflight_status(m.verdict), away);
		made_done(&m);
	}
}

static void facts_that_are_none_refuse(void **state)
{
	struct made m;

	(void)state;
	made_nodes(&m, "fabric", "fabric", "{@}", "", "");
	m.parts[2].part_len = 20;
	judge(&m);
	assert_int_equal(preflight_status(m.verdict), 1);
	made_done(&m);
}

/* A node that says the most that it may cannot make the verdict larger than can be sent. */
static void parts_of_any_size_make_a_small_verdict(void **state)
{
	static const char *const rows[] = {
		"{\"name\":\"gpus\",\"invariant\":\"gpus\",\"state\":\"failed\"},",
		"{\"name\":5,\"invariant\":[],\"state\":{}},",
		("{\"name\":\"gpus\",\"invariant\":\"gpus\",\"state\":\"done\",\"facts\":{\"gpus\":"
		 "["
		 "{},5]}},"),
		"[[[[[[]]]]]],",
	};

	(void)state;
	for (size_t k = 0; k <= ARRAY_SIZE(rows); k++) {
		struct made m;
		struct buf b = { 0 };
		char *text;

		made_nodes(&m, "gpus", "gpus", "{@}", "", "");
		buf_put(
		    &b,
		    "{\"lockstep_preflight\":1,\"first_rank\":-9,\"ranks_here\":1e3,\"error\":\"",
		    66);
		for (size_t i = 0; k == ARRAY_SIZE(rows) && i < 300000; i++)
			buf_put(&b, "y", 1);
		buf_put(&b, "\",\"probes\":[", 12);
		while (k < ARRAY_SIZE(rows) && b.len < 400000)
			buf_put(&b, rows[k], strlen(rows[k]));
		buf_put(&b, "{}]}", 4);
		for (unsigned i = 0; i < NODES; i++) {
			m.parts[i].part = b.data;
			m.parts[i].part_len = b.len;
		}
		judge(&m);
		text = json_dumps(m.verdict, 0);
		assert_in_range(strlen(text), 2, 1 << 20);
		free(text);
		buf_done(&b);
		made_done(&m);
	}
}

static void strictness_of_a_check_goes_before_its_invariants(void **state)
{
	struct error error;
	struct made m;

	(void)state;
	made_nodes(&m, "storage", "storage", "{\"open_files\":@}", "65536", "1024");
	assert_int_equal(
	    preflight_strict(&m.plan, "storage=warn,storage.open-files=refuse", &error), 0);
	judge(&m);
	assert_odd(&m, "storage", "open-files", "refuse");
	assert_int_equal(preflight_strict(&m.plan, "storage.open-files=off", &error), 0);
	judge(&m);
	assert_null(check_named(&m, "storage", "open-files"));
	made_done(&m);
}

static void counts_are_joined_from_all_nodes(void **state)
{
	struct made m;

	(void)state;
	made_nodes(&m, "blocks", "blocks", "{\"given\":true,\"runs\":[{\"first\":@}],\"ranks\":32}",
		   "", "");
	for (unsigned i = 0; i < NODES; i++) {
		free(m.texts[i]);
		m.texts[i] = xasprintf(
		    "{\"lockstep_preflight\":1,\"host\":\"h\",\"first_rank\":%u,\"ranks_here\":2,"
		    "\"probes\":[{\"name\":\"blocks\",\"invariant\":\"blocks\",\"state\":\"done\","
		    "\"facts\":{\"given\":true,\"runs\":[{\"first\":%u,\"blocks\":[80,%u]}]}}]}",
		    2 * i, 2 * i, i == 2 ? 72 : 80);
		m.parts[i].part = (uint8_t *)m.texts[i];
		m.parts[i].part_len = strlen(m.texts[i]);
	}
	m.plan.blocks_per_step = 8;
	m.plan.world_size = 8;
	judge(&m);
	assert_int_equal(preflight_status(m.verdict), 1);
	assert_int_equal(json_integer_value(json_array_get(
			     json_object_get(check_named(&m, "blocks", "balance"), "ranks"), 0)),
			 5);
	assert_null(check_named(&m, "blocks", "ranks"));
	made_done(&m);
}

static void lists_are_checked(void **state)
{
	struct preflight_plan p;
	struct error error;

	(void)state;
	preflight_plan_init(&p);
	assert_int_equal(preflight_limits(&p, "skew-ms=7,shm-mib=0", &error), 0);
	assert_int_equal(p.limits[LIMIT_SKEW_MS], 7);
	assert_int_equal(preflight_limits(&p, "skew-ms", &error), -EINVAL);
	assert_int_equal(preflight_limits(&p, "skew-ms=-1", &error), -EINVAL);
	assert_int_equal(preflight_limits(&p, "skew=1", &error), -EINVAL);
	assert_int_equal(preflight_choose(&p, "", true, &error), -EINVAL);
	assert_int_equal(preflight_choose(&p, "gpus", true, &error), 0);
	assert_int_equal(p.strict[INVARIANT_GPUS], STRICT_REFUSE);
	assert_int_equal(p.strict[INVARIANT_BLOCKS], STRICT_OFF);
	assert_int_equal(preflight_strict(&p, "gpus=perhaps", &error), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_odd_node_is_named),
		cmocka_unit_test(nodes_that_agree_are_not_named),
		cmocka_unit_test(alike_but_unreadable_or_without_a_step_is_not_ready),
		cmocka_unit_test(a_tie_names_both_sides),
		cmocka_unit_test(a_wrong_clock_is_named_even_if_it_is_the_judges),
		cmocka_unit_test(nodes_that_did_not_come_refuse_whatever_is_off),
		cmocka_unit_test(an_impostor_refuses_only_where_a_node_is_not_there),
		cmocka_unit_test(facts_that_are_none_refuse),
		cmocka_unit_test(parts_of_any_size_make_a_small_verdict),
		cmocka_unit_test(strictness_of_a_check_goes_before_its_invariants),
		cmocka_unit_test(counts_are_joined_from_all_nodes),
		cmocka_unit_test(lists_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
