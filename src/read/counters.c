/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.c - one line, one counter; who it is of stands in the line, in a heading above it, or in
 * the path of a file that holds nothing but a number.
 *
 *   mlx5_0/1/counters/port_xmit_wait 123           a listing, with or without "ports"
 *   /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:0      grep . over the files
 *   SymbolErrorCounter:..............0             perfquery, its port in "# Port counters: Lid .."
 *   CA 'mlx5_0' / Port 1: / State: Active          ibstat
 *   NIC statistics: / rx_discards_phy: 12          ethtool -S
 */
#include "read/counters.h"

#include <stdio.h>
#include <strings.h>

#include "read/power.h"

#define PORT_MAX	    96u
#define ONE_NUMBER_FILE_MAX 64u

enum counters_form { FORM_NONE, FORM_PERFQUERY, FORM_IBSTAT, FORM_ETHTOOL };

struct counter_reader {
	struct testimony *t;
	uint32_t host, port; /* of the lines that follow a heading */
	uint32_t ca;	     /* ibstat: "mlx5_0" */
	enum counters_form form;
	uint64_t taken;
};

struct named {
	const char *port, *name;
	size_t port_len, name_len;
	char joined[PORT_MAX]; /* "mlx5_0/1" where the path has "ports" between them */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

bool counter_means_trouble(const char *name, size_t len)
{
	static const char *const words[] = {
		"err",	    "discard", "drop",	 "timeout", "retr",    "cnp",	 "ecn",
		"pause",    "wait",    "fail",	 "down",    "crc",     "symbol", "rnr",
		"sequence", "nak",     "fcs",	 "carrier", "lost",    "flap",	 "integrity",
		"overrun",  "recover", "dup",	 "replay",  "congest", "state",	 "remap",
		"dbe",	    "hang",    "missed", "corrupt",
	};
	char copy[96];

	len = MIN(len, sizeof(copy) - 1);
	memcpy(copy, name, len);
	copy[len] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasestr(copy, words[i]))
			return true;
	return false;
}

/* --- paths and what they name --- */

/* The part of a path that ends at end, without its slash; moves end in front of it. */
static bool last_part(const char *from, const char **end, const char **ret, size_t *ret_len)
{
	const char *to = *end, *p = to;

	while (p > from && p[-1] != '/')
		p--;
	*ret = p;
	*ret_len = (size_t)(to - p);
	*end = p > from ? p - 1 : p;
	return *ret_len > 0;
}

static bool part_is(const char *p, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(p, word, len);
}

/* .../mlx5_0/ports/1/hw_counters/NAME, mlx5_0/1/counters/NAME, mlx5_0/1/state,
   .../net/eth0/statistics/NAME: the port and the counter. */
static bool name_of_path(const char *p, size_t len, struct named *ret)
{
	const char *end = p + len, *part, *number, *port;
	size_t part_len, number_len, port_len;

	if (!last_part(p, &end, &ret->name, &ret->name_len) || is_digit(*ret->name) ||
	    !last_part(p, &end, &part, &part_len))
		return false;
	if (part_is(part, part_len, "statistics")) {
		ret->port = part;
		if (!last_part(p, &end, &ret->port, &ret->port_len))
			return false;
		return true;
	}
	if (part_is(part, part_len, "counters") || part_is(part, part_len, "hw_counters") ||
	    part_is(part, part_len, "counters_ext")) {
		if (!last_part(p, &end, &part, &part_len))
			return false;
	} else if (!part_is(ret->name, ret->name_len, "state") &&
		   !part_is(ret->name, ret->name_len, "phys_state") &&
		   !part_is(ret->name, ret->name_len, "rate") &&
		   !(part_len <= 2 && is_digit(*part))) {
		return false;
	}
	number = part;
	number_len = part_len;
	for (size_t i = 0; i < number_len; i++)
		if (!is_digit(number[i]))
			return false;
	if (!last_part(p, &end, &port, &port_len))
		return false;
	if (part_is(port, port_len, "ports") && !last_part(p, &end, &port, &port_len))
		return false;
	if (is_digit(*port))
		return false;
	if (port_len + number_len + 2 > sizeof(ret->joined))
		return false;
	ret->port_len = (size_t)snprintf(ret->joined, sizeof(ret->joined), "%.*s/%.*s",
					 (int)port_len, port, (int)number_len, number);
	ret->port = ret->joined;
	return true;
}

/* "123", "4: ACTIVE", "400 Gb/sec (4X NDR)", "N/A (no PMA)": the number in front. */
static bool value_of(const char *p, size_t len, double *ret)
{
	char copy[48], *end;

	while (len && ((unsigned char)*p <= ' ' || *p == '.')) {
		p++;
		len--;
	}
	len = MIN(len, sizeof(copy) - 1);
	memcpy(copy, p, len);
	copy[len] = 0;
	if (!is_digit(copy[0]))
		return false;
	*ret = copy[0] == '0' && (copy[1] | 0x20) == 'x' ? (double)strtoull(copy, &end, 16)
							 : strtod(copy, &end);
	return end > copy && (!*end || *end == ' ' || *end == ':' || *end == '\n' || *end == '\r');
}

static void say(struct counter_reader *r, uint32_t port, const char *name, size_t len, double v)
{
	testimony_counter(r->t, r->host, port, testimony_name(r->t, name, MIN(len, 96u)), v);
	r->taken++;
}

/* --- lines --- */

/* "PATH VALUE" or "PATH:VALUE". */
static bool path_line(struct counter_reader *r, const char *p, size_t len)
{
	const char *end = p + len, *cut = p;
	struct named n;
	double v;

	while (cut < end && *cut != ' ' && *cut != '\t' && *cut != ':' && *cut != '=')
		cut++;
	if (cut == end || !memchr(p, '/', (size_t)(cut - p)) ||
	    !name_of_path(p, (size_t)(cut - p), &n) ||
	    !value_of(cut + 1, (size_t)(end - cut - 1), &v))
		return false;
	say(r, testimony_name(r->t, n.port, n.port_len), n.name, n.name_len, v);
	return true;
}

/* Headings of the tools; true: it is one. */
static bool heading(struct counter_reader *r, const char *p, size_t len)
{
	char port[PORT_MAX];
	int lid, number;

	if (line_starts(p, len, "# Port ") && line_has(p, len, "counters: Lid ")) {
		const char *at = memmem(p, len, "Lid ", 4);
		char copy[64];

		snprintf(copy, sizeof(copy), "%.*s", (int)MIN(len - (size_t)(at - p), 63u), at);
		r->form = FORM_PERFQUERY;
		if (sscanf(copy, "Lid %d port %d", &lid, &number) == 2)
			r->port = testimony_name(
			    r->t, port,
			    (size_t)snprintf(port, sizeof(port), "lid %d/%d", lid, number));
		return true;
	}
	if (line_starts(p, len, "CA '")) {
		const char *close = memchr(p + 4, '\'', len - 4);

		r->form = FORM_IBSTAT;
		r->ca = close ? testimony_name(r->t, p + 4, (size_t)(close - p - 4)) : NO_ID;
		r->port = NO_ID;
		return true;
	}
	if (r->form == FORM_IBSTAT && line_starts(p, len, "Port ") && p[len - 1] == ':' &&
	    len < 12 && is_digit(p[5])) {
		r->port = testimony_name(r->t, port,
					 (size_t)snprintf(port, sizeof(port), "%s/%.*s",
							  intern_get(&r->t->names, r->ca),
							  (int)(len - 6), p + 5));
		return true;
	}
	if (line_starts(p, len, "NIC statistics:")) {
		r->form = FORM_ETHTOOL;
		return true;
	}
	return false;
}

/* The states of ibstat as the numbers that /sys gives them. */
static bool state_of(const char *p, size_t len, double *ret)
{
	static const struct {
		const char *word;
		double number;
	} states[] = { { "Down", 1 },	  { "Init", 2 },   { "Armed", 3 },
		       { "Active", 4 },	  { "Sleep", 1 },  { "Polling", 2 },
		       { "Disabled", 3 }, { "LinkUp", 5 }, { "LinkErrorRecovery", 6 } };

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (line_starts(p, len, states[i].word)) {
			*ret = states[i].number;
			return true;
		}
	return false;
}

/* "name: value" or "Name:.....value" below a heading. */
static bool item_line(struct counter_reader *r, const char *p, size_t len)
{
	const char *colon = memchr(p, ':', len), *value;
	size_t name_len, value_len;
	double v;

	if (r->form == FORM_NONE || !colon || colon == p)
		return false;
	name_len = (size_t)(colon - p);
	value = colon + 1;
	value_len = len - name_len - 1;
	line_trim(&value, &value_len);
	if (r->form == FORM_IBSTAT) {
		if (line_is(p, name_len, "State") && state_of(value, value_len, &v))
			say(r, r->port, "state", 5, v);
		else if (line_is(p, name_len, "Physical state") && state_of(value, value_len, &v))
			say(r, r->port, "phys_state", 10, v);
		else if (line_is(p, name_len, "Rate") && value_of(value, value_len, &v))
			say(r, r->port, "rate", 4, v);
		return true;
	}
	if (!value_of(value, value_len, &v))
		return false;
	if (name_len > 6 && !memcmp(colon - 6, "Select", 6))
		return true;
	/* ethtool knows thousands of counters, one set for each queue. */
	if (r->form == FORM_PERFQUERY || counter_means_trouble(p, name_len))
		say(r, r->port, p, name_len, v);
	return true;
}

static bool take_line(struct counter_reader *r, const char *p, size_t len, uint32_t host)
{
	const char *label;
	size_t label_len, prefix = power_prefix(p, len, &label, &label_len);

	r->host = host;
	/* "rx_errors: 12" of ethtool looks like a host's prefix. */
	if (prefix && memchr(p + prefix, '/', len - prefix) && !memchr(p, '/', prefix)) {
		r->host = power_label_host(r->t, label, label_len);
		p += prefix;
		len -= prefix;
	}
	line_trim(&p, &len);
	return !len || heading(r, p, len) || *p == '#' || path_line(r, p, len) ||
	       item_line(r, p, len);
}

/* "# lockstep counters of h01 at 2024-..": whose the listing is. */
static uint32_t host_of_comment(struct testimony *t, const char *p, size_t len)
{
	static const char words[] = "# lockstep counters of ";
	size_t n = sizeof(words) - 1, to = n;

	if (!line_starts(p, len, words))
		return NO_ID;
	while (to < len && p[to] != ' ')
		to++;
	return to > n ? testimony_name(t, p + n, to - n) : NO_ID;
}

/* A file that holds nothing but a number, where the path says what it is. */
static bool one_number(const char *text, size_t len, const char *path, struct named *ret)
{
	double v;

	line_trim(&text, &len);
	return path && len && len < ONE_NUMBER_FILE_MAX && !memchr(text, '\n', len) &&
	       (strstr(path, "counters/") || strstr(path, "/statistics/") ||
		strstr(path, "/ports/")) &&
	       value_of(text, len, &v) && name_of_path(path, strlen(path), ret);
}

/* The host that a copy of /sys lies below: h01/sys/class/.., node3/mlx5_0/1/counters/.. */
static uint32_t host_of_copy(struct testimony *t, const char *path)
{
	const char *sys = path ? strstr(path, "/sys/class/") : NULL, *p = sys, *host;
	size_t len;

	if (path && power_host_of_path(path, &host, &len))
		return testimony_name(t, host, len);
	/* The folder that holds "sys" is the host's, if it has a number in it. */
	while (sys && p > path && p[-1] != '/')
		p--;
	for (const char *c = p; sys && c < sys; c++)
		if (is_digit(*c) && !is_digit(*p))
			return testimony_name(t, p, (size_t)(sys - p));
	p = path ? path + strlen(path) : NULL;
	for (unsigned depth = 0; p && depth < 8; depth++) {
		_cleanup_free_ char *above = NULL;

		while (p > path && p[-1] != '/')
			p--;
		if (p == path)
			break;
		p--;
		above = xasprintf("%.*s/x", (int)(p - path), path);
		if (power_host_of_path(above, &host, &len))
			return testimony_name(t, host, len);
	}
	return NO_ID;
}

int counters_read(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr)
{
	struct counter_reader r = { .host = NO_ID, .port = NO_ID, .ca = NO_ID };
	uint32_t host;
	struct text_lines l;
	const char *line;
	size_t len;
	int error;

	r.t = testimony_new(WITNESS_COUNTERS, "counters");
	host = host_of_copy(r.t, path);
	text_lines_init(&l, in);
	while (text_lines_next(&l, &line, &len)) {
		struct named n;
		double v;

		if (l.line == 1 && one_number(line, len, path, &n) && value_of(line, len, &v)) {
			r.host = host;
			say(&r, testimony_name(r.t, n.port, n.port_len), n.name, n.name_len, v);
			continue;
		}
		if (host_of_comment(r.t, line, len) != NO_ID)
			host = host_of_comment(r.t, line, len);
		if (!take_line(&r, line, len, host))
			stats->skipped[SKIP_MALFORMED]++;
	}
	error = l.error;
	r.t->host = host;
	r.t->lines = l.line;
	stats->events = r.taken;
	stats->skipped[SKIP_TOO_LONG] += l.cut;
	text_lines_done(&l);
	if (!r.t->counters.n) {
		testimony_free(r.t);
		return error < 0 ? error_set(reterr, error, "%s", strerror(-error))
				 : error_set(reterr, -ENODATA, "no counter");
	}
	*ret = r.t;
	return 0;
}

bool counters_sniff(const char *text, size_t len, const char *path)
{
	struct counter_reader r = { .host = NO_ID, .port = NO_ID, .ca = NO_ID };
	const char *p = text, *end = text + len, *line;
	unsigned lines = 0, ours = 0;
	struct named named;
	size_t n;

	if (len < ONE_NUMBER_FILE_MAX && one_number(text, len, path, &named))
		return true;
	if (memchr(text, 0, len))
		return false;
	r.t = testimony_new(WITNESS_COUNTERS, "counters");
	while (lines < 64 && text_line_in(&p, end, &line, &n)) {
		if (!n || (p == end && lines && len >= 4096))
			continue;
		lines++;
		ours += take_line(&r, line, n, NO_ID);
	}
	testimony_free(r.t);
	return r.taken && 10 * ours >= 9 * lines;
}
