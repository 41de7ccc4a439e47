/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_stack.c - whatever a dump holds, threads and frames lie inside it. */
#include "fuzz_source.h"

#include "model/doing.h"
#include "read/stack.h"

static void check_process(const struct testimony *t, const struct process_stack *p)
{
	struct doing_found f;

	char words[64];

	fuzz_check(p->n_threads > 0 && p->processes > 0);
	fuzz_check(p->thread + p->n_threads <= t->threads.n);
	fuzz_check(p->rank >= -1 && p->local_rank >= -1 && p->pid >= -1);
	fuzz_check(p->ranks == NO_ID || p->ranks < t->names.n);
	for (uint32_t i = 0; i < p->n_threads; i++) {
		const struct thread_stack *th = &t->threads.v[p->thread + i];

		fuzz_check(th->frame + th->n_frames <= t->frames.n);
		fuzz_check(th->name == NO_ID || th->name < t->names.n);
		for (uint32_t k = 0; k < th->n_frames; k++) {
			const struct frame *frame = &t->frames.v[th->frame + k];

			fuzz_check(frame->function == NO_ID || frame->function < t->names.n);
			fuzz_check(frame->file == NO_ID || frame->file < t->names.n);
			fuzz_check(frame->line >= -1);
		}
	}
	f = doing_of_process(t, p);
	fuzz_check(f.doing < DOINGS && f.op < COMM_OPS);
	fuzz_check(strlen(doing_text(&f, &t->names, words, sizeof(words))) < sizeof(words));
}

static void read_by(int (*read)(struct input *, const char *, struct testimony **,
				struct read_stats *, struct error *),
		    const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct testimony *t = NULL;
	struct read_stats stats = { 0 };
	struct error e = { "" };

	if (read(in, "stacks/node7/pyspy_rank3.txt", &t, &stats, &e) >= 0) {
		fuzz_check(t->stacks.n > 0);
		for (size_t i = 0; i < t->stacks.n; i++)
			check_process(t, &t->stacks.v[i]);
	} else {
		fuzz_check(!t && *e.text);
	}
	testimony_free(t);
	input_free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	stack_sniff((const char *)data, size, "x");
	stack_json_sniff((const char *)data, size, "x");
	read_by(stack_read, data, size);
	read_by(stack_json_read, data, size);
	return 0;
}
