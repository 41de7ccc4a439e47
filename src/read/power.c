/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power.c - what the formats of power share: whose a file is by its name, prefixes of lines, the
 * frame of reading one.
 */
#include "read/power.h"

#include <stdio.h>
#include <strings.h>

#include "read/survey.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* --- hosts in paths --- */

struct part {
	const char *p;
	size_t len;
};

/* A word, and nothing but digits behind it. */
static bool is_word_and_digits(struct part s, const char *word)
{
	size_t n = strlen(word);

	if (s.len < n || strncasecmp(s.p, word, n))
		return false;
	for (; n < s.len; n++)
		if (!is_digit(s.p[n]))
			return false;
	return true;
}

/* Words of file names that are no hosts, with a number behind them or without. */
static bool is_plain_word(struct part s)
{
	static const char *const words[] = {
		"gpu",	    "gpus",	"nvidia",      "smi",	  "nvidiasmi", "nvsmi",
		"rocm",	    "rocmsmi",	"amd",	       "dcgm",	  "dcgmi",     "dmon",
		"power",    "util",	"utilization", "usage",	  "log",       "logs",
		"stats",    "stat",	"metrics",     "metric",  "monitor",   "query",
		"csv",	    "txt",	"prom",	       "json",	  "jsonl",     "xml",
		"out",	    "output",	"telemetry",   "samples", "sample",    "ib",
		"counters", "counter",	"events",      "event",	  "dmesg",     "run",
		"test",	    "exp",	"try",	       "trial",	  "job",       "step",
		"epoch",    "part",	"rank",	       "case",	  "session",   "t",
		"v",	    "before",	"after",       "during",  "hang",      "full",
		"all",	    "exporter", "table",       "q",	  "data",      "dump",
		"snapshot", "local",	"localrank",   "worker",  "perfquery", "ibstat",
		"ethtool",  "gz",	"zst",	       "system",  "a100",      "a800",
		"h100",	    "h200",	"h800",	       "b100",	  "b200",      "b300",
		"gb200",    "gb300",	"v100",	       "p100",	  "l40s",      "mi250",
		"mi250x",   "mi300",	"mi300x",      "mi325x",  "mi355x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (is_word_and_digits(s, words[i]))
			return true;
	/* A day or a job's number; shorter ones may be a host's. */
	return (!s.len || s.len >= 4) && is_word_and_digits(s, "");
}

static bool has_letter_and_digit(struct part s)
{
	bool letter = false, digit = false;

	for (size_t i = 0; i < s.len; i++) {
		letter |= is_letter(s.p[i]);
		digit |= is_digit(s.p[i]);
	}
	return letter && digit;
}

/* node3, host-a, ip-10-0-1-2, nid005030: what says by itself that it is a machine. */
static bool is_host_name(struct part s)
{
	static const char *const words[] = { "node",	"host",	 "hostname", "nid", "ip-",
					     "compute", "dgx",	 "hgx",	     "cn",  "server",
					     "machine", "gpu-h", "worker-" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (s.len <= n || strncasecmp(s.p, words[i], n))
			continue;
		if (is_digit(s.p[n]) || s.p[n] == '-' || s.p[n] == '_' || s.p[n] == '=')
			return true;
	}
	/* h01, n3: a letter or two and a number */
	if (s.len >= 2 && s.len <= 8 && strchr("hn", s.p[0] | 0x20) && is_digit(s.p[1]))
		return is_word_and_digits(s, (const char[]){ s.p[0], 0 });
	return false;
}

/* "node=h01", "host_h01": the name behind the word, if there is a word at all. */
static struct part host_alone(struct part s)
{
	static const char *const words[] = { "host=", "node=", "hostname=", "host_", "hostname_" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if (s.len > n && !strncasecmp(s.p, words[i], n))
			return (struct part){ s.p + n, s.len - n };
	}
	return s;
}

/* What remains of "nvidia-smi_ip-10-0-1-2.csv" without the words in front and behind. */
static struct part without_words(struct part s)
{
	for (;;) {
		size_t n = 0;

		while (n < s.len && !strchr("-_.", s.p[n]))
			n++;
		if (n == s.len || !is_plain_word((struct part){ s.p, n }))
			break;
		s.p += n + 1;
		s.len -= n + 1;
	}
	for (;;) {
		size_t n = s.len;

		while (n && !strchr("-_.", s.p[n - 1]))
			n--;
		if (!n || !is_plain_word((struct part){ s.p + n, s.len - n }))
			break;
		s.len = n - 1;
	}
	return is_plain_word(s) ? (struct part){ s.p, 0 } : s;
}

/* "lockstep-evidence-HOST-20261130T021000Z" */
static bool host_of_collected(struct part s, struct part *ret)
{
	static const char word[] = "lockstep-evidence-";
	size_t n = sizeof(word) - 1, end = s.len;

	if (s.len <= n || memcmp(s.p, word, n))
		return false;
	while (end > n && s.p[end - 1] != '-')
		end--;
	if (end <= n + 1)
		return false;
	*ret = (struct part){ s.p + n, end - 1 - n };
	return true;
}

bool power_host_of_path(const char *path, const char **ret, size_t *ret_len)
{
	const char *end = path + strlen(path);
	struct part host = { NULL, 0 };

	for (unsigned depth = 0; end > path && depth < 16; depth++) {
		const char *from = end;
		struct part s;

		while (from > path && from[-1] != '/' && (depth || from[-1] != ':'))
			from--;
		s = (struct part){ from, (size_t)(end - from) };
		if (host_of_collected(s, &host))
			break;
		if (!host.p && depth == 0) {
			struct part name = without_words(s);

			/* No host has an underscore in its name. */
			if (memchr(name.p, '_', name.len) && host_alone(name).len == name.len)
				name.len = 0;
			if (name.len && (has_letter_and_digit(name) || is_host_name(name)) &&
			    !is_digit(name.p[0]))
				host = host_alone(name);
		} else if (!host.p && depth <= 2 && is_host_name(s)) {
			host = host_alone(s);
		}
		end = from > path ? from - 1 : from;
	}
	if (!host.p)
		return false;
	*ret = host.p;
	*ret_len = host.len;
	return true;
}

int64_t power_gpu_of_path(const char *path)
{
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	for (const char *p = base; (p = strcasestr(p, "gpu")); p += 3) {
		const char *d = p + 3;
		int64_t v = 0;

		d += *d == '_' || *d == '-';
		if ((p > base && is_letter(p[-1])) || !is_digit(*d))
			continue;
		for (; is_digit(*d) && v < 10000; d++)
			v = v * 10 + (*d - '0');
		if (v < 1000 && !is_letter(*d))
			return v;
	}
	return -1;
}

/* --- prefixes --- */

size_t power_prefix(const char *p, size_t len, const char **ret_label, size_t *ret_label_len)
{
	size_t n = 0, limit = MIN(len, (size_t)80);

	while (n < limit && p[n] == ' ') /* srun --label aligns its numbers */
		n++;
	*ret_label = p + n;
	if (n < limit && p[n] == '[') {
		while (n < limit && p[n] != ']')
			n++;
		if (n == limit)
			return 0;
		*ret_label_len = (size_t)(p + n - *ret_label) - 1;
		++*ret_label;
		n++;
		if (n < limit && p[n] == '<') { /* [1,3]<stdout>: */
			while (n < limit && p[n] != '>')
				n++;
			n += n < limit;
		}
		n += n < limit && p[n] == ':';
		return n < limit && (p[n] == ' ' || p[n] == '\t') ? n + 1 : 0;
	}
	while (n < limit && (is_letter(p[n]) || is_digit(p[n]) || strchr("-._", p[n])) && p[n])
		n++;
	*ret_label_len = (size_t)(p + n - *ret_label);
	if (!*ret_label_len || n + 1 >= limit || p[n] != ':' ||
	    (p[n + 1] != ' ' && p[n + 1] != '\t'))
		return 0;
	return n + 2;
}

bool power_heading(const char *p, size_t len, const char **ret, size_t *ret_len)
{
	static const char *const words[] = { "hostname", "host", "node" };
	struct part s = { p, len };
	bool named = false;

	if (len > 80)
		return false;
	while (s.len && strchr("=-#*>[]: \t", *s.p) && *s.p) {
		s.p++;
		s.len--;
	}
	while (s.len && strchr("=-#*<>[]: \t", s.p[s.len - 1]) && s.p[s.len - 1])
		s.len--;
	for (size_t i = 0; i < ARRAY_SIZE(words) && !named; i++) {
		size_t n = strlen(words[i]);

		named = s.len > n + 1 && !strncasecmp(s.p, words[i], n) && strchr(" :=", s.p[n]) &&
			s.p[n];
		for (; named && s.len > n && (n || strchr(" :=", *s.p)); n -= n > 0) {
			s.p++;
			s.len--;
		}
	}
	if (s.len < 2 || s.len > 64 || is_digit(*s.p) || (!named && !has_letter_and_digit(s)))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_letter(s.p[i]) && !is_digit(s.p[i]) && s.p[i] != '-' && s.p[i] != '.')
			return false;
	if (is_plain_word(s))
		return false;
	*ret = s.p;
	*ret_len = s.len;
	return true;
}

uint32_t power_label_host(struct testimony *t, const char *label, size_t len)
{
	char text[96];
	int n;

	for (size_t i = 0; i < len; i++)
		if (!is_digit(label[i]) && label[i] != ',')
			return testimony_name(t, label, len);
	n = snprintf(text, sizeof(text), "task %.*s", (int)MIN(len, 64u), label);
	return testimony_name(t, text, (size_t)n);
}

/* --- one file --- */

void power_file_begin(struct power_file *f, struct input *in, const char *path, const char *format,
		      struct read_stats *stats)
{
	const char *host;
	size_t len;

	*f = (struct power_file){ .stats = stats, .host = NO_ID, .gpu = -1, .rank = -1 };
	f->t = testimony_new(WITNESS_POWER, format);
	if (path && power_host_of_path(path, &host, &len))
		f->t->host = f->host = testimony_name(f->t, host, len);
	if (path) {
		f->gpu = power_gpu_of_path(path);
		f->rank = survey_rank_of_name(path);
	}
	text_lines_init(&f->lines, in);
}

void power_file_store(struct power_file *f, struct gpu_reading *r)
{
	if (r->host == NO_ID)
		r->host = f->host;
	if (r->index < 0 && r->uuid == NO_ID && r->bus_id == NO_ID)
		r->index = f->gpu;
	if (gpu_reading_store(r, f->t)) {
		f->readings++;
		f->stats->events++;
	}
}

int power_file_end(struct power_file *f, struct testimony **ret, struct error *reterr)
{
	int error = f->lines.error;
	uint64_t at = f->lines.line;

	f->t->lines = at;
	f->stats->skipped[SKIP_TOO_LONG] += f->lines.cut;
	text_lines_done(&f->lines);
	if (!f->t->gpus.n && f->t->counters.n)
		f->t->witness = WITNESS_COUNTERS;
	if (!f->t->gpus.n && !f->t->counters.n) {
		testimony_free(f->t);
		return error < 0 ? error_set(reterr, error, "%s", strerror(-error))
				 : error_set(reterr, -ENODATA, "no value of power or utilization");
	}
	if (f->t->gpus.n == 1 && f->t->gpus.v[0].rank < 0)
		f->t->gpus.v[0].rank = f->rank;
	gpu_series_settle(f->t);
	if (error < 0)
		error_set(reterr, 0, "line %" PRIu64 ": %s", at, strerror(-error));
	*ret = f->t;
	return 0;
}
