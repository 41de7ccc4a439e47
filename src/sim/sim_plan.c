/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_plan.c - a Megatron-style step: 1F1B over the stages (interleaved where a rank holds several
 * chunks), layers of attention and experts, gradients reduced beside the last backward.
 *
 * Sends and receives meet by (virtual stage, micro-batch, direction): place counts these, and the
 * lane tells which of the ranks of a stage.
 */
#include "sim/sim_plan.h"

#include <math.h>

const char *const sim_phase_names[SIM_PHASE_WORDS] = {
	"data", "embedding", "self_attention", "mlp",	  "dispatch", "combine",
	"head", "gradients", "optimizer",      "forward", "backward",
};

const char *const sim_group_names[SIM_GROUPS] = { "tp", "cp", "dp", "ep", "mp", "pp" };

enum { K_EMBED, K_FLASH, K_FLASH_BACK, K_GEMM, K_GEMM_BACK, K_HEAD, K_ADAM };
const char *const sim_kernel_names[SIM_KERNELS] = {
	"embedding_kernel",   "flash_fwd_kernel", "flash_bwd_kernel",	       "grouped_gemm_fprop",
	"grouped_gemm_dgrad", "lm_head_gemm",	  "multi_tensor_apply_kernel",
};

/* Shares of a layer's forward; a backward takes twice as long. */
#define ATTENTION 0.45
#define MLP	  0.55
#define HEAD	  0.12	  /* of a chunk, on the last stage */
#define OPTIMIZER 0.04	  /* of the step's compute */
#define LAUNCH_NS 60000.0 /* the host's part of an operation: a dozen kernels */

/* Bandwidths and latencies by link class. */
#define INSIDE_NS 6000.0
#define RAIL_NS	  14000.0
#define ACROSS_NS 22000.0
#define INSIDE_BW 200.0 /* bytes a nanosecond */
#define RAIL_BW	  44.0
#define ACROSS_BW 36.0

struct building {
	bool in_layer, backward;
	struct sim_plan *p;
	struct sim_program *to;
	uint32_t stage;
	double layer_ns; /* forward of one layer, one micro-batch */
	uint32_t places[SIM_GROUPS];
};

/* How long a transfer takes once all have come: by the slowest link that its members use. */
static double transfer_ns(const struct sim_plan *p, enum sim_group g, enum comm_op op,
			  uint64_t bytes)
{
	uint32_t node = p->options->gpus_per_node, n = p->members[g], span = p->spans[g];
	uint32_t stride = n > 1 ? (span - 1) / (n - 1) : 0;
	double latency, bandwidth, factor = op == COMM_ALL_REDUCE ? 2 : 1;

	if (g == SIM_PP)
		span = p->world / p->stages + 1;
	if (span <= node) {
		latency = INSIDE_NS;
		bandwidth = INSIDE_BW;
	} else if (stride && node && stride % node == 0) {
		latency = RAIL_NS;
		bandwidth = RAIL_BW;
	} else {
		latency = ACROSS_NS;
		bandwidth = ACROSS_BW;
	}
	return latency * (1 + log2((double)MAX(n, 2u)) / 2) + factor * (double)bytes / bandwidth;
}

static uint16_t row_of(struct sim_program *to, enum sim_group g, enum comm_op op, uint64_t bytes)
{
	for (uint32_t i = 0; i < to->n_rows; i++)
		if (to->rows[i].group == g && to->rows[i].op == op && to->rows[i].bytes == bytes)
			return (uint16_t)i;
	if (to->n_rows == SIM_ROWS_MAX)
		return SIM_ROWS_MAX - 1;
	to->rows[to->n_rows] = (struct sim_row){ .group = (uint8_t)g, .op = op, .bytes = bytes };
	return (uint16_t)to->n_rows++;
}

static struct sim_op *add(struct building *b, enum sim_op_kind kind, enum sim_phase phase,
			  uint32_t micro)
{
	struct sim_op *op = vec_push(&b->to->ops);

	*op = (struct sim_op){
		.kind = (uint8_t)kind, .phase = (uint8_t)phase, .keep = -1, .micro = (uint16_t)micro
	};
	return op;
}

static void work(struct building *b, enum sim_phase phase, uint32_t kernel, uint32_t micro,
		 double ns, bool length, bool tokens)
{
	struct sim_op *op = add(b, SIM_WORK, phase, micro);

	op->kernel = (uint8_t)kernel;
	op->ns = (float)ns;
	op->launch_ns = (float)LAUNCH_NS;
	op->forward = b->in_layer && !b->backward;
	op->backward = b->in_layer && b->backward;
	op->slowed = kernel != K_FLASH && kernel != K_GEMM; /* the backward's, where there is one */
	op->with_length = length;
	op->with_tokens = tokens;
}

static void meet(struct building *b, enum sim_op_kind kind, enum sim_group g, enum comm_op what,
		 enum sim_phase phase, uint32_t micro, uint64_t bytes)
{
	struct sim_op *op;

	if (b->p->members[g] < 2)
		return;
	op = add(b, kind, phase, micro);
	op->group = (uint8_t)g;
	op->bytes = bytes;
	op->ns = (float)transfer_ns(b->p, g, what, bytes);
	op->launch_ns = 20000;
	op->with_tokens = g == SIM_EP;
	op->place = b->places[g]++;
	op->row = row_of(b->to, g, what, bytes);
}

/* Bytes of activations that a layer gives on, taken from how long it computes: at 400 TFLOP/s a
   layer of hidden size h over s tokens needs 24 s h^2 operations, and h is 4,096. */
static uint64_t activation_bytes(const struct building *b)
{
	double tokens = b->layer_ns * 400e3 / (24.0 * 4096 * 4096);

	return (uint64_t)(MAX(tokens, 16.0)) * 4096 * 2;
}

static void layer(struct building *b, uint32_t micro, bool backward)
{
	double ns = b->layer_ns * (backward ? 2 : 1);
	uint64_t bytes = activation_bytes(b);
	struct {
		enum sim_phase phase;
		uint32_t kernel;
	} attention = { SIM_ATTENTION, backward ? K_FLASH_BACK : K_FLASH },
	  mlp = { SIM_MLP, backward ? K_GEMM_BACK : K_GEMM };

	b->in_layer = true;
	b->backward = backward;
	if (!backward) {
		meet(b, SIM_MEET, SIM_CP, COMM_ALL_GATHER, SIM_ATTENTION, micro, bytes);
		work(b, attention.phase, attention.kernel, micro, ns * ATTENTION, true, false);
		meet(b, SIM_MEET, SIM_TP, COMM_ALL_REDUCE, SIM_ATTENTION, micro, bytes);
	}
	meet(b, SIM_MEET, SIM_EP, COMM_ALL_TO_ALL, SIM_DISPATCH, micro, bytes);
	work(b, mlp.phase, mlp.kernel, micro, ns * MLP, true, true);
	meet(b, SIM_MEET, SIM_EP, COMM_ALL_TO_ALL, SIM_COMBINE, micro, bytes);
	meet(b, SIM_MEET, SIM_TP, COMM_ALL_REDUCE, SIM_MLP, micro, bytes);
	if (backward) {
		work(b, attention.phase, attention.kernel, micro, ns * ATTENTION, true, false);
		meet(b, SIM_MEET, SIM_CP, COMM_REDUCE_SCATTER, SIM_ATTENTION, micro, bytes);
		meet(b, SIM_MEET, SIM_TP, COMM_ALL_REDUCE, SIM_ATTENTION, micro, bytes);
	}
	b->in_layer = false;
}

/* The edge in front of (forward) or behind virtual stage v, as the forward goes. */
static void edge(struct building *b, enum sim_op_kind kind, uint32_t v, bool in_front,
		 uint32_t micro, bool backward)
{
	uint32_t last = b->p->stages * b->p->chunks - 1, at = in_front ? v - 1 : v;
	struct sim_op *op;

	if ((in_front && !v) || (!in_front && v == last))
		return;
	op = add(b, kind, SIM_PHASES, micro);
	op->group = SIM_PP;
	op->by = in_front ? -1 : 1;
	op->bytes = activation_bytes(b);
	op->ns = (float)transfer_ns(b->p, SIM_PP, COMM_SEND, op->bytes);
	op->launch_ns = 20000;
	op->place = (at * (b->p->micro_batches + b->p->evaluation) + micro) * 2 + backward;
	op->row = row_of(b->to, SIM_PP, kind == SIM_SEND ? COMM_SEND : COMM_RECV, op->bytes);
}

static void chunk(struct building *b, uint32_t k, uint32_t micro, bool backward, bool last_backward)
{
	uint32_t v = k * b->p->stages + b->stage, layers = b->p->options->layers;
	bool first = v == 0, last = v == b->p->stages * b->p->chunks - 1;

	edge(b, SIM_RECV, v, !backward, micro, backward);
	if (first && !backward)
		work(b, SIM_EMBEDDING, K_EMBED, micro, b->layer_ns * 0.02, true, false);
	if (last && backward)
		work(b, SIM_HEAD, K_HEAD, micro, b->layer_ns * layers * HEAD * 2, true, false);
	for (uint32_t i = 0; i < layers; i++) {
		layer(b, micro, backward);
		if (last_backward && !b->p->options->all_reduce)
			meet(b, SIM_POST, SIM_DP, COMM_REDUCE_SCATTER, SIM_GRADIENTS, micro,
			     (uint64_t)200 << 20);
		else if (last_backward)
			meet(b, SIM_POST, SIM_DP, COMM_ALL_REDUCE, SIM_GRADIENTS, micro,
			     (uint64_t)200 << 20);
	}
	if (last && !backward)
		work(b, SIM_HEAD, K_HEAD, micro, b->layer_ns * layers * HEAD, true, false);
	if (first && backward)
		work(b, SIM_EMBEDDING, K_EMBED, micro, b->layer_ns * 0.02, true, false);
	edge(b, SIM_SEND, v, backward, micro, backward);
}

/* Which chunk and micro-batch the i-th forward (or backward) of a rank is of. */
static void ith(const struct sim_plan *p, uint32_t i, bool backward, uint32_t *k, uint32_t *micro)
{
	uint32_t turn = p->stages * p->chunks, in = i % turn;

	if (p->chunks == 1) {
		*k = 0;
		*micro = i;
		return;
	}
	*k = in / p->stages;
	*k = backward ? p->chunks - 1 - *k : *k;
	*micro = i / turn * p->stages + in % p->stages;
}

static void one(struct building *b, uint32_t i, bool backward)
{
	uint32_t k, micro;

	ith(b->p, i, backward, &k, &micro);
	chunk(b, k, micro, backward, backward && micro == b->p->micro_batches - 1);
}

static bool is_comm(const struct sim_op *op)
{
	return op->kind != SIM_WORK && op->kind != SIM_AWAIT;
}

/* The share of `n` things of which `most` are kept, spread evenly: is the i-th among them? */
static bool is_kept(uint64_t i, uint64_t n, uint64_t most)
{
	most = MIN(most, n);
	return (i + 1) * most / n > i * most / n;
}

/* Which of a row's collectives a record keeps: the same for all members. A sender and its receiver
   know one another by the micro-batch. */
static void choose_kept(const struct sim_plan *p, struct sim_program *to)
{
	uint32_t seen[SIM_ROWS_MAX] = { 0 }, pairs = MAX(SIM_KEEP / 2 / p->chunks, 1u);

	for (size_t i = 0; i < to->ops.n; i++)
		if (is_comm(&to->ops.v[i]))
			to->rows[to->ops.v[i].row].count++;
	for (size_t i = 0; i < to->ops.n; i++) {
		struct sim_op *op = &to->ops.v[i];
		bool pair = op->kind == SIM_SEND || op->kind == SIM_RECV;

		if (!is_comm(op))
			continue;
		if (pair ? is_kept(op->micro, p->micro_batches + p->evaluation, pairs)
			 : is_kept(seen[op->row]++, to->rows[op->row].count, SIM_KEEP))
			op->keep = (int16_t)to->n_keep++;
	}
}

static void program(struct sim_plan *p, uint32_t stage, double layer_ns)
{
	struct building b = {
		.p = p, .to = &p->programs[stage], .stage = stage, .layer_ns = layer_ns
	};
	uint32_t total = p->micro_batches * p->chunks, warm;

	free(b.to->ops.v);
	*b.to = (struct sim_program){ 0 };
	warm = p->chunks == 1 ? p->stages - stage - 1
			      : 2 * (p->stages - stage - 1) + (p->chunks - 1) * p->stages;
	warm = MIN(warm, total);
	add(&b, SIM_WORK, SIM_DATA_PHASE, 0);
	if (!p->options->all_reduce)
		meet(&b, SIM_MEET, SIM_DP, COMM_ALL_GATHER, SIM_OPTIMIZER, 0, (uint64_t)100 << 20);
	for (uint32_t i = 0; i < p->evaluation * p->chunks; i++) {
		uint32_t k, micro;

		ith(p, i, false, &k, &micro);
		chunk(&b, k, p->micro_batches + micro, false, false);
	}
	for (uint32_t i = 0; i < warm; i++)
		one(&b, i, false);
	for (uint32_t i = warm; i < total; i++) {
		one(&b, i, false);
		one(&b, i - warm, true);
	}
	for (uint32_t i = total - warm; i < total; i++)
		one(&b, i, true);
	add(&b, SIM_AWAIT, SIM_GRADIENTS, 0);
	meet(&b, SIM_MEET, SIM_MP, COMM_ALL_REDUCE, SIM_OPTIMIZER, 0, 4);
	work(&b, SIM_OPTIMIZER, K_ADAM, 0, layer_ns * OPTIMIZER * 3 * total, false, false);
	choose_kept(p, b.to);
	for (int g = 0; g < SIM_GROUPS; g++)
		p->of_kind[g] = MAX(p->of_kind[g], b.places[g]);
}

/* Ranks that share all coordinates but those in `dims` are a group; numbered by their lowest rank.
 */
static void make_groups(struct sim_plan *p, enum sim_group g, const enum layout_dim *dims,
			size_t n_dims)
{
	const struct layout *l = &p->options->layout;
	uint64_t size = 1;
	uint32_t *leader, *number;

	for (size_t i = 0; i < n_dims; i++)
		size *= l->size[dims[i]];
	p->members[g] = (uint32_t)size;
	p->groups[g] = (uint32_t)(p->world / size);
	p->group_of[g] = xmalloc((size_t)p->world * sizeof(uint32_t));
	number = xmalloc((size_t)p->world * sizeof(*number));
	leader = p->group_of[g];
	for (uint32_t r = 0, n = 0; r < p->world; r++) {
		uint32_t low = r, stride = 1;

		for (uint32_t i = 0; i < l->n_order; i++) {
			for (size_t k = 0; k < n_dims; k++)
				if (l->order[i] == dims[k])
					low -= layout_coord(l, r, dims[k]) * stride;
			stride *= l->size[l->order[i]];
		}
		if (low == r)
			number[r] = n++;
		leader[r] = number[low];
		p->spans[g] = leader[r] ? p->spans[g] : r + 1;
	}
	free(number);
}

/* Runs of ep replicas, cp within them where it varies faster. */
static void make_expert_groups(struct sim_plan *p)
{
	const struct layout *l = &p->options->layout;
	uint32_t ep = l->size[LAYOUT_EP], runs = p->members[SIM_DP] / MAX(ep, 1u);
	uint32_t *place = xcalloc(p->groups[SIM_DP], sizeof(*place));

	p->members[SIM_EP] = ep;
	p->groups[SIM_EP] = p->world / ep;
	p->group_of[SIM_EP] = xmalloc((size_t)p->world * sizeof(uint32_t));
	for (uint32_t r = 0; r < p->world; r++) {
		uint32_t dp = p->group_of[SIM_DP][r];

		p->group_of[SIM_EP][r] = dp * runs + place[dp]++ / ep;
		p->spans[SIM_EP] = p->group_of[SIM_EP][r] ? p->spans[SIM_EP] : r + 1;
	}
	free(place);
}

static void place_ranks(struct sim_plan *p)
{
	const struct layout *l = &p->options->layout;
	uint32_t *next = xcalloc(p->stages, sizeof(*next));

	p->stage_of = xmalloc((size_t)p->world * sizeof(uint32_t));
	p->lane_of = xmalloc((size_t)p->world * sizeof(uint32_t));
	p->rank_at = xmalloc((size_t)p->world * sizeof(uint32_t));
	for (uint32_t r = 0; r < p->world; r++) {
		uint32_t stage = layout_coord(l, r, LAYOUT_PP), lane = next[stage]++;

		p->stage_of[r] = stage;
		p->lane_of[r] = lane; /* in order of rank: the same lanes are neighbours */
		p->rank_at[stage * p->lanes + lane] = r;
	}
	free(next);
}

/* A healthy step without noise: the busiest stage, and the pipeline's filling and emptying. */
static double expected_ns(const struct sim_plan *p, double chunks_in_line)
{
	double most = 0;

	for (uint32_t s = 0; s < p->stages; s++) {
		const struct sim_program *program = &p->programs[s];
		double sum = 0;

		for (size_t i = 0; i < program->ops.n; i++)
			if (program->ops.v[i].kind == SIM_WORK ||
			    program->ops.v[i].kind == SIM_MEET)
				sum += (double)program->ops.v[i].ns;
		most = MAX(most, sum);
	}
	return MAX(most, 1) * chunks_in_line / p->micro_batches;
}

void sim_plan_make(struct sim_plan *p, const struct sim_options *options, bool evaluates)
{
	static const enum layout_dim tp[] = { LAYOUT_TP }, cp[] = { LAYOUT_CP },
				     dp[] = { LAYOUT_CP, LAYOUT_DP },
				     mp[] = { LAYOUT_TP, LAYOUT_PP }, pp[] = { LAYOUT_PP };
	double chunks_in_line, layer_ns, used;

	*p = (struct sim_plan){ .options = options,
				.world = (uint32_t)layout_world(&options->layout),
				.stages = options->layout.size[LAYOUT_PP],
				.chunks = options->chunks,
				.micro_batches = options->micro_batches };
	p->lanes = p->world / p->stages;
	make_groups(p, SIM_TP, tp, 1);
	make_groups(p, SIM_CP, cp, 1);
	make_groups(p, SIM_DP, dp, 2);
	make_groups(p, SIM_MP, mp, 2);
	make_groups(p, SIM_PP, pp, 1);
	make_expert_groups(p);
	place_ranks(p);
	chunks_in_line = p->micro_batches + (double)(p->stages - 1) / p->chunks;
	p->programs = xcalloc(p->stages, sizeof(*p->programs));
	layer_ns = options->step_ms * 1e6 / (3.1 * options->layers * p->chunks * chunks_in_line);
	for (int again = 0; again < 2; again++) {
		used = layer_ns;
		for (uint32_t i = 0; i < p->stages; i++)
			program(p, i, layer_ns);
		layer_ns *= options->step_ms * 1e6 / expected_ns(p, chunks_in_line);
	}
	p->evaluation = evaluates ? p->micro_batches : 0;
	for (uint32_t i = 0; i < p->stages && evaluates; i++)
		program(p, i, used);
	p->of_kind[SIM_PP] = (p->stages * p->chunks - 1) * (p->micro_batches + p->evaluation) * 2;
	for (int g = 0; g < SIM_GROUPS; g++)
		p->first_inst[g + 1] =
		    p->first_inst[g] + p->of_kind[g] * (g == SIM_PP ? p->lanes : p->groups[g]);
}

void sim_plan_done(struct sim_plan *p)
{
	for (uint32_t s = 0; s < p->stages; s++)
		free(p->programs[s].ops.v);
	free(p->programs);
	for (int g = 0; g < SIM_GROUPS; g++)
		free(p->group_of[g]);
	free(p->stage_of);
	free(p->lane_of);
	free(p->rank_at);
}
