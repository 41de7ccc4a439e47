/* SPDX-License-Identifier: Apache-2.0 */
/* test_fr.c - Flight Recorder dumps: what they say, and what they cannot make us do. */
#include "dump_helpers.h"
#include "pickle_bytes.h"

#include "read/fr.h"
#include "read/fr_inside.h"

#define NAME "nccl_trace_rank_3"

static const struct p_call done = { "nccl:all_reduce", "completed", 11, 1024, true, NULL };
static const struct p_call hangs = { "nccl:all_reduce", "scheduled", 12, 1024, false, NULL };

static void hear_pickle(struct heard *h, const struct pickle_bytes *p)
{
	hear(h, p->b.data, p->b.len, NAME, 0);
}

static void hear_text(struct heard *h, const char *json)
{
	hear(h, json, strlen(json), "fr_rank3.json", 0);
}

static void a_dump_says_what_its_rank_called(void **state)
{
	struct pickle_bytes p;
	struct heard h;
	char *text;

	(void)state;
	p_begin(&p);
	p_entry(&p, &done);
	p_entry(&p, &hangs);
	p_end(&p);
	hear_pickle(&h, &p);
	assert_int_equal(h.status, 0);
	assert_string_equal(h.error.text, "");
	assert_int_equal(h.stats.events, 2);
	text = heard_text(&h, true);
	assert_string_equal(
	    text, "rank 3 host - world 4 time 1750000000000000012 version 2.10 dropped 0\n"
		  "group 0/default_pg [0, 1, 2, 3]\n"
		  "status 0 of 3: 12 -1 11\n"
		  "entry 0/default_pg #11 op 11 record 111 nccl:all_reduce=all_reduce "
		  "[[1024, 4]]=4096 Float -> [[1024]]=1024 BFloat16 -1->-1 state 2 retired 1 p2p 0 "
		  "timeout 600000 at 1750000000000000011 -1 -1\n"
		  "entry 0/default_pg #12 op 12 record 112 nccl:all_reduce=all_reduce "
		  "[[1024, 4]]=4096 Float -> [[1024]]=1024 BFloat16 -1->-1 state 0 retired 0 p2p 0 "
		  "timeout 600000 at 1750000000000000012 -1 -1\n"
		  "frames all_reduce (/job/train.py:2810)\nmain (/job/train.py:15)\n");
	free(text);
	heard_done(&h);
	buf_done(&p.b);
}

/* Opcodes that push and drop a value take an entry off the short way. */
static void the_short_way_gives_the_same(void **state)
{
	static const char *const names[] = { "nccl:all_reduce", "nccl:_all_gather_base",
					     "nccl:broadcast" };
	struct pickle_bytes p[2];
	struct heard h[2];
	char *text[2];

	(void)state;
	for (int way = 0; way < 2; way++) {
		p_begin(&p[way]);
		for (int i = 0; i < 3000; i++) {
			struct p_call c = done;

			c.name = names[i % 3];
			c.seq = i * 100;
			c.dim = i % 7 * 1000;
			c.state = i % 11 ? "completed" : "scheduled";
			c.retired = i % 5;
			c.before = way ? "N0" : NULL;
			p_entry(&p[way], &c);
		}
		p_end(&p[way]);
		hear_pickle(&h[way], &p[way]);
		assert_int_equal(h[way].status, 0);
		assert_int_equal(h[way].t->entries.n, 3000);
		text[way] = heard_text(&h[way], true);
	}
	assert_string_equal(text[0], text[1]);
	for (int way = 0; way < 2; way++) {
		free(text[way]);
		heard_done(&h[way]);
		buf_done(&p[way].b);
	}
}

static void pieces_make_no_difference(void **state)
{
	static const size_t steps[] = { 1, 3, 100, 4097 };
	struct pickle_bytes p;
	struct heard whole;
	char *text;

	(void)state;
	p_begin(&p);
	for (int i = 0; i < 900; i++) {
		struct p_call c = i == 899 ? hangs : done;

		c.seq = i;
		p_entry(&p, &c);
	}
	p_end(&p);
	hear_pickle(&whole, &p);
	text = heard_text(&whole, true);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct heard h;
		char *again;

		hear(&h, p.b.data, p.b.len, NAME, steps[i]);
		again = heard_text(&h, true);
		assert_string_equal(again, text);
		free(again);
		heard_done(&h);
	}
	free(text);
	heard_done(&whole);
	buf_done(&p.b);
}

static void a_program_is_refused_by_name_and_place(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *name;
	} rows[] = {
		{ "cposix\nsystem\n", 14, "GLOBAL would import code" },
		{ "\x93", 1, "STACK_GLOBAL would import code" },
		{ "iposix\nsystem\n", 14, "INST would import and call code" },
		{ "o", 1, "OBJ would call code" },
		{ "R", 1, "REDUCE would call code" },
		{ "b", 1, "BUILD would call code" },
		{ "\x81", 1, "NEWOBJ would call code" },
		{ "\x92", 1, "NEWOBJ_EX would call code" },
		{ "Pid\n", 4, "PERSID would fetch an object from elsewhere" },
		{ "Q", 1, "BINPERSID would fetch an object from elsewhere" },
		{ "\x82\x01", 2, "EXT1 would import code" },
		{ "\x83\x01\x00", 3, "EXT2 would import code" },
		{ "\x84\x01\x00\x00\x00", 5, "EXT4 would import code" },
		{ "\x97", 1, "NEXT_BUFFER would fetch a buffer from elsewhere" },
		{ "\x98", 1, "READONLY_BUFFER would fetch a buffer from elsewhere" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct pickle_bytes p;
		struct heard h;
		char line[160];

		p_begin(&p);
		p_entry(&p, &done);
		snprintf(line, sizeof(line), "offset %zu: %s: refused, nothing was run", p.b.len,
			 rows[i].name);
		p_raw(&p, rows[i].bytes, rows[i].len);
		p_end(&p);
		hear_pickle(&h, &p);
		assert_int_equal(h.status, -EPERM);
		assert_null(h.t);
		assert_string_equal(h.error.text, line);
		buf_done(&p.b);
	}
}

static void a_program_without_a_dump_is_refused_too(void **state)
{
	static const char exploit[] =
	    "\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x94\x8c\x06system"
	    "\x94\x93\x94\x8c\x02id\x94\x85\x94R\x94.";
	struct heard h;

	(void)state;
	hear(&h, exploit, sizeof(exploit) - 1, NAME, 0);
	assert_int_equal(h.status, -EPERM);
	assert_string_equal(h.error.text, "offset 28: STACK_GLOBAL would import code: refused, "
					  "nothing was run");
	/* Elsewhere it is no dump at all. */
	hear(&h, exploit, sizeof(exploit) - 1, "model.pkl", 0);
	assert_int_equal(h.status, -ENOENT);
}

static void truncation_keeps_whole_entries(void **state)
{
	struct pickle_bytes p;
	size_t second = 0, entries = 0;

	(void)state;
	p_begin(&p);
	p_entry(&p, &done);
	second = p.b.len;
	p_entry(&p, &hangs);
	p_end(&p);
	for (size_t len = 2; len < p.b.len; len++) {
		struct heard h;

		hear(&h, p.b.data, len, NAME, 0);
		if (h.status < 0) {
			/* Before a whole member of the header there is nothing to say. */
			assert_true(len < 60);
			continue;
		}
		assert_true(h.t->entries.n >= entries);
		entries = h.t->entries.n;
		assert_int_equal(h.stats.skipped[SKIP_TRUNCATED], 1);
		assert_non_null(strstr(h.error.text, "the dump ends in the middle"));
		assert_int_equal(entries, len < second ? 0 : len < p.b.len - 5 ? 1 : 2);
		heard_done(&h);
	}
	assert_int_equal(entries, 2);
	buf_done(&p.b);
}

/* 87 bytes are what is left of a dump whose writer was killed. */
static void eighty_seven_bytes_say_that_the_rank_lived(void **state)
{
	struct pickle_bytes p;
	struct heard h;

	(void)state;
	p_begin(&p);
	hear(&h, p.b.data, 87, NAME, 0);
	assert_int_equal(h.status, 0);
	assert_false(testimony_empty(h.t));
	assert_int_equal(h.t->rank, 3);
	assert_int_equal(h.t->version_minor, 10);
	assert_int_equal(h.t->entries.n, 0);
	assert_int_equal(h.stats.skipped[SKIP_TRUNCATED], 1);
	heard_done(&h);
	buf_done(&p.b);
}

static void an_empty_dump_says_that_the_rank_lived(void **state)
{
	static const char off[] = "{\"version\": \"2.10\", \"pg_config\": {}, \"pg_status\": {}, "
				  "\"comm_lib_version\": \"\", \"nccl_comm_state\": {}}";
	struct pickle_bytes p;
	struct heard h;

	(void)state;
	p_begin(&p);
	p_end(&p);
	hear_pickle(&h, &p);
	assert_int_equal(h.status, 0);
	assert_string_equal(h.error.text, "");
	assert_int_equal(h.t->entries.n, 0);
	assert_false(testimony_empty(h.t));
	heard_done(&h);
	buf_done(&p.b);
	hear_text(&h, off);
	assert_int_equal(h.status, 0);
	assert_false(testimony_empty(h.t));
	heard_done(&h);
}

/* What follows the entry in front of it must not take that away. */
static void hear_behind_an_entry(struct heard *h, const char *bytes, size_t len)
{
	struct pickle_bytes p;

	p_begin(&p);
	p_entry(&p, &done);
	p_raw(&p, bytes, len);
	p_end(&p);
	hear_pickle(h, &p);
	buf_done(&p.b);
}

static void absurd_lengths_are_no_allocation(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *text;
	} rows[] = {
		{ "X\xff\xff\xff\xff", 5, "ends in the middle" },
		{ "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f", 9, "ends in the middle" },
		{ "B\xff\xff\xff\xff", 5, "ends in the middle" },
		{ "\x8e\0\0\0\0\0\0\0\x80", 9, "ends in the middle" },
		{ "\x8b\xff\xff\xff\x7f", 5, "ends in the middle" },
		{ "r\xff\xff\xff\xff", 5, "a memo number that no pickler gives" },
		{ "j\xff\xff\xff\xff", 5, "a memo that was never put" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct heard h;

		hear_behind_an_entry(&h, rows[i].bytes, rows[i].len);
		assert_int_equal(h.status, 0);
		assert_int_equal(h.t->entries.n, 1);
		assert_non_null(strstr(h.error.text, rows[i].text));
		heard_done(&h);
	}
}

static void containers_that_hold_themselves_do_no_harm(void **state)
{
	/* A list in itself; a dictionary as its own value; a billion of laughs. */
	static const char own_list[] = "]r\xc8\0\0\0j\xc8\0\0\0a0";
	static const char own_dict[] = "}r\xc8\0\0\0X\1\0\0\0kj\xc8\0\0\0s0";
	struct pickle_bytes p;
	struct heard h;

	(void)state;
	hear_behind_an_entry(&h, own_list, sizeof(own_list) - 1);
	assert_int_equal(h.status, 0);
	assert_string_equal(h.error.text, "");
	heard_done(&h);
	hear_behind_an_entry(&h, own_dict, sizeof(own_dict) - 1);
	assert_int_equal(h.status, 0);
	assert_string_equal(h.error.text, "");
	heard_done(&h);

	p_begin(&p);
	p_op(&p, "}(");
	p_words(&p, "profiling_name", "nccl:all_reduce");
	p_text(&p, "input_sizes");
	p_op(&p, "]r\xc8\0\0\0");
	for (unsigned i = 0; i < 40; i++) { /* each holds the one before ten times */
		p_op(&p, "](");
		for (unsigned k = 0; k < 10; k++) {
			p_op(&p, "j");
			p_le(&p, 200 + i, 4);
		}
		p_op(&p, "er");
		p_le(&p, 201 + i, 4);
	}
	p_op(&p, "u");
	p_end(&p);
	hear_pickle(&h, &p);
	assert_int_equal(h.status, 0);
	assert_string_equal(h.error.text, "");
	assert_int_equal(h.t->entries.n, 1);
	heard_done(&h);
	buf_done(&p.b);
}

static void depth_is_limited(void **state)
{
	struct pickle_bytes p;
	struct heard h;
	char json[512];

	(void)state;
	p_begin(&p);
	p_entry(&p, &done);
	for (unsigned i = 0; i < PILE_DEPTH_MAX; i++)
		p_op(&p, "](");
	p_end(&p);
	hear_pickle(&h, &p);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->entries.n, 1);
	assert_non_null(strstr(h.error.text, "nested too deep"));
	heard_done(&h);
	buf_done(&p.b);

	snprintf(
	    json, sizeof(json), "{\"pg_status\": {}, \"x\": %.*s", 300,
	    "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
	hear_text(&h, json);
	assert_int_equal(h.status, 0);
	assert_non_null(strstr(h.error.text, "nested too deep"));
	heard_done(&h);
}

static void versions_to_come_are_read_by_what_is_known(void **state)
{
	struct pickle_bytes p;
	struct heard h;

	(void)state;
	p_begin(&p);
	p_op(&p, "}(");
	p_words(&p, "profiling_name", "nccl:all_gather");
	p_text(&p, "peers");
	p_op(&p, "}(");
	p_member(&p, "split", 5);
	p_text(&p, "more");
	p_op(&p, "](G\x3f\xf0\0\0\0\0\0\0\x8b\x09\0\0\0abcdefghi\x8f(K\1K\2\x90)eu");
	p_text(&p, "blob");
	p_op(&p, "C\3abc");
	p_member(&p, "collective_seq_id", 77);
	p_text(&p, "timeout_ms");
	p_op(&p, "G\x40\xf8\x6a\0\0\0\0\0"); /* 100000.0 */
	p_words(&p, "state", "paused");
	p_op(&p, "u");
	p_end(&p);
	memcpy(memmem(p.b.data, p.b.len, "2.10", 4), "3.04", 4);
	hear_pickle(&h, &p);
	assert_int_equal(h.status, 0);
	assert_string_equal(h.error.text, "");
	assert_int_equal(h.t->version_major, 3);
	assert_int_equal(h.t->entries.n, 1);
	assert_int_equal(h.t->entries.v[0].seq, 77);
	assert_int_equal(h.t->entries.v[0].timeout_ms, 100000);
	assert_int_equal(h.t->entries.v[0].state, OP_STATE_UNKNOWN);
	heard_done(&h);
	buf_done(&p.b);
}

static void versions_of_old_are_read(void **state)
{
	static const char json[] =
	    "{\"version\": \"1.5\", \"entries\": ["
	    "{\"pg_id\": 2, \"seq_id\": 9, \"profiling_name\": \"nccl:all_reduce\", \"state\": "
	    "\"scheduled\", \"time_created_us\": 1700000000000001},"
	    "{\"pg_id\": 2, \"process_group\": \"7\", \"collective_seq_id\": 4, \"p2p_seq_id\": 6, "
	    "\"profiling_name\": \"nccl:recv 3<-0\", \"state\": \"started\"}]}";
	struct heard h;

	(void)state;
	hear_text(&h, json);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->entries.n, 2);
	assert_int_equal(h.t->entries.v[0].seq, 9);
	assert_int_equal(h.t->entries.v[0].created_ns, 1700000000000001000);
	assert_string_equal(text_of(h.t, h.t->groups.v[h.t->entries.v[0].group].name), "2");
	assert_int_equal(h.t->signatures.v[h.t->entries.v[0].signature].in_elements, -1);
	assert_true(h.t->entries.v[1].p2p);
	assert_int_equal(h.t->entries.v[1].seq, 6);
	assert_string_equal(text_of(h.t, h.t->groups.v[h.t->entries.v[1].group].name), "7");
	heard_done(&h);
}

static void operations_are_known_by_their_names(void **state)
{
	static const struct {
		const char *name;
		enum comm_op op;
		int source, target;
	} rows[] = {
		{ "nccl:all_reduce", COMM_ALL_REDUCE, -1, -1 },
		{ "nccl:all_reduce_coalesced", COMM_ALL_REDUCE, -1, -1 },
		{ "nccl:allreduce_coalesced", COMM_ALL_REDUCE, -1, -1 },
		{ "nccl:all_reduce_barrier", COMM_BARRIER, -1, -1 },
		{ "nccl:_all_gather_base", COMM_ALL_GATHER, -1, -1 },
		{ "nccl:all_gather_into_tensor_coalesced", COMM_ALL_GATHER, -1, -1 },
		{ "nccl:_reduce_scatter_base", COMM_REDUCE_SCATTER, -1, -1 },
		{ "nccl:reduce_scatter_tensor_coalesced", COMM_REDUCE_SCATTER, -1, -1 },
		{ "nccl:ALLTOALL_BASE", COMM_ALL_TO_ALL, -1, -1 },
		{ "nccl:all_to_all", COMM_ALL_TO_ALL, -1, -1 },
		{ "nccl:_broadcast_oop", COMM_BROADCAST, -1, -1 },
		{ "nccl:_reduce_oop", COMM_REDUCE, -1, -1 },
		{ "nccl:gather", COMM_GATHER, -1, -1 },
		{ "nccl:scatter", COMM_SCATTER, -1, -1 },
		{ "nccl:coalesced", COMM_SEND_RECV, -1, -1 },
		{ "nccl:send 1->2", COMM_SEND, 1, 2 },
		{ "nccl:recv 3<-0", COMM_RECV, 0, 3 },
		{ "xccl:send 12->4", COMM_SEND, 12, 4 },
		{ "nccl:send to nowhere", COMM_SEND, -1, -1 },
		{ "nccl:recv 99999999999<-0", COMM_RECV, -1, -1 },
		{ "gloo:barrier", COMM_BARRIER, -1, -1 },
		{ "ncclx:all_reduce", COMM_ALL_REDUCE, -1, -1 },
		{ "some-new:reduce_scatter", COMM_REDUCE_SCATTER, -1, -1 },
		{ "nccl:all_the_things", COMM_OTHER, -1, -1 },
		{ "", COMM_OTHER, -1, -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char json[256];
		const struct signature *s;
		struct heard h;

		snprintf(json, sizeof(json), "{\"entries\": [{\"profiling_name\": \"%s\"}]}",
			 rows[i].name);
		hear_text(&h, json);
		assert_int_equal(h.status, 0);
		s = &h.t->signatures.v[h.t->entries.v[0].signature];
		assert_string_equal(comm_op_name(s->op), comm_op_name(rows[i].op));
		assert_int_equal(s->source, rows[i].source);
		assert_int_equal(s->target, rows[i].target);
		assert_int_equal(h.t->entries.v[0].p2p,
				 rows[i].op == COMM_SEND || rows[i].op == COMM_RECV);
		heard_done(&h);
	}
}

/* The call that closes a batch has one name, whatever was in the batch. */
static void a_batch_is_told_by_what_it_held(void **state)
{
	static const char json[] =
	    "{\"entries\": [{\"profiling_name\": \"nccl:coalesced\", \"is_p2p\": true, "
	    "\"input_sizes\": [], \"output_sizes\": [], \"input_dtypes\": [], \"output_dtypes\": "
	    "[]}, {\"profiling_name\": \"nccl:coalesced\", \"is_p2p\": false, \"input_sizes\": [], "
	    "\"output_sizes\": [], \"input_dtypes\": [], \"output_dtypes\": []}]}";
	struct heard h;

	(void)state;
	hear_text(&h, json);
	assert_int_equal(h.t->signatures.v[h.t->entries.v[0].signature].op, COMM_SEND_RECV);
	assert_int_equal(h.t->signatures.v[h.t->entries.v[1].signature].op, COMM_OTHER);
	heard_done(&h);
}

static void sizes_are_canonical_and_summed(void **state)
{
	static const struct {
		const char *json, *text;
		int64_t elements;
	} rows[] = {
		{ "[]", "[]", 0 },
		{ "[[]]", "[[]]", 1 },
		{ "[[8,32],[4]]", "[[8, 32], [4]]", 260 },
		{ "[[8, 0]]", "[[8, 0]]", 0 },
		{ "[8, 32]", "[[8, 32]]", 256 },
		{ "[[4294967296, 4294967296]]", "[[4294967296, 4294967296]]", -1 },
		{ "[[9223372036854775807], [1]]", "[[9223372036854775807], [1]]", -1 },
		{ "[[-3]]", "[[-3]]", -1 },
		{ "[[null]]", "[[-1]]", -1 },
		{ "null", "-", -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char json[256];
		const struct signature *s;
		struct heard h;

		snprintf(json, sizeof(json),
			 "{\"entries\": [{\"profiling_name\": \"a\", \"input_sizes\": %s}]}",
			 rows[i].json);
		hear_text(&h, json);
		s = &h.t->signatures.v[h.t->entries.v[0].signature];
		assert_string_equal(text_of(h.t, s->in_sizes), rows[i].text);
		assert_int_equal(s->in_elements, rows[i].elements);
		heard_done(&h);
	}
}

/* pg_status counts groups by a number of the rank's own. */
static void status_is_told_by_the_ranks_own_groups(void **state)
{
	static const char config[] =
	    "\"pg_config\": {\"0\": {\"name\": \"0\", \"desc\": \"default_pg\", \"ranks\": \"[0, "
	    "1]\"}, \"10\": {\"name\": \"10\", \"desc\": \"dp\", \"ranks\": [0, 3]}, \"7\": "
	    "{\"name\": \"7\", \"desc\": \"tp\", \"ranks\": \"[0, 2]\"}}";
	static const char status[] =
	    "\"pg_status\": {\"1\": {\"last_enqueued_collective\": \"5\"}, \"2\": "
	    "{\"last_enqueued_collective\": 6, \"last_completed_collective\": 4}, \"0\": "
	    "{\"last_enqueued_collective\": \"-1\"}}";
	static const char entry[] = "\"entries\": [{\"profiling_name\": \"a\", \"pg_id\": 1, "
				    "\"process_group\": [\"%s\", \"%s\"]}]";
	char json[1024], tail[256];
	struct heard h;
	char *text;

	(void)state;
	/* No entry: the order in which the groups were made. */
	snprintf(json, sizeof(json), "{%s, %s}", config, status);
	hear_text(&h, json);
	text = heard_text(&h, false);
	assert_non_null(strstr(text, "group 0/default_pg [0, 1]\ngroup 10/dp [0, 3]\n"));
	assert_non_null(strstr(text, "status 7 of 3: 5 -1 -1\nstatus 10 of 3: 6 -1 4\nstatus 0 of "
				     "3: -1 -1 -1\n"));
	assert_int_equal(h.t->world_size, 2);
	free(text);
	heard_done(&h);
	/* An entry that contradicts the order: only what it says is believed. */
	snprintf(tail, sizeof(tail), entry, "10", "dp");
	snprintf(json, sizeof(json), "{%s, %s, %s}", config, status, tail);
	hear_text(&h, json);
	assert_int_equal(h.t->status.n, 1);
	assert_string_equal(text_of(h.t, h.t->groups.v[h.t->status.v[0].group].name), "10");
	assert_int_equal(h.t->status.v[0].enqueued, 5);
	assert_int_equal(h.t->dropped, 1); /* the other one that had begun something */
	heard_done(&h);
	/* Gloo's one nameless group tells the world and is no group. */
	hear_text(&h, "{\"pg_config\": {\"\": {\"name\": \"\", \"desc\": \"\", \"ranks\": \"[0, 1, "
		      "2]\"}}, \"pg_status\": {}}");
	assert_int_equal(h.t->world_size, 3);
	assert_int_equal(h.t->groups.n, 0);
	heard_done(&h);
}

static void json_is_read_as_far_as_it_goes(void **state)
{
	static const char whole[] =
	    "{\"entries\":[{\"collective_seq_id\":1,\"frames\":[{\"name\":\"f\",\"filename\":"
	    "\"a\\\\"
	    "b\\u00e9.py\",\"line\":3}],\"profiling_name\":\"gloo:barrier\",\"state\":"
	    "\"scheduled\",\"retired\":false},{\"collective_seq_id\":2,\"profiling_name\":"
	    "\"gloo:barrier\",\"state\":\"scheduled\"}],\"pg_status\":{},\"version\":\"2.10\"}";
	struct heard h;

	(void)state;
	hear_text(&h, whole);
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->entries.n, 2);
	assert_string_equal(text_of(h.t, h.t->entries.v[0].frames), "f (a\\b\u00e9.py:3)");
	heard_done(&h);
	for (size_t len = strlen(whole) - 1; len > 180; len--) {
		hear(&h, whole, len, "fr_rank3.json", 1);
		assert_int_equal(h.status, 0);
		assert_true(h.t->entries.n >= 1);
		assert_int_equal(h.stats.skipped[SKIP_TRUNCATED], 1);
		heard_done(&h);
	}
	hear_text(&h, "{\"pg_status\": {}, \"entries\": [{\"profiling_name\": \"a\"}, ?]}");
	assert_int_equal(h.status, 0);
	assert_int_equal(h.t->entries.n, 1);
	assert_string_equal(h.error.text, "offset 55: neither a value nor an end");
	heard_done(&h);
}

static void rank_and_host_are_in_the_path(void **state)
{
	static const struct {
		const char *path;
		int rank;
		const char *host;
	} rows[] = {
		{ "/d/nccl_trace_rank_12", 12, NULL },
		{ "/d/comm_lib_trace_rank_7", 7, NULL },
		{ "rank_3", 3, NULL },
		{ "/d/fr_rank3.json", 3, NULL },
		{ "/d/rank00017_fr.pickle", 17, NULL },
		{ "/d/host-12_rank_3.pickle", 3, "host-12" },
		{ "/d/host03_nccl_trace_rank_5", 5, "host03" },
		{ "/d/node03/nccl_trace_rank_5", 5, "node03" },
		{ "/d/ip-10-0-0-7_rank_1", 1, "ip-10-0-0-7" },
		{ "/d/jwb0123.juwels_nccl_trace_rank_9", 9, "jwb0123.juwels" },
		{ "/d/rank5/dump.pickle", 5, NULL },
		{ "/d/my_dump_12", 12, NULL }, /* any prefix may be set */
		{ "/d/trace_4.pickle", 4, NULL },
		{ "/d/t0/nccl_trace_rank_1", 1, NULL },
		{ "/d/exp42/step100_7.pkl", 7, NULL },
		{ "/d/dump.20260102030405", -1, NULL },
		{ "/d/dump", -1, NULL },
		{ "dumps.tar:node7/nccl_trace_rank_8", 8, "node7" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *host = NULL;
		size_t len = 0;

		assert_int_equal(fr_rank_of_path(rows[i].path), rows[i].rank);
		assert_int_equal(fr_host_of_path(rows[i].path, &host, &len), rows[i].host != NULL);
		if (rows[i].host) {
			assert_int_equal(len, strlen(rows[i].host));
			assert_memory_equal(host, rows[i].host, len);
		}
	}
}

/* JSON that speaks about dumps is none. */
static void notes_on_a_dump_are_no_dump(void **state)
{
	static const char notes[] = "{\"0\": {\"dump\": true, \"entries\": 17, \"last\": "
				    "{\"profiling_name\": \"gloo:all_reduce\"}}}";

	(void)state;
	assert_false(fr_json_sniff(notes, strlen(notes), "/d/answer_rank_3.json"));
}

static void other_pickles_are_no_dumps(void **state)
{
	static const char dict[] = "\x80\x02}q\0(X\1\0\0\0aK\1u.";
	static const char tensor[] = "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.";

	(void)state;
	assert_int_equal(witness_find(dict, sizeof(dict) - 1, "/d/config.pkl"), -1);
	assert_int_equal(witness_find(tensor, sizeof(tensor) - 1, "/d/optimizer_rank_3.pt"), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_says_what_its_rank_called),
		cmocka_unit_test(the_short_way_gives_the_same),
		cmocka_unit_test(pieces_make_no_difference),
		cmocka_unit_test(a_program_is_refused_by_name_and_place),
		cmocka_unit_test(a_program_without_a_dump_is_refused_too),
		cmocka_unit_test(truncation_keeps_whole_entries),
		cmocka_unit_test(eighty_seven_bytes_say_that_the_rank_lived),
		cmocka_unit_test(an_empty_dump_says_that_the_rank_lived),
		cmocka_unit_test(absurd_lengths_are_no_allocation),
		cmocka_unit_test(containers_that_hold_themselves_do_no_harm),
		cmocka_unit_test(depth_is_limited),
		cmocka_unit_test(versions_to_come_are_read_by_what_is_known),
		cmocka_unit_test(versions_of_old_are_read),
		cmocka_unit_test(operations_are_known_by_their_names),
		cmocka_unit_test(a_batch_is_told_by_what_it_held),
		cmocka_unit_test(sizes_are_canonical_and_summed),
		cmocka_unit_test(status_is_told_by_the_ranks_own_groups),
		cmocka_unit_test(json_is_read_as_far_as_it_goes),
		cmocka_unit_test(rank_and_host_are_in_the_path),
		cmocka_unit_test(notes_on_a_dump_are_no_dump),
		cmocka_unit_test(other_pickles_are_no_dumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
