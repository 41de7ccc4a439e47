/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_arrays.c - Megatron-LM's .idx (lengths of sequences) and NumPy's .npy (a shape).
 *
 * Both are headers that say how much follows; what they say is believed only as far as the file is
 * long enough for it.
 */
#include "read/shard_inside.h"

#include <stdio.h>
#include <sys/stat.h>

#define IDX_HEAD	34u /* magic 9, version 8, dtype 1, sequences 8, documents 8 */
#define IDX_OLD_HEAD	40u /* magic 8, version 8, dtype 8, width 8, sequences 8 */
#define IDX_ITEMS_MOST	((uint64_t)1 << 40)
#define NPY_HEADER_MOST ((size_t)60 << 10)
#define NPY_DIMS_MOST	32u

static const char idx_magic[9] = "MMIDIDX\0"; /* and one more zero */
static const char idx_old_magic[8] = "TNTIDX\0";

static uint64_t little(const uint8_t *p, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | p[bytes];
	return v;
}

bool shard_looks_idx(const struct shard_file *f)
{
	return !f->compressed && ((f->head_len >= sizeof(idx_magic) &&
				   !memcmp(f->head, idx_magic, sizeof(idx_magic))) ||
				  (f->head_len >= sizeof(idx_old_magic) &&
				   !memcmp(f->head, idx_old_magic, sizeof(idx_old_magic))));
}

struct idx {
	uint64_t sequences, documents, lengths_at;
	unsigned width;		/* of a token; 0: not sure */
	unsigned length_bytes;	/* of one length */
	uint64_t whole;		/* how long the file must be */
	bool documents_counted; /* there is one document mark more than documents */
};

/* Bytes of a token by its code: in Megatron-LM; 6 and 7 have changed places over the years. */
static int width_of(uint64_t code)
{
	static const int8_t widths[] = { -1, 1, 1, 2, 4, 8, 0, 0, 2 };

	return code < ARRAY_SIZE(widths) ? widths[code] : -1;
}

static int read_head(const struct shard_file *f, struct idx *x, struct error *reterr)
{
	const uint8_t *p = f->head;
	bool old = memcmp(p, idx_magic, 8) != 0;
	uint64_t version, code;

	if (f->head_len < (old ? IDX_OLD_HEAD : IDX_HEAD))
		return error_set(reterr, -EBADMSG, "%s: shorter than an index's header", f->path);
	version = little(p + (old ? 8 : 9), 8);
	code = old ? little(p + 16, 8) : p[17];
	if (version != 1 || width_of(code) < 0)
		return error_set(reterr, -EBADMSG,
				 "%s: an index of version %" PRIu64 " and type %" PRIu64
				 ", which are not known",
				 f->path, version, code);
	x->width = (unsigned)width_of(code);
	x->sequences = little(p + (old ? 32 : 18), 8);
	x->documents = little(p + (old ? 40 : 26), 8);
	if (old) { /* fairseq's: offsets of both kinds first; a length is of 8 bytes */
		uint64_t offsets = 8 * (x->sequences + 1);

		if (f->head_len < IDX_OLD_HEAD + 16)
			return error_set(reterr, -EBADMSG, "%s: shorter than an index's header",
					 f->path);
		x->documents = little(p + 48, 8);
		x->lengths_at = IDX_OLD_HEAD + 16 + 2 * offsets;
		x->length_bytes = 8;
		x->whole = x->lengths_at + 8 * (x->sequences + x->documents);
	} else {
		x->lengths_at = IDX_HEAD;
		x->length_bytes = 4;
		x->whole = IDX_HEAD + 12 * x->sequences + 8 * x->documents;
	}
	if (x->sequences > IDX_ITEMS_MOST || x->documents > IDX_ITEMS_MOST || x->whole > f->size)
		return error_set(reterr, -EBADMSG,
				 "%s: cut off: the index of %" PRIu64 " sequences needs %" PRIu64
				 " bytes, the file has %" PRIu64,
				 f->path, x->sequences, x->whole, f->size);
	return 0;
}

/* The sum of lengths; a negative one is damage. */
static int add_lengths(const struct shard_file *f, const struct idx *x, int64_t *ret,
		       struct error *reterr)
{
	_cleanup_free_ uint8_t *buf = xmalloc(SHARD_BUFFER_BYTES);
	uint64_t left = x->sequences * x->length_bytes, at = x->lengths_at, sum = 0, bits = 0;

	while (left) {
		ssize_t n = shard_pread(f, buf, (size_t)MIN(SHARD_BUFFER_BYTES, left), at);
		size_t i = 0;

		if (n <= 0 || n % x->length_bytes)
			return error_set(reterr, n < 0 ? (int)n : -EBADMSG,
					 "%s: the lengths of sequences cannot be read", f->path);
		if (x->length_bytes == 4) {
			for (; i < (size_t)n; i += 4) {
				uint32_t v = (uint32_t)little(buf + i, 4);

				sum += v;
				bits |= v >> 31;
			}
		} else {
			for (; i < (size_t)n; i += 8) {
				uint64_t v = little(buf + i, 8);

				bits |= v >> 40; /* no sequence has 2^40 tokens */
				sum += v & 0xffffffffff;
			}
		}
		shard_progress(f, (uint64_t)n);
		at += (uint64_t)n;
		left -= (uint64_t)n;
		if (bits || sum > (uint64_t)1 << 62)
			return error_set(reterr, -EBADMSG,
					 "%s: a sequence of a length that cannot be", f->path);
	}
	*ret = (int64_t)sum;
	return 0;
}

/* The tokens themselves lie beside the index: are there as many as it says? */
static void compare_bin(const struct shard_file *f, const struct idx *x, int64_t tokens,
			char why[160])
{
	size_t len = strlen(f->path);
	_cleanup_free_ char *bin = NULL;
	struct stat st;

	if (len < 4 || strcmp(f->path + len - 4, ".idx") != 0 || !x->width)
		return;
	bin = xasprintf("%.*s.bin", (int)(len - 4), f->path);
	if (stat(bin, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if ((uint64_t)st.st_size != (uint64_t)tokens * x->width)
		snprintf(why, 160,
			 "its .bin has %" PRIu64 " bytes, %" PRId64
			 " tokens of %u bytes need %" PRIu64,
			 (uint64_t)st.st_size, tokens, x->width, (uint64_t)tokens * x->width);
}

int shard_count_idx(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	struct idx x = { 0 };
	int r = read_head(f, &x, reterr);

	if (r >= 0)
		r = add_lengths(f, &x, &ret->tokens, reterr);
	if (r < 0)
		return r;
	ret->records = (int64_t)x.sequences;
	compare_bin(f, &x, ret->tokens, ret->why);
	return 0;
}

/* --- .npy --- */

bool shard_looks_npy(const struct shard_file *f)
{
	return !f->compressed && f->head_len >= 8 && !memcmp(f->head, "\x93NUMPY", 6);
}

/* Bytes of an element of '<i4', '|u1' and the like; 0: not sure. */
static unsigned npy_width(const char *header, const char *end)
{
	const char *p = memmem(header, (size_t)(end - header), "'descr'", 7);
	unsigned v = 0;

	if (!p)
		return 0;
	for (p += 7; p < end && *p != '\''; p++)
		if (*p == '[') /* a record of fields */
			return 0;
	if (end - p < 4 || !strchr("<>|=", p[1]) || !strchr("biufcVS", p[2]))
		return 0;
	for (p += 3; p < end && *p >= '0' && *p <= '9' && v < 1000000; p++)
		v = v * 10 + (unsigned)(*p - '0');
	return p < end && *p == '\'' ? v : 0;
}

struct npy {
	int64_t first, product;
	unsigned dims;
};

static bool npy_shape(const char *header, const char *end, struct npy *s)
{
	const char *p = memmem(header, (size_t)(end - header), "'shape'", 7);

	*s = (struct npy){ .first = 1, .product = 1 };
	p = p ? memchr(p, '(', (size_t)(end - p)) : NULL;
	if (!p)
		return false;
	for (p++; p < end && *p != ')';) {
		int64_t v = 0;

		if (*p == ' ' || *p == ',' || *p == 'L') { /* Python 2 wrote 3L */
			p++;
			continue;
		}
		if (*p < '0' || *p > '9' || s->dims >= NPY_DIMS_MOST)
			return false;
		for (; p < end && *p >= '0' && *p <= '9'; p++)
			if (__builtin_mul_overflow(v, 10, &v) ||
			    __builtin_add_overflow(v, *p - '0', &v))
				return false;
		if (!s->dims++)
			s->first = v;
		if (__builtin_mul_overflow(s->product, v, &s->product))
			return false;
	}
	return p < end;
}

int shard_count_npy(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	unsigned wide = f->head[6] == 1 ? 2 : 4, width;
	uint64_t at = 8 + wide, len, need;
	const char *header = (const char *)f->head + at;
	struct npy s;

	if (f->head_len < at || f->head[6] < 1 || f->head[6] > 3)
		return error_set(reterr, -EBADMSG, "%s: no version of .npy that is known", f->path);
	len = little(f->head + 8, wide);
	if (len > NPY_HEADER_MOST || at + len > f->head_len)
		return error_set(reterr, -EBADMSG, "%s: its header is cut off", f->path);
	if (!npy_shape(header, header + len, &s))
		return error_set(reterr, -EBADMSG, "%s: its header has no shape that can be",
				 f->path);
	ret->records = s.first;
	ret->tokens = s.product;
	width = npy_width(header, header + len);
	if (width && (__builtin_mul_overflow((uint64_t)s.product, width, &need) ||
		      at + len > f->size || need > f->size - at - len))
		return error_set(reterr, -EBADMSG,
				 "%s: cut off: %" PRId64
				 " elements of %u bytes do not fit in %" PRIu64 " bytes",
				 f->path, s.product, width, f->size);
	if (s.dims == 1)
		snprintf(ret->why, sizeof(ret->why), "a flat array: each element is a record");
	return 0;
}
