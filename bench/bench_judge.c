/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_judge.c - what judging a step of a large job costs, part by part, from a file of records.
 *
 *	bench_judge STEPS.lks [RANKS]
 *
 * Beside it, in the same run, what a judge that compares ranks pair by pair would take: the W1
 * distance of each kernel's histogram between any two of the first RANKS ranks (1,024) in one step,
 * each histogram prepared once. Times are of the processor.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "cmd/live.h"
#include "judge/judge.h"

/* A kernel's histogram as a walk over its bins needs it: how much lies up to each of them. */
struct curve {
	uint32_t name, stream_class, n;
	struct curve_point {
		double at_ns, share;
	} * points;
};
struct curves {
	struct curve *v;
	uint32_t n;
};

struct bench {
	struct job *job;
	struct judge *judge;
	uint64_t began; /* when the decoding of this step did */
	double *decode_ms, *judge_ms;
	size_t n_steps, cap;
	struct arena arena;
	struct curves *ranks; /* of the last step */
	uint32_t n_ranks, most_ranks;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double ms_since(uint64_t began)
{
	return (double)(now_ns() - began) / 1e6;
}

static double peak_mb(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double)used.ru_maxrss / 1024;
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bench_judge: %s\n", what);
	exit(1);
}

static int curve_order(const void *a, const void *b)
{
	const struct curve *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->stream_class < y->stream_class ? -1 : x->stream_class > y->stream_class;
}

static struct curve curve_of(struct arena *arena, const struct step_kernel *k)
{
	struct curve c = { k->name, k->stream_class, k->hist.n, NULL };
	double sum = 0;

	c.points = arena_alloc(arena, (k->hist.n + 1) * sizeof(*c.points));
	for (uint32_t i = 0; i < k->hist.n; i++) {
		sum += k->hist.bins[i].count;
		c.points[i] = (struct curve_point){ hist_bin_ns(k->hist.bins[i].bin),
						    sum / (double)k->hist.count };
	}
	return c;
}

static void curves_take(struct bench *b, struct step *const *steps)
{
	arena_reset(&b->arena);
	b->n_ranks = 0;
	for (uint32_t row = 0; row < b->job->n_ranks && b->n_ranks < b->most_ranks; row++) {
		struct curves *c = &b->ranks[b->n_ranks];

		if (!steps[row])
			continue;
		b->n_ranks++;
		c->n = steps[row]->n_kernels;
		c->v = arena_alloc(&b->arena, (c->n + 1) * sizeof(*c->v));
		for (uint32_t i = 0; i < c->n; i++)
			c->v[i] = curve_of(&b->arena, &steps[row]->kernels[i]);
		qsort(c->v, c->n, sizeof(*c->v), curve_order);
	}
}

/* The area between two curves. */
static double curve_distance(const struct curve *a, const struct curve *b)
{
	uint32_t i = 0, j = 0;
	double sum = 0, last = 0, below = 0;

	while (i < a->n || j < b->n) {
		double at;

		if (j == b->n || (i < a->n && a->points[i].at_ns < b->points[j].at_ns))
			at = a->points[i].at_ns;
		else
			at = b->points[j].at_ns;
		sum += fabs(below) * (at - last);
		last = at;
		while (i < a->n && a->points[i].at_ns <= at)
			i++;
		while (j < b->n && b->points[j].at_ns <= at)
			j++;
		below = (i ? a->points[i - 1].share : 0) - (j ? b->points[j - 1].share : 0);
	}
	return sum;
}

/* Of all kernels that both have. */
static double ranks_distance(const struct curves *a, const struct curves *b, uint64_t *distances)
{
	uint32_t i = 0, j = 0;
	double most = 0;

	while (i < a->n && j < b->n) {
		int order = curve_order(&a->v[i], &b->v[j]);

		if (!order) {
			most = fmax(most, curve_distance(&a->v[i], &b->v[j]));
			++*distances;
		}
		i += order <= 0;
		j += order >= 0;
	}
	return most;
}

static int take_step(void *user, uint64_t number, struct step *const *steps)
{
	struct bench *b = user;
	int status;

	b->decode_ms = vec_reserve(b->decode_ms, &b->cap, b->n_steps + 1, sizeof(double));
	b->judge_ms = xrealloc(b->judge_ms, b->cap * sizeof(double));
	b->decode_ms[b->n_steps] = ms_since(b->began);
	b->began = now_ns();
	status = judge_step(b->judge, number, steps);
	b->judge_ms[b->n_steps++] = ms_since(b->began);
	curves_take(b, steps);
	b->began = now_ns();
	return status;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Sorts. */
static double median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare_doubles);
	return v[n / 2];
}

static void pairs(struct bench *b, double step_ms)
{
	uint64_t n_pairs = 0, distances = 0, began = now_ns();
	double took, most = 0, square;

	for (uint32_t i = 0; i < b->n_ranks; i++)
		for (uint32_t j = i + 1; j < b->n_ranks; j++, n_pairs++)
			most = fmax(most, ranks_distance(&b->ranks[i], &b->ranks[j], &distances));
	took = ms_since(began);
	if (!n_pairs)
		return;
	square = took * pow((double)b->job->n_ranks / b->n_ranks, 2);
	printf("%-34s %9.4g %-9s one step of %u ranks: %" PRIu64 " pairs, %" PRIu64
	       " distances, the largest %.3g ms; %.3g ns each; extrapolated by its square to %u "
	       "ranks %.4g ms, %.0f times the judge's\n",
	       "  rival: pairwise W1", took, "ms", b->n_ranks, n_pairs, distances, most / 1e6,
	       took * 1e6 / (double)distances, b->job->n_ranks, square, square / step_ms);
}

static void judge_all(struct bench *b, struct live *live)
{
	const struct judge_options options = { .min_impact = 0.05 };
	struct report report = { .step_ms_median = NAN, .step_ms_p99 = NAN, .job = b->job };
	struct error error = { "" };
	double decode, judged, finish, all = 0, before = peak_mb();

	b->judge = judge_new(b->job, &options);
	b->began = now_ns();
	if (live_run(live, take_step, b, &error) < 0)
		fail(error.text);
	if (!b->n_steps)
		fail("no step in the records");
	for (size_t i = 0; i < b->n_steps; i++)
		all += b->decode_ms[i] + b->judge_ms[i];
	b->began = now_ns();
	judge_finish(b->judge, &report);
	finish = ms_since(b->began);
	decode = median(b->decode_ms, b->n_steps);
	judged = median(b->judge_ms, b->n_steps);
	printf("%-34s %9.4g %-9s %u ranks, median of %zu steps: reading and decoding %.4g, judging "
	       "%.4g ms; %zu findings at the end take %.4g ms more; bar 100 ms at 12,960 ranks\n",
	       "judge, a step from its records", decode + judged, "ms", b->job->n_ranks, b->n_steps,
	       decode, judged, report.findings.n, finish);
	printf("%-34s %9.4g %-9s all steps, and the findings, by the number of steps; records at "
	       "%.3g GB/s where they are only decoded\n",
	       "  the same, all in all", (all + finish) / (double)b->n_steps, "ms",
	       (double)live_stats(live).read.bytes / (double)b->n_steps / decode / 1e6);
	printf("%-34s %9.4g %-9s %.1f MB of them before the first step\n", "  peak memory",
	       peak_mb(), "MB", before);
	pairs(b, decode + judged);
	judge_free(b->judge);
	report_done(&report);
}

int main(int argc, char **argv)
{
	struct bench b = { .most_ranks = argc > 2 ? (uint32_t)atoi(argv[2]) : 1024 };
	const struct live_options options = { .steps = { .first = -1, .last = -1 } };
	struct merge *merge = merge_new();
	struct error error = { "" };
	struct input *in = NULL;
	struct live *live;

	if (argc < 2)
		fail("STEPS.lks [RANKS]");
	if (input_open(argv[1], &in, &error) < 0)
		fail(error.text);
	b.ranks = xcalloc(b.most_ranks + 1, sizeof(*b.ranks));
	live = live_open(in, argv[1], &options, merge, &b.job, &error);
	if (!b.job)
		fail(error.text);
	judge_all(&b, live);
	live_free(live);
	merge_free(merge);
	arena_done(&b.arena);
	free(b.ranks);
	free(b.decode_ms);
	free(b.judge_ms);
	return 0;
}
