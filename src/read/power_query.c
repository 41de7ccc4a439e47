/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_query.c - nvidia-smi -q, text and XML: sections of "name : value".
 *
 * The same name means different things in different sections ("Used" of FB and of BAR1), so that a
 * value is taken by section and name; both spellings of the two forms are in one table.
 */
#include "read/power_inside.h"

#include <strings.h>

#include "read/stamp.h"
#include "read/text_lines.h"

static const struct query_row {
	const char *section, *name; /* letters and digits, lower case; "" any section */
	const char *metric;	    /* as gpu_metric_find knows it */
} query_rows[] = {
	{ "", "productname", "product_name" },
	{ "", "gpuuuid", "uuid" },
	{ "", "uuid", "uuid" },
	{ "fbmemoryusage", "used", "memory.used" },
	{ "utilization", "gpu", "utilization.gpu" },
	{ "utilization", "gpuutil", "utilization.gpu" },
	{ "utilization", "memory", "utilization.memory" },
	{ "utilization", "memoryutil", "utilization.memory" },
	{ "temperature", "gpucurrenttemp", "temperature.gpu" },
	{ "temperature", "gputemp", "temperature.gpu" },
	{ "powerreadings", "powerdraw", "power.draw" },
	{ "powerreadings", "averagepowerdraw", "power.draw.average" },
	{ "powerreadings", "instantaneouspowerdraw", "power.draw.instant" },
	{ "powerreadings", "instantpowerdraw", "power.draw.instant" },
	{ "powerreadings", "powerlimit", "power.limit" },
	{ "powerreadings", "currentpowerlimit", "power.limit" },
	{ "powerreadings", "enforcedpowerlimit", "enforced.power.limit" },
	{ "powerreadings", "defaultpowerlimit", "power.default_limit" },
	{ "gpupowerreadings", "powerdraw", "power.draw" },
	{ "gpupowerreadings", "averagepowerdraw", "power.draw.average" },
	{ "gpupowerreadings", "instantaneouspowerdraw", "power.draw.instant" },
	{ "gpupowerreadings", "instantpowerdraw", "power.draw.instant" },
	{ "gpupowerreadings", "currentpowerlimit", "power.limit" },
	{ "gpupowerreadings", "defaultpowerlimit", "power.default_limit" },
	{ "clocks", "sm", "clocks.sm" },
	{ "clocks", "smclock", "clocks.sm" },
	{ "clocks", "graphics", "clocks.gr" },
	{ "clocks", "graphicsclock", "clocks.gr" },
};

/* Reasons that something holds the clocks down; idle and set clocks are none. */
static const struct {
	const char *name, *metric;
} throttle_rows[] = {
	{ "swpowercap", "clocks_event_reasons.sw_power_cap" },
	{ "hwslowdown", "clocks_event_reasons.hw_slowdown" },
	{ "hwthermalslowdown", "clocks_event_reasons.hw_thermal_slowdown" },
	{ "hwpowerbrakeslowdown", "clocks_event_reasons.hw_power_brake_slowdown" },
	{ "swthermalslowdown", "clocks_event_reasons.sw_thermal_slowdown" },
};

/* Letters and digits of a name, lower case; bounded. */
static void plain_name(char *dst, size_t size, const char *p, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < size; i++) {
		char c = p[i] >= 'A' && p[i] <= 'Z' ? (char)(p[i] + 32) : p[i];

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			dst[n++] = c;
	}
	dst[n] = 0;
}

static void query_begin_gpu(struct power_table *p, struct table_state *s, const char *bus,
			    size_t len)
{
	table_close(p, s);
	s->open = true;
	s->reading = gpu_reading_unknown();
	s->reading.host = s->host;
	s->reading.index = s->next_index++;
	s->reading.bus_id = gpu_text(p->t, bus, len);
	s->section = NO_ID;
}

static void query_begin(struct power_table *p, struct table_state *s, enum table_kind kind)
{
	table_close(p, s);
	s->kind = kind;
	s->next_index = 0;
	s->section = NO_ID;
}

static void query_section(struct power_table *p, struct table_state *s, const char *name,
			  size_t len)
{
	char plain[48];

	plain_name(plain, sizeof(plain), name, len);
	s->section = testimony_name(p->t, plain, strlen(plain));
	if (!strcmp(plain, "processes") && s->processes < 0)
		s->processes = 0;
}

static void query_value(struct power_table *p, struct table_state *s, const char *name,
			size_t name_len, const char *value, size_t len)
{
	const char *section = intern_get(&p->t->names, s->section);
	const struct gpu_metric_name *row;
	const char *metric = NULL;
	enum gpu_unit unit = UNIT_NONE;
	char plain[48];

	plain_name(plain, sizeof(plain), name, name_len);
	if (!strcmp(plain, "timestamp")) {
		int64_t ns = stamp_of_text(value, len);

		s->time_ns = ns >= 0 ? ns : s->time_ns;
		return;
	}
	if (!s->open)
		return;
	if (!strcmp(section, "processes") || !strcmp(section, "processinfo")) {
		s->processes += !strcmp(plain, "processid") || !strcmp(plain, "pid");
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(query_rows) && !metric; i++)
		if (!strcmp(query_rows[i].name, plain) &&
		    (!*query_rows[i].section || !strcmp(query_rows[i].section, section)))
			metric = query_rows[i].metric;
	if (strstr(section, "reasons") || strstr(plain, "reasons"))
		for (size_t i = 0; i < ARRAY_SIZE(throttle_rows); i++)
			if (strstr(plain, throttle_rows[i].name))
				metric = throttle_rows[i].metric;
	if (!metric)
		return;
	row = gpu_metric_find(metric, strlen(metric), &unit);
	gpu_reading_text(&s->reading, p->t, row, unit, value, len, &p->bad);
}

/* <gpu id="..">, <section>, <name>value</name>, </section> */
static bool xml_line(struct power_table *p, struct table_state *s, const char *line, size_t len)
{
	const char *end = line + len, *close, *value_end;

	if (line_starts(line, len, "<nvidia_smi_log")) {
		query_begin(p, s, TABLE_XML);
		return true;
	}
	if (s->kind != TABLE_XML)
		return false;
	if (line_starts(line, len, "</nvidia_smi_log")) {
		table_close(p, s);
		s->kind = TABLE_NONE;
		return true;
	}
	if (line_starts(line, len, "<gpu id=\"")) {
		const char *id = line + 9, *quote = memchr(id, '"', (size_t)(end - id));

		query_begin_gpu(p, s, id, quote ? (size_t)(quote - id) : 0);
		return true;
	}
	if (len < 3 || line[0] != '<' || line[1] == '/' || line[1] == '?' || line[1] == '!')
		return true;
	close = memchr(line, '>', len);
	if (!close)
		return true;
	value_end = memmem(close, (size_t)(end - close), "</", 2);
	if (value_end)
		query_value(p, s, line + 1, (size_t)(close - line - 1), close + 1,
			    (size_t)(value_end - close - 1));
	else
		query_section(p, s, line + 1, (size_t)(close - line - 1));
	return true;
}

bool query_line(struct power_table *p, struct table_state *s, const char *line, size_t len)
{
	const char *from = line, *colon;
	size_t n = len;
	int indent;

	line_trim(&from, &n);
	if (!n)
		return s->kind >= TABLE_QUERY;
	indent = (int)(from - line);
	if (line_has(from, n, "NVSMI LOG")) {
		query_begin(p, s, TABLE_QUERY);
		return true;
	}
	if (*from == '<' || s->kind == TABLE_XML)
		return xml_line(p, s, from, n);
	if (s->kind != TABLE_QUERY)
		return false;
	if (!indent && line_starts(from, n, "GPU ") && memchr(from, ':', n)) {
		query_begin_gpu(p, s, from + 4, n - 4);
		return true;
	}
	colon = memmem(from, n, " : ", 3);
	if (colon) {
		const char *value = colon + 3;
		size_t name_len = (size_t)(colon - from), value_len = (size_t)(from + n - value);

		/* A value no deeper than its section's line is outside of it. */
		if (indent <= s->indent && s->section != NO_ID &&
		    !line_starts(from, n, "Processes"))
			s->section = NO_ID;
		while (name_len && from[name_len - 1] == ' ')
			name_len--;
		line_trim(&value, &value_len);
		query_value(p, s, from, name_len, value, value_len);
		if (line_is(from, name_len, "Processes") && s->open)
			s->processes = 0; /* "Processes : None" */
		return true;
	}
	if (indent && indent <= 8 && n < 64 && !memchr(from, ':', n)) {
		/* Sections inside sections do not end those around them ("HW Slowdown"). */
		if (indent <= 4 || indent <= s->indent) {
			query_section(p, s, from, n);
			s->indent = indent;
		}
		return true;
	}
	if (indent)
		return true;
	if (n && from[n - 1] == ':')
		return true;
	s->kind = TABLE_NONE;
	table_close(p, s);
	return false;
}
