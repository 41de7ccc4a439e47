/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack.c - text files made of stacks, whoever wrote them: one process, a node's, or a job's.
 *
 * Each line is tried as it stands; failing that without a prefix ("node7: ", "[rank3]:", "3: ")
 * that parallel shells and launchers put in front, which then tells whose line it is. The file's
 * name gives the rank where nothing inside does.
 */
#include "read/stack.h"

#include <strings.h>

#include "read/stack_lines.h"
#include "read/survey.h"

#define LINE_MAX_BYTES ((size_t)64 << 10)
#define PREFIX_LEN_MAX 64u
#define SNIFF_PREAMBLE 40u /* lines in front of the first stack */

struct stack_file {
	struct testimony *t;
	struct stack_lines *lines;
	struct stack_speaker plain;		   /* of lines without a prefix */
	uint64_t n_lines, n_taken, n_blank, first; /* first: the first line taken */
	bool by_gdb;				   /* gdb's own words stand at its head */
	bool prefixed;
	char *plain_text; /* 2 * LINE_MAX_BYTES: as long as any line of the buffer */
};

/* --- names --- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* "node7" and its like: what clusters call their machines. */
static bool is_host_token(const char *p, size_t len)
{
	static const char *const words[] = { "node", "host", "gpu-",	"gpunode", "worker",
					     "dgx",  "hgx",  "compute", "ip-10",   "ip-172",
					     "nid",  "p4d-", "p5-",	"n0",	   "n1",
					     "cn0",  "cn1",  "trainer-" };

	if (!len || !is_digit(p[len - 1]))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (len > strlen(words[i]) && !strncasecmp(p, words[i], strlen(words[i])))
			return true;
	return false;
}

/* The number behind `word` in the token p[0..len), perhaps with one of - _ between; -1. */
static int64_t token_number(const char *p, size_t len, const char *word)
{
	size_t n = strlen(word);
	int64_t v = 0;

	if (len <= n || strncasecmp(p, word, n))
		return -1;
	n += p[n] == '-' || p[n] == '_';
	if (n >= len || !is_digit(p[n]))
		return -1;
	for (; n < len && is_digit(p[n]) && v <= INT32_MAX; n++)
		v = v * 10 + (p[n] - '0');
	return v <= INT32_MAX ? v : -1;
}

static void name_part(struct stack_name *n, const char *p, const char *end)
{
	/* As `lockstep collect` names the folder of a node. */
	if (end - p > 5 && !memcmp(p, "host_", 5)) {
		n->host = p + 5;
		n->host_len = (size_t)(end - p - 5);
		return;
	}
	while (p < end) {
		const char *stop = p;
		int64_t v;

		while (stop < end && !strchr("_.:@", *stop))
			stop++;
		/* A word and its number may be apart: pid_123 */
		v = token_number(p, (size_t)(end - p), "pid");
		if (v >= 0)
			n->pid = v;
		v = token_number(p, (size_t)(end - p), "gpu");
		if (v < 0)
			v = token_number(p, (size_t)(end - p), "local_rank");
		if (v < 0)
			v = token_number(p, (size_t)(end - p), "local-rank");
		if (v >= 0 && v < 64)
			n->local_rank = v;
		if (!n->host && is_host_token(p, (size_t)(stop - p))) {
			n->host = p;
			n->host_len = (size_t)(stop - p);
		}
		p = stop + (stop < end);
	}
}

struct stack_name stack_name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;
	struct stack_name n = { .rank = survey_rank_of_name(path), .local_rank = -1, .pid = -1 };

	name_part(&n, base, base + strlen(base));
	/* The two folders above: rank3/ in node7/ */
	for (int i = 0; i < 2 && slash && !n.host; i++) {
		const char *folder = slash;

		while (folder > path && folder[-1] != '/')
			folder--;
		name_part(&n, folder, slash);
		slash = folder > path ? folder - 1 : NULL;
	}
	return n;
}

/* --- prefixes --- */

/* Takes "node7: ", "[rank3]:", "[1,3]<stdout>:", "3: " from the front. False: there is none. */
static bool take_prefix(struct text *t, struct text *prefix)
{
	const char *p = t->p, *limit = MIN(t->end, t->p + PREFIX_LEN_MAX);

	if (p < limit && *p == '[') {
		p = memchr(p, ']', (size_t)(limit - p));
		if (!p)
			return false;
		p++;
		if (p < limit && *p == '<') {
			p = memchr(p, '>', (size_t)(limit - p));
			if (!p)
				return false;
			p++;
		}
	} else {
		while (p < limit && (is_digit(*p) || is_letter(*p) || strchr("._-/", *p)) && *p)
			p++;
		if (p == t->p || p == limit || (*p != ':' && *p != '|'))
			return false;
	}
	*prefix = (struct text){ t->p, p };
	if (p < t->end && (*p == ':' || *p == '|'))
		p++;
	if (p < t->end && *p == ' ')
		p++;
	t->p = p;
	return true;
}

/* "2024-10-17T12:42:29.123Z ", as container logs have in front of each line. */
static bool take_stamp(struct text *t)
{
	const char *p = t->p;

	if (text_len(*t) < 20 || p[4] != '-' || p[7] != '-' || (p[10] != 'T' && p[10] != ' ') ||
	    p[13] != ':' || p[16] != ':')
		return false;
	for (p += 17; p < t->end && (is_digit(*p) || strchr(".,Z+:", *p)) && *p; p++)
		;
	if (p == t->end || *p != ' ')
		return false;
	t->p = p + 1;
	return true;
}

/* Without colours and a byte order mark; to has room for all of it. */
static size_t plain_line(char *to, const char *p, const char *end)
{
	char *at = to;

	if (end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end) {
		if (*p != '\033' || p + 1 == end || p[1] != '[') {
			*at++ = *p++;
			continue;
		}
		for (p += 2; p < end && (is_digit(*p) || *p == ';'); p++)
			;
		p += p < end;
	}
	return (size_t)(at - to);
}

/* Whose lines a prefix marks. */
static struct stack_speaker speaker_of(struct stack_file *f, struct text prefix)
{
	struct stack_speaker s = stack_speaker_unknown();
	size_t len;

	s.prefix = testimony_name(f->t, prefix.p, text_len(prefix));
	if (text_len(prefix) && *prefix.p == '[')
		prefix.p++;
	if (text_len(prefix) && prefix.end[-1] == ']')
		prefix.end--;
	len = text_len(prefix);
	s.rank = token_number(prefix.p, len, "rank");
	s.local_rank = token_number(prefix.p, len, "default"); /* torchrun's name of its workers */
	/* A task's number of srun or mpirun is not always a rank. */
	if (s.rank < 0 && s.local_rank < 0 && len && is_letter(*prefix.p))
		s.host = testimony_name(f->t, prefix.p, len);
	return s;
}

static void take_line(struct stack_file *f, const char *line, size_t len)
{
	struct text t, prefix;
	struct stack_speaker from;
	struct stack_word w;

	f->n_lines++;
	if (memchr(line, '\033', len) || (f->n_lines == 1 && len && (unsigned char)*line == 0xef)) {
		len = plain_line(f->plain_text, line, line + len);
		line = f->plain_text;
	}
	t = (struct text){ line, line + len };
	if (take_stamp(&t)) {
		line = t.p;
		len = text_len(t);
	}
	if (stack_lines_take(f->lines, &f->plain, line, len)) {
		w = stack_word_of(line, len, false);
		f->by_gdb |= w.kind == WORD_NOTE && len && *line == '[';
		f->n_blank += w.kind == WORD_BLANK;
		f->n_taken += w.kind != WORD_BLANK;
	} else if (!len || (len == 1 && *line == '\r')) {
		f->n_blank++;
	} else if (take_prefix(&t, &prefix)) {
		w = stack_word_of(t.p, text_len(t), f->prefixed);
		if (w.kind == WORD_NONE && !f->prefixed)
			return;
		from = speaker_of(f, prefix);
		if (!stack_lines_take(f->lines, &from, t.p, text_len(t)))
			return;
		f->prefixed |= w.kind == WORD_THREAD;
		f->n_taken++;
	}
	if (!f->first && f->n_taken)
		f->first = f->n_lines;
}

static void file_open(struct stack_file *f, const char *path)
{
	struct stack_name n = stack_name_of(path);

	*f = (struct stack_file){ .t = testimony_new(WITNESS_STACKS, "stacks") };
	f->plain = stack_speaker_unknown();
	f->plain.rank = f->t->rank = n.rank;
	f->plain.local_rank = n.local_rank;
	if (n.host)
		f->plain.host = f->t->host = testimony_name(f->t, n.host, n.host_len);
	f->t->pid = n.pid;
	f->t->path = testimony_name(f->t, path, strlen(path));
	f->lines = stack_lines_new(f->t, true);
	f->plain_text = xmalloc(2 * LINE_MAX_BYTES);
}

/* --- sniffing --- */

bool stack_sniff(const char *text, size_t len, const char *path)
{
	const char *end = text + len, *p = text;
	struct stack_file f;
	uint64_t lines;
	bool found;

	if (memchr(text, 0, MIN(len, 512)))
		return false;
	file_open(&f, path);
	while (p < end) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));

		/* The last line may be cut. */
		if (!eol && len == SURVEY_LOOK_BYTES)
			break;
		take_line(&f, p, MIN((size_t)((eol ? eol : end) - p), LINE_MAX_BYTES));
		p = eol ? eol + 1 : end;
		if (!f.n_taken && f.n_lines > SNIFF_PREAMBLE)
			break;
	}
	stack_lines_end(f.lines);
	lines = f.n_lines - f.n_blank;
	found = stack_lines_frames(f.lines) > 0 && (f.by_gdb || 2 * f.n_taken >= lines);
	stack_lines_free(f.lines);
	free(f.plain_text);
	testimony_free(f.t);
	return found;
}

/* --- reading --- */

static const char *format_of(const struct testimony *t)
{
	static const char *const formats[] = {
		[STACK_PYSPY] = "py-spy",
		[STACK_GDB] = "gdb",
		[STACK_FAULTHANDLER] = "faulthandler",
		[STACK_KERNEL] = "kernel-stacks",
		[STACK_OTHER] = "stacks",
	};

	return formats[t->stacks.v[0].tool];
}

static int read_lines(struct stack_file *f, struct input *in, struct read_stats *stats)
{
	_cleanup_free_ char *buf = xmalloc(2 * LINE_MAX_BYTES);
	size_t kept = 0;
	bool cut = false; /* the rest of a line that was too long is skipped */

	for (;;) {
		ssize_t n = input_read(in, buf + kept, 2 * LINE_MAX_BYTES - kept);
		const char *p = buf, *end, *eol;

		if (n < 0)
			return (int)n;
		end = buf + kept + (size_t)n;
		while ((eol = memchr(p, '\n', (size_t)(end - p)))) {
			if (!cut)
				take_line(f, p, (size_t)(eol - p));
			cut = false;
			p = eol + 1;
		}
		kept = (size_t)(end - p);
		if (!n || kept >= LINE_MAX_BYTES) {
			if (kept && !cut)
				take_line(f, p, kept);
			stats->skipped[SKIP_TOO_LONG] += n && !cut;
			cut = n > 0;
			kept = 0;
		}
		if (!n)
			return 0;
		memmove(buf, p, kept);
	}
}

int stack_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	       struct error *reterr)
{
	struct stack_file f;
	int r;

	file_open(&f, path);
	r = read_lines(&f, in, stats);
	stack_lines_end(f.lines);
	f.t->lines = f.n_lines;
	stats->events = f.t->threads.n;
	stats->bytes = input_bytes_text(in);
	stats->bytes_file = input_bytes_raw(in);
	stack_lines_free(f.lines);
	free(f.plain_text);
	if (r < 0 || !f.t->stacks.n) {
		testimony_free(f.t);
		return r < 0 ? error_set(reterr, r, "%s", strerror(-r))
			     : error_set(reterr, -EBADMSG, "no stack in it");
	}
	if (input_state(in) != INPUT_GOOD) {
		stats->skipped[SKIP_TRUNCATED]++;
		error_set(reterr, 0, "%s", input_problem(in));
	}
	f.t->format = format_of(f.t);
	if (f.t->stacks.n == 1 && f.t->stacks.v[0].pid < 0)
		f.t->stacks.v[0].pid = f.t->pid;
	else if (f.t->stacks.n == 1)
		f.t->pid = f.t->stacks.v[0].pid;
	*ret = f.t;
	return 0;
}
