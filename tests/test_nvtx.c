/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX's calls through the real headers where they are installed, else by our declarations alone.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>
#include <cmocka.h>

#include "door_told.h"
#include "tracer/door_words.h"
#include "tracer/nccl.h"
#include "tracer/nvtx.h"
#include "tracer/nvtx_range.h"
#include "tracer/nvtx_step.h"
#include "tracer/nvtx_text.h"

/* An NVTX of a shared object: its tables. */
struct object {
	nvtx_function core[16], core2[16], *core_at[16], *core2_at[16];
	unsigned n_core, n_core2;
};
static struct object object;

static int module_table(int module, nvtx_function ***ret_table, unsigned *ret_n)
{
	struct object *o = &object;

	if (module == NVTX_CORE) {
		*ret_table = o->core_at;
		*ret_n = o->n_core;
		return 1;
	}
	if (module == NVTX_CORE2) {
		*ret_table = o->core2_at;
		*ret_n = o->n_core2;
		return 1;
	}
	return 0;
}

static const struct nvtx_callbacks callbacks = { sizeof(callbacks), module_table };

static const void *get(uint32_t id)
{
	return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static void load(void)
{
	memset(&object, 0, sizeof(object));
	object.n_core = 16;
	object.n_core2 = 16;
	for (size_t i = 1; i < 16; i++) {
		object.core_at[i] = &object.core[i];
		object.core2_at[i] = &object.core2[i];
	}
	assert_int_equal(InitializeInjectionNvtx2(get), 1);
}

static int fresh(void **state)
{
	(void)state;
	told_reset();
	load();
	return 0;
}

static int push(const char *s)
{
	return ((int (*)(const char *))object.core[NVTX_PUSH_A])(s);
}

static int pop(void)
{
	return ((int (*)(void))object.core[NVTX_POP])();
}

static uint64_t start(const char *s)
{
	return ((uint64_t(*)(const char *))object.core[NVTX_START_A])(s);
}

static void end(uint64_t id)
{
	((void (*)(uint64_t))object.core[NVTX_END])(id);
}

static const void *domain(const char *s)
{
	return ((const void *(*)(const char *))object.core2[NVTX_DOMAIN_CREATE_A])(s);
}

static int push_in(const void *d, const struct nvtx_attributes *a)
{
	return ((int (*)(const void *,
			 const struct nvtx_attributes *))object.core2[NVTX_DOMAIN_PUSH_EX])(d, a);
}

static int pop_in(const void *d)
{
	return ((int (*)(const void *))object.core2[NVTX_DOMAIN_POP])(d);
}

static void mark_in(const void *d, const struct nvtx_attributes *a)
{
	((void (*)(const void *, const struct nvtx_attributes *))object.core2[NVTX_DOMAIN_MARK_EX])(
	    d, a);
}

static struct nvtx_attributes text(const char *s)
{
	return (struct nvtx_attributes){
		.version = 3, .size = 48, .message_type = NVTX_MESSAGE_A, .message.a = s
	};
}

static const char *name_of(size_t n)
{
	const struct told *t = told_nth(TOLD_PHASE_BEGIN, n);

	return t ? told_name(t->name) : "none";
}

static void pushed_ranges_are_phases(void **state)
{
	(void)state;
	assert_int_equal(push("outer"), 0);
	assert_int_equal(push("forward"), 1);
	assert_int_equal(pop(), 1);
	assert_int_equal(pop(), 0);
	assert_int_equal(told_count(TOLD_PHASE_BEGIN), 2);
	assert_int_equal(told_count(TOLD_PHASE_END), 2);
	assert_string_equal(name_of(1), "forward");
	assert_int_equal(told_nth(TOLD_PHASE_BEGIN, 1)->arg, RING_PHASE_FORWARD);
}

static void known_words_give_kinds(void **state)
{
	static const struct {
		const char *name;
		uint8_t kind;
	} rows[] = {
		{ "Forward pass", RING_PHASE_FORWARD },
		{ "backward_pass", RING_PHASE_BACKWARD },
		{ "Optimizer.step#AdamW.step", RING_PHASE_OPTIMIZER },
		{ "Optimizer.zero_grad#AdamW.zero_grad", RING_PHASE_USER },
		{ "optimizer_step", RING_PHASE_OPTIMIZER },
		{ "dataloader", RING_PHASE_DATA },
		{ "save_checkpoint", RING_PHASE_CHECKPOINT },
		{ "CheckpointFunction", RING_PHASE_USER },
		{ "validation", RING_PHASE_EVALUATION },
		{ "gc", RING_PHASE_GC },
		{ "gcd", RING_PHASE_USER },
		{ "self_attention", RING_PHASE_USER },
		{ "", RING_PHASE_USER },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct word w = word_of(rows[i].name, strlen(rows[i].name));

		if (w.kind != rows[i].kind)
			print_message("%s\n", rows[i].name);
		assert_int_equal(w.kind, rows[i].kind);
	}
}

static void an_end_without_a_begin_is_counted_and_ends_no_phase_of_others(void **state)
{
	(void)state;
	lockstep_phase_begin(1, LOCKSTEP_PHASE_USER); /* of Python's */
	assert_true(pop() < 0);
	assert_int_equal(told_counts[RING_END_WITHOUT_BEGIN], 1);
	assert_int_equal(told_count(TOLD_PHASE_END), 0);
	lockstep_phase_end();
	end(12345);
	end(0);
	end(1ull << 63);
	assert_int_equal(told_counts[RING_END_WITHOUT_BEGIN], 4);
}

static void nesting_may_be_as_deep_as_it_likes(void **state)
{
	(void)state;
	for (int i = 0; i < 10000; i++)
		assert_int_equal(push("deep"), i);
	for (int i = 9999; i >= 0; i--)
		assert_int_equal(pop(), i);
	assert_int_equal(told_count(TOLD_PHASE_END), 10000);
	assert_true(pop() < 0);
}

static void a_million_names_and_a_name_of_a_megabyte_are_bounded(void **state)
{
	char *big = malloc((1 << 20) + 1), name[32] = "prefix-";

	(void)state;
	memset(big, 'x', 1 << 20);
	big[1 << 20] = 0;
	push("outer");
	push(big);
	pop();
	assert_int_equal(told_counts[RING_CUT_NAMES] > 0, 1);
	assert_int_equal(strlen(name_of(1)), RING_NAME_MAX);
	for (int i = 0; i < 1000000; i++) {
		name[7] = (char)('a' + i % 26);
		name[8] = (char)('a' + i / 26 % 26);
		name[9] = (char)('a' + i / 676 % 26);
		name[10] = (char)('a' + i / 17576 % 26);
		name[11] = (char)('a' + i / 456976 % 26);
		push(name);
		pop();
	}
	pop();
	assert_int_equal(told_counts[RING_LOST_NAMES] > 900000, 1);
	free(big);
}

static void *end_there(void *id)
{
	end(*(uint64_t *)id);
	return NULL;
}

static void a_range_may_end_on_another_thread(void **state)
{
	pthread_t t;
	uint64_t id = start("loading"), second = start("forward");

	(void)state;
	pthread_create(&t, NULL, end_there, &id);
	pthread_join(t, NULL);
	end(second);
	assert_int_equal(told_count(TOLD_RECORD), 2);
	assert_string_equal(told_name(told_nth(TOLD_RECORD, 0)->r.name), "loading");
	assert_int_equal(told_nth(TOLD_RECORD, 0)->r.kind, RING_PHASE);
	assert_true(told_nth(TOLD_RECORD, 0)->thread != told_nth(TOLD_RECORD, 1)->thread);
	assert_int_equal(told_nth(TOLD_RECORD, 1)->r.arg, RING_PHASE_FORWARD);
	end(id); /* a second time */
	assert_int_equal(told_count(TOLD_RECORD), 2);
	assert_int_equal(told_counts[RING_END_WITHOUT_BEGIN], 1);
}

static void more_open_ranges_than_there_are_places_are_counted(void **state)
{
	uint64_t ids[NVTX_OPEN + 10];

	(void)state;
	for (size_t i = 0; i < NVTX_OPEN + 10; i++)
		ids[i] = start("many");
	assert_int_equal(told_counts[RING_LOST_PENDING], 10);
	for (size_t i = 0; i < NVTX_OPEN + 10; i++)
		end(ids[i]);
	assert_int_equal(told_count(TOLD_RECORD), NVTX_OPEN);
	assert_int_equal(told_counts[RING_END_WITHOUT_BEGIN], 0);
}

static void registered_strings_domains_and_wide_names(void **state)
{
	const void *d = domain("train");
	const void *h =
	    ((const void *(*)(const void *, const char *))object.core2[NVTX_STRING_A])(d, "mlp");
	const void *w =
	    ((const void *(*)(const void *, const wchar_t *))object.core2[NVTX_STRING_W])(
		d, L"\u00fcber \U0001F600");
	struct nvtx_attributes a = text(NULL);

	(void)state;
	a.message_type = NVTX_MESSAGE_STRING;
	a.message.string = h;
	push_in(d, &a);
	a.message.string = w;
	push_in(d, &a);
	a.message_type = NVTX_MESSAGE_W;
	a.message.w = L"wide";
	push_in(NULL, &a);
	pop_in(NULL);
	pop_in(d);
	pop_in(d);
	assert_string_equal(name_of(0), "mlp");
	assert_string_equal(name_of(1), "\xc3\xbc"
					"ber \xf0\x9f\x98\x80");
	assert_string_equal(name_of(2), "wide");
	assert_int_equal(told_count(TOLD_PHASE_END), 3);
}

static void attributes_that_cannot_be_read_are_ranges_without_a_name(void **state)
{
	struct nvtx_attributes small = text("x"), odd = text("x"), foreign = text("x");

	(void)state;
	small.size = 8;
	odd.message_type = 77;
	foreign.message_type = NVTX_MESSAGE_STRING; /* the handle is nobody's */
	push_in(NULL, NULL);
	push_in(NULL, &small);
	push_in(NULL, &odd);
	push_in(NULL, &foreign);
	for (int i = 0; i < 4; i++)
		pop_in(NULL);
	assert_int_equal(told_counts[RING_IGNORED], 4);
	assert_int_equal(told_count(TOLD_PHASE_BEGIN), 4);
	assert_int_equal(told_nth(TOLD_PHASE_BEGIN, 2)->name, 0);
	assert_int_equal(told_count(TOLD_PHASE_END), 4);
}

static void marks_are_marks_and_those_with_numbers_counters(void **state)
{
	struct nvtx_attributes a = text("loss");
	double d = 2.5, got;

	(void)state;
	mark_in(NULL, &a);
	a.payload_type = NVTX_PAYLOAD_DOUBLE;
	a.payload.d = d;
	mark_in(NULL, &a);
	a.payload_type = NVTX_PAYLOAD_I32;
	a.payload.i32 = -7;
	mark_in(NULL, &a);
	assert_int_equal(told_count(TOLD_MARK), 1);
	assert_int_equal(told_count(TOLD_COUNTER), 2);
	memcpy(&got, &told_nth(TOLD_COUNTER, 0)->value, sizeof(got));
	assert_true(got == d);
	memcpy(&got, &told_nth(TOLD_COUNTER, 1)->value, sizeof(got));
	assert_true(got == -7);
}

/* Ranges as a job of three steps has them; what is told of steps as letters: ( number ). */
static char steps[256];

static void tell_steps(void)
{
	size_t n = 0;

	for (size_t i = 0; i < n_told && n < sizeof(steps) - 24; i++) {
		if (told[i].kind == TOLD_STEP_BEGIN)
			n += (size_t)snprintf(steps + n, 24, "(%d", (int)told[i].value);
		else if (told[i].kind == TOLD_STEP_END)
			steps[n++] = ')';
	}
	steps[n] = 0;
}

static void *by_word(void *unused)
{
	char name[32];

	(void)unused;
	for (int i = 7; i < 10; i++) {
		snprintf(name, sizeof(name), "Iteration %d", i);
		push(name);
		push("forward");
		pop();
		pop();
	}
	return NULL;
}

static void *by_optimizer(void *unused)
{
	(void)unused;
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 4; k++) {
			push("forward");
			pop();
			push("backward");
			pop();
		}
		push("optimizer");
		pop();
	}
	return NULL;
}

static void *by_repeating(void *unused)
{
	(void)unused;
	for (int i = 0; i < 5; i++) {
		push("data");
		pop();
		push("net");
		push("inner");
		pop();
		pop();
		push("rest");
		pop();
	}
	return NULL;
}

static void *by_name(void *unused)
{
	const void *d = domain("app");
	struct nvtx_attributes a = text("work 12");

	(void)unused;
	push("epoch");
	for (int i = 0; i < 2; i++) {
		push("work"); /* not in that domain */
		pop();
		push("iteration"); /* a step elsewhere */
		pop();
		push_in(d, &a);
		push_in(d, &a); /* the same inside: a phase */
		pop_in(d);
		pop_in(d);
	}
	pop();
	return NULL;
}

/* Each in a process of its own: what the step is is decided once. */
static int in_a_process(void *(*f)(void *), const char *env, const char *want, bool elsewhere)
{
	pid_t pid = fork();
	int status = 1;

	if (pid == 0) {
		pthread_t t;

		if (env)
			setenv("LOCKSTEP_STEP_RANGE", env, 1);
		told_reset();
		load();
		told_elsewhere = elsewhere;
		pthread_create(&t, NULL, f, NULL);
		pthread_join(t, NULL);
		tell_steps();
		if (strcmp(steps, want) != 0)
			print_message("steps %s, not %s\n", steps, want);
		_exit(strcmp(steps, want) != 0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void a_range_with_a_steps_name_is_the_step_with_its_number(void **state)
{
	(void)state;
	assert_int_equal(in_a_process(by_word, NULL, "(7)(8)(9)", false), 0);
}

static void without_one_the_optimizers_range_ends_the_step(void **state)
{
	(void)state;
	/* the third "forward" began a step before any optimizer was seen */
	assert_int_equal(in_a_process(by_optimizer, NULL, "(-1(-1(-1(-1(-1", false), 0);
}

static void else_the_outermost_that_repeats_begins_it(void **state)
{
	(void)state;
	assert_int_equal(in_a_process(by_repeating, NULL, "(-1(-1(-1", false), 0);
}

static void a_configured_name_is_the_only_step(void **state)
{
	(void)state;
	assert_int_equal(in_a_process(by_name, "app/work", "(12)(-1)", false), 0);
	assert_int_equal(in_a_process(by_word, "forward", "(-1)(-1)(-1)", false), 0);
	assert_int_equal(in_a_process(by_word, "other", "", false), 0);
}

static void no_range_is_a_step_where_the_program_tells_them(void **state)
{
	(void)state;
	assert_int_equal(in_a_process(by_word, NULL, "", true), 0);
	assert_int_equal(in_a_process(by_optimizer, NULL, "", true), 0);
	assert_int_equal(in_a_process(by_name, "app/work", "", true), 0);
}

static void a_second_object_joins_and_a_small_table_is_respected(void **state)
{
	nvtx_function mine = (nvtx_function)load;

	(void)state;
	memset(&object, 0, sizeof(object));
	object.n_core = 10; /* ids 0 to 9 */
	for (size_t i = 1; i < 16; i++)
		object.core_at[i] = &object.core[i];
	object.core_at[NVTX_PUSH_A] = NULL;
	object.core[NVTX_POP] = mine;
	assert_int_equal(InitializeInjectionNvtx2(get), 1);
	assert_ptr_equal(object.core[NVTX_POP], mine);
	assert_ptr_equal(object.core[NVTX_PUSH_A], NULL);
	assert_ptr_not_equal(object.core[NVTX_END], NULL);
	assert_int_equal(InitializeInjectionNvtx2(NULL), 0);
}

static void a_process_that_tells_nothing_keeps_nvtx_as_it_was(void **state)
{
	(void)state;
	told_off = true;
	memset(&object, 0, sizeof(object));
	assert_int_equal(InitializeInjectionNvtx2(get), 0);
}

/* As NCCL 2.23 and later make it. */
static void nccls_own_ranges_are_collectives(void **state)
{
	const void *d = domain("NCCL");
	uint64_t told_by_nccl[3] = { 0xabcdef, 4096, 0 };
	struct nvtx_data data = { 5 + (1u << 24), sizeof(told_by_nccl), told_by_nccl };
	struct nvtx_attributes a = text("ncclAllReduce"), group = text("ncclGroupStart");

	(void)state;
	a.payload_type = NVTX_PAYLOAD_EXTENDED;
	a.reserved = 1;
	a.payload.u64 = (uint64_t)(uintptr_t)&data;
	assert_int_equal(push_in(d, &a), 0);
	pop_in(d);
	assert_int_equal(told_count(TOLD_COLL_BEGIN), 1);
	assert_int_equal(told_count(TOLD_COLL_END), 1);
	assert_int_equal(told_nth(TOLD_COLL_BEGIN, 0)->arg, LOCKSTEP_OP_ALL_REDUCE);
	assert_int_equal(told_nth(TOLD_COLL_BEGIN, 0)->more, 4096);
	assert_string_equal(told_name(told_nth(TOLD_COLL_BEGIN, 0)->name), "0x0000000000abcdef");

	data.size = 16; /* as before 2.23: no communicator */
	push_in(d, &a);
	push_in(d, &group);
	pop_in(d);
	pop_in(d);
	assert_true(pop_in(d) < 0);
	assert_int_equal(told_count(TOLD_COLL_BEGIN), 1);
	assert_int_equal(told_counts[RING_IGNORED], 2);
	assert_int_equal(told_count(TOLD_PHASE_BEGIN), 0);
}

static void *many(void *unused)
{
	char name[24];

	(void)unused;
	for (int i = 0; i < 20000; i++) {
		uint64_t id = start("flight");

		snprintf(name, sizeof(name), "part %c", 'a' + i % 26);
		push("outer");
		push(name);
		pop();
		pop();
		end(id);
	}
	return NULL;
}

static void threads_do_not_meet(void **state)
{
	pthread_t t[4];

	(void)state;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, many, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(told_count(TOLD_PHASE_BEGIN), 160000);
	assert_int_equal(told_count(TOLD_PHASE_END), 160000);
	assert_int_equal(told_count(TOLD_RECORD), 80000);
	assert_int_equal(told_counts[RING_END_WITHOUT_BEGIN], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_range_with_a_steps_name_is_the_step_with_its_number,
				       fresh),
		cmocka_unit_test_setup(without_one_the_optimizers_range_ends_the_step, fresh),
		cmocka_unit_test_setup(else_the_outermost_that_repeats_begins_it, fresh),
		cmocka_unit_test_setup(a_configured_name_is_the_only_step, fresh),
		cmocka_unit_test_setup(no_range_is_a_step_where_the_program_tells_them, fresh),
		cmocka_unit_test_setup(pushed_ranges_are_phases, fresh),
		cmocka_unit_test_setup(known_words_give_kinds, fresh),
		cmocka_unit_test_setup(
		    an_end_without_a_begin_is_counted_and_ends_no_phase_of_others, fresh),
		cmocka_unit_test_setup(nesting_may_be_as_deep_as_it_likes, fresh),
		cmocka_unit_test_setup(a_range_may_end_on_another_thread, fresh),
		cmocka_unit_test_setup(more_open_ranges_than_there_are_places_are_counted, fresh),
		cmocka_unit_test_setup(registered_strings_domains_and_wide_names, fresh),
		cmocka_unit_test_setup(attributes_that_cannot_be_read_are_ranges_without_a_name,
				       fresh),
		cmocka_unit_test_setup(marks_are_marks_and_those_with_numbers_counters, fresh),
		cmocka_unit_test_setup(a_second_object_joins_and_a_small_table_is_respected, fresh),
		cmocka_unit_test_setup(nccls_own_ranges_are_collectives, fresh),
		cmocka_unit_test_setup(threads_do_not_meet, fresh),
		cmocka_unit_test_setup(a_million_names_and_a_name_of_a_megabyte_are_bounded, fresh),
		cmocka_unit_test_setup(a_process_that_tells_nothing_keeps_nvtx_as_it_was, fresh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
