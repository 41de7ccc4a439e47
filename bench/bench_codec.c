/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_codec.c - how fast step records are encoded and decoded, from files of records.
 *
 *	bench_codec WHAT STEPS.lks [WHAT STEPS.lks...]
 *
 * GB/s are of the encoded bytes, and in words of the structs that they stand for. Beside it, in the
 * same run, zstd at level 1 of those structs as they lie in memory. Times are of the processor.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <zstd.h>

#include "read/input.h"
#include "store/lks.h"

enum { RUNS = 7, MOST_BYTES = 32 << 20 };

struct bench {
	struct lks_reader *reader;
	VEC(uint32_t) lengths; /* of records, one behind the other in `bytes` */
	struct buf bytes;
	struct arena arena;
	struct step *steps; /* of all records, decoded */
	struct buf raw;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "bench_codec: %s\n", what);
	exit(1);
}

static int take_record(void *user, uint64_t number, const uint8_t *bytes, size_t len)
{
	struct bench *b = user;

	(void)number;
	if (b->bytes.len + len > MOST_BYTES)
		return 0;
	buf_put(&b->bytes, bytes, len);
	*vec_push(&b->lengths) = (uint32_t)len;
	return 0;
}

static void read_records(struct bench *b, const char *path)
{
	struct intern names = { 0 };
	const struct lks_client client = { .user = b, .names = &names, .record = take_record };
	struct error error = { "" };
	struct input *in;
	char chunk[65536];
	ssize_t n;

	b->reader = lks_reader_new(&client);
	if (input_open(path, &in, &error) < 0)
		fail(error.text);
	while (b->bytes.len < MOST_BYTES - 65536 && (n = input_read(in, chunk, sizeof(chunk))) > 0)
		if (lks_reader_feed(b->reader, chunk, (size_t)n, &error) < 0)
			fail(error.text);
	input_free(in);
	lks_reader_free(b->reader);
	intern_done(&names);
	if (!b->lengths.n)
		fail("no records");
}

static uint64_t decode_all(struct bench *b)
{
	struct span in = span_of(b->bytes.data, b->bytes.len);
	uint64_t began = now_ns();

	for (size_t i = 0; i < b->lengths.n; i++) {
		struct span record = span_of(in.p, b->lengths.v[i]);
		struct step step;

		arena_reset(&b->arena);
		if (step_decode(&record, &b->arena, &step, NULL) < 0)
			fail("a record is damaged");
		in.p += b->lengths.v[i];
	}
	return now_ns() - began;
}

static void decode_and_keep(struct bench *b, struct arena *arena)
{
	struct span in = span_of(b->bytes.data, b->bytes.len);

	b->steps = xcalloc(b->lengths.n, sizeof(*b->steps));
	for (size_t i = 0; i < b->lengths.n; i++) {
		struct span record = span_of(in.p, b->lengths.v[i]);

		step_decode(&record, arena, &b->steps[i], NULL);
		in.p += b->lengths.v[i];
	}
}

static uint64_t encode_all(const struct bench *b, struct buf *out)
{
	uint64_t began = now_ns();

	out->len = 0;
	for (size_t i = 0; i < b->lengths.n; i++)
		step_encode(out, &b->steps[i]);
	return now_ns() - began;
}

static void raw_put(struct buf *raw, const struct step *s)
{
	buf_put(raw, s, sizeof(*s));
	buf_put(raw, s->phases, s->n_phases * sizeof(*s->phases));
	buf_put(raw, s->kernels, s->n_kernels * sizeof(*s->kernels));
	for (uint32_t i = 0; i < s->n_kernels; i++)
		buf_put(raw, s->kernels[i].hist.bins,
			s->kernels[i].hist.n * sizeof(struct hist_bin));
	buf_put(raw, s->comms, s->n_comms * sizeof(*s->comms));
	buf_put(raw, s->colls, s->n_colls * sizeof(*s->colls));
}

/* GB/s of so many bytes in the least of the times; one byte a nanosecond is one of them. */
static double speed(const uint64_t *ns, size_t bytes)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < RUNS; i++)
		least = MIN(least, ns[i]);
	return (double)bytes / (double)least;
}

static void bench(const char *what, const char *path)
{
	struct bench b = { 0 };
	struct arena kept = { 0 };
	struct buf out = { 0 }, packed = { 0 };
	uint64_t decode[RUNS], encode[RUNS], pack[RUNS], unpack[RUNS];
	size_t raw, size = 0;

	read_records(&b, path);
	decode_and_keep(&b, &kept);
	for (size_t i = 0; i < b.lengths.n; i++)
		raw_put(&b.raw, &b.steps[i]);
	raw = b.raw.len;
	packed.data = vec_reserve(NULL, &packed.cap, ZSTD_compressBound(raw), 1);
	for (size_t i = 0; i < RUNS; i++) {
		decode[i] = decode_all(&b);
		encode[i] = encode_all(&b, &out);
		pack[i] = now_ns();
		size = ZSTD_compress(packed.data, packed.cap, b.raw.data, raw, 1);
		unpack[i] = now_ns();
		pack[i] = unpack[i] - pack[i];
		ZSTD_decompress(b.raw.data, raw, packed.data, size);
		unpack[i] = now_ns() - unpack[i];
	}
	if (out.len != b.bytes.len || memcmp(out.data, b.bytes.data, out.len) != 0)
		fail("what was encoded again is not what was decoded");
	printf("%-34s %9.3g %-9s %s: %zu records, %zu bytes each, of structs of %zu; %.3g GB/s of "
	       "structs; zstd -1 of the structs %.3g GB/s to %zu bytes each\n",
	       "step records, encoding", speed(encode, out.len), "GB/s", what, b.lengths.n,
	       out.len / b.lengths.n, raw / b.lengths.n, speed(encode, raw), speed(pack, raw),
	       size / b.lengths.n);
	printf("%-34s %9.3g %-9s %s: %.3g GB/s of structs; zstd -d %.3g GB/s\n",
	       "step records, decoding", speed(decode, out.len), "GB/s", what, speed(decode, raw),
	       speed(unpack, raw));
	free(b.lengths.v);
	free(b.steps);
	buf_done(&b.bytes);
	buf_done(&b.raw);
	buf_done(&out);
	buf_done(&packed);
	arena_done(&b.arena);
	arena_done(&kept);
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc % 2 == 0)
		fail("WHAT STEPS.lks [WHAT STEPS.lks...]");
	for (int i = 1; i < argc; i += 2)
		bench(argv[i], argv[i + 1]);
	return 0;
}
