/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_smi.c - the GPUs as nvidia-smi and rocm-smi print them, and XIDs in the kernel's log.
 *
 * Columns are known by their header, values that are none ("[N/A]", "[Not Supported]") stay
 * unknown, and no line or cell can do more than be skipped.
 */
#include "preflight/preflight_gpus.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define GPUS_MOST    64u
#define COLUMNS_MOST 32u
#define TEXT_MOST    ((size_t)1 << 20)
#define XIDS_MOST    256u

json_t *gpu_process(int64_t pid, const char *name, int64_t used_mib)
{
	json_t *p = json_object();

	json_object_set_new(p, "pid", json_integer(pid));
	if (name)
		json_object_set_new(p, "name", text_json(name));
	if (used_mib >= 0)
		json_object_set_new(p, "used_mib", json_integer(used_mib));
	return p;
}

/* --- CSV --- */

enum cell_kind { CELL_NUMBER, CELL_TEXT, CELL_YES, CELL_BITS };
static const struct column {
	const char *header, *key;
	enum cell_kind kind;
} columns[] = {
	{ "uuid", "uuid", CELL_TEXT },
	{ "name", "model", CELL_TEXT },
	{ "memory.total", "memory_mib", CELL_NUMBER },
	{ "memory.used", "used_mib", CELL_NUMBER },
	{ "utilization.gpu", "busy_pct", CELL_NUMBER },
	{ "persistence_mode", "persistence", CELL_YES },
	{ "ecc.errors.uncorrected.volatile.total", "ecc_uncorrected", CELL_NUMBER },
	{ "retired_pages.pending", "retire_pending", CELL_YES },
	{ "remapped_rows.pending", "remap_pending", CELL_YES },
	{ "remapped_rows.failure", "remap_failed", CELL_YES },
	{ "clocks_throttle_reasons.active", "throttle", CELL_BITS },
	{ "clocks_event_reasons.active", "throttle", CELL_BITS },
};

/* Cuts a line into cells in place, without spaces around them. */
static size_t cut_cells(char *line, char *cells[COLUMNS_MOST])
{
	size_t n = 0;

	while (n < COLUMNS_MOST) {
		char *comma = strchr(line, ','), *end;

		line += strspn(line, " \t");
		if (comma)
			*comma = 0;
		end = line + strlen(line);
		while (end > line && isspace((unsigned char)end[-1]))
			*--end = 0;
		cells[n++] = line;
		if (!comma)
			break;
		line = comma + 1;
	}
	return n;
}

static bool is_value(const char *cell)
{
	return *cell && *cell != '[' && strcasecmp(cell, "N/A");
}

static void take_cell(json_t *g, const struct column *c, const char *cell)
{
	char *end;
	double v;

	if (!is_value(cell))
		return;
	if (c->kind == CELL_TEXT) {
		json_object_set_new(g, c->key, text_json(cell));
	} else if (c->kind == CELL_YES) {
		json_object_set_new(g, c->key,
				    json_boolean(!strcasecmp(cell, "Enabled") ||
						 !strcasecmp(cell, "Yes") || !strcmp(cell, "1")));
	} else if (c->kind == CELL_BITS) {
		unsigned long long bits = strtoull(cell, &end, 0);

		if (end != cell)
			json_object_set_new(g, c->key,
					    json_integer((json_int_t)(bits & INT64_MAX)));
	} else {
		v = strtod(cell, &end);
		if (end != cell && v >= 0 && v < 1e15)
			json_object_set_new(g, c->key, json_integer((json_int_t)v));
	}
}

/* The GPU with this index, made if need be and wanted. */
static json_t *gpu_of(json_t *gpus, int64_t index, bool make)
{
	json_t *g;
	size_t i;

	json_array_foreach(gpus, i, g) if (fact_number(g, "index", -1) == index) return g;
	if (!make || json_array_size(gpus) >= GPUS_MOST)
		return NULL;
	g = json_object();
	json_object_set_new(g, "index", json_integer(index));
	json_array_append_new(gpus, g);
	return g;
}

static bool is_header(const char *cell, const char *header)
{
	size_t len = strlen(header);

	return !strncmp(cell, header, len) && (!cell[len] || cell[len] == ' ');
}

void nvidia_smi_gpus(char *text, json_t *gpus)
{
	const struct column *meant[COLUMNS_MOST] = { 0 };
	char *save = NULL, *cells[COLUMNS_MOST];
	size_t index_at = COLUMNS_MOST;
	bool first = !json_array_size(gpus); /* later queries tell more of the same */

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t n = cut_cells(line, cells);
		char *end;
		long index;
		json_t *g;

		if (is_header(cells[0], "index")) {
			memset(meant, 0, sizeof(meant));
			index_at = 0;
			for (size_t i = 1; i < n; i++)
				for (size_t k = 0; k < ARRAY_SIZE(columns); k++)
					if (is_header(cells[i], columns[k].header))
						meant[i] = &columns[k];
			continue;
		}
		if (index_at >= n)
			continue;
		index = strtol(cells[index_at], &end, 10);
		if (end == cells[index_at] || index < 0 || index > INT16_MAX)
			continue;
		g = gpu_of(gpus, index, first);
		for (size_t i = 1; g && i < n; i++)
			if (meant[i])
				take_cell(g, meant[i], cells[i]);
	}
}

void nvidia_smi_processes(char *text, json_t *gpus)
{
	char *save = NULL, *cells[COLUMNS_MOST];
	json_t *g;
	size_t i;

	json_array_foreach(gpus, i, g) json_object_set_new(g, "processes", json_array());
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		size_t n = cut_cells(line, cells);
		long long pid = n >= 3 ? strtoll(cells[1], NULL, 10) : 0;

		if (pid <= 0)
			continue;
		json_array_foreach(gpus, i, g)
		{
			const char *uuid = fact_text(g, "uuid");

			if (!uuid || strcmp(uuid, cells[0]) ||
			    json_array_size(json_object_get(g, "processes")) >= 64)
				continue;
			json_array_append_new(json_object_get(g, "processes"),
					      gpu_process(pid, cells[2],
							  n > 3 && isdigit((unsigned char)*cells[3])
							      ? strtoll(cells[3], NULL, 10)
							      : -1));
		}
	}
}

static char *query(const char *what, struct error *why)
{
	char *argv[] = { (char *)"nvidia-smi", (char *)(uintptr_t)what, (char *)"--format=csv",
			 NULL };

	return command_text(argv, TEXT_MOST, why);
}

/*
 * What every driver knows, then what some do not, each by itself: a query with one field that is
 * not known gives nothing at all.
 */
bool gpus_by_nvidia_smi(json_t *facts, json_t *gpus)
{
	static const char *const more[] = {
		"--query-gpu=index,persistence_mode",
		"--query-gpu=index,ecc.errors.uncorrected.volatile.total",
		"--query-gpu=index,clocks_throttle_reasons.active",
		"--query-gpu=index,retired_pages.pending",
		"--query-gpu=index,remapped_rows.pending,remapped_rows.failure",
	};
	struct error why = { "" };
	char *text =
	    query("--query-gpu=index,uuid,name,memory.total,memory.used,utilization.gpu", &why);

	if (!text && strstr(why.text, "not there"))
		return false;
	json_object_set_new(facts, "source", json_string("nvidia-smi"));
	if (!text) {
		json_object_set_new(facts, "trouble", text_json(why.text));
		return true;
	}
	nvidia_smi_gpus(text, gpus);
	free(text);
	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		text = query(more[i], &why);
		if (text)
			nvidia_smi_gpus(text, gpus);
		free(text);
	}
	text = query("--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory", &why);
	if (text)
		nvidia_smi_processes(text, gpus);
	free(text);
	return true;
}

/* --- rocm-smi --- */

/* Numbers are strings there. */
static int64_t rocm_number(const json_t *card, const char *key, int64_t divide)
{
	const json_t *v = json_object_get(card, key);
	const char *text = json_string_value(v);
	double n = text ? strtod(text, NULL) : json_number_value(v);

	if (!v || (text && !isdigit((unsigned char)*text)) || !(n >= 0 && n < 1e18))
		return -1;
	return (int64_t)n / divide;
}

static void take_card(json_t *gpus, const char *name, const json_t *card)
{
	static const char *const models[] = { "Card series", "Card Series", "Card model",
					      "Card Model", "Device Name" };
	long index = strtol(name + 4, NULL, 10);
	int64_t v;
	json_t *g;

	if (index < 0 || index > INT16_MAX || !json_is_object(card))
		return;
	g = gpu_of(gpus, index, true);
	if (!g)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(models); i++)
		if (fact_text(card, models[i]) && !fact_text(g, "model"))
			json_object_set_new(g, "model", text_json(fact_text(card, models[i])));
	if (fact_text(card, "Unique ID"))
		json_object_set_new(g, "uuid", text_json(fact_text(card, "Unique ID")));
	if ((v = rocm_number(card, "VRAM Total Memory (B)", INT64_C(1) << 20)) >= 0)
		json_object_set_new(g, "memory_mib", json_integer(v));
	if ((v = rocm_number(card, "VRAM Total Used Memory (B)", INT64_C(1) << 20)) >= 0)
		json_object_set_new(g, "used_mib", json_integer(v));
	if ((v = rocm_number(card, "GPU use (%)", 1)) >= 0)
		json_object_set_new(g, "busy_pct", json_integer(v));
}

void rocm_smi_gpus(const char *text, size_t len, json_t *gpus)
{
	json_error_t wrong;
	json_t *j = json_loadb(text, len, JSON_DISABLE_EOF_CHECK, &wrong), *v;
	const char *key;

	json_object_foreach(j, key, v) if (!strncmp(key, "card", 4) &&
					   isdigit((unsigned char)key[4])) take_card(gpus, key, v);
	json_decref(j);
}

bool gpus_by_rocm_smi(json_t *facts, json_t *gpus)
{
	char *argv[] = { (char *)"rocm-smi",	   (char *)"--showproductname",
			 (char *)"--showuniqueid", (char *)"--showmeminfo",
			 (char *)"vram",	   (char *)"--showuse",
			 (char *)"--json",	   NULL };
	struct error why = { "" };
	char *text = command_text(argv, TEXT_MOST, &why), *json;

	if (!text && strstr(why.text, "not there"))
		return false;
	json_object_set_new(facts, "source", json_string("rocm-smi"));
	json = text ? strchr(text, '{') : NULL; /* warnings may stand before it */
	if (json)
		rocm_smi_gpus(json, strlen(json), gpus);
	else
		json_object_set_new(facts, "trouble",
				    text_json(text ? "rocm-smi: it printed no JSON" : why.text));
	free(text);
	return true;
}

/* --- XIDs --- */

/* "<4>[12345.678] NVRM: Xid (PCI:0000:3b:00): 79, pid=..": the newest of each kind and GPU. */
void kernel_xids(char *text, int64_t now_s, json_t *xids)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *at = strstr(line, "NVRM: Xid ("), *close = at ? strchr(at, ')') : NULL;
		char *bracket = strchr(line, '[');
		json_t *x = NULL, *v;
		long xid;
		size_t i;

		if (!close || close[1] != ':' || !bracket || bracket > at)
			continue;
		xid = strtol(close + 2, NULL, 10);
		if (xid <= 0 || xid > 100000)
			continue;
		*close = 0;
		json_array_foreach(xids, i, v) if (fact_number(v, "xid", 0) == xid &&
						   !strcmp(fact_text(v, "bus"), at + 11)) x = v;
		if (!x) {
			json_t *bus = text_json(at + 11);

			if (!bus || json_array_size(xids) >= XIDS_MOST) {
				json_decref(bus);
				continue;
			}
			x = json_object();
			json_object_set_new(x, "xid", json_integer(xid));
			json_object_set_new(x, "bus", bus);
			json_array_append_new(xids, x);
		}
		json_object_set_new(x, "age_s",
				    json_integer(MAX(now_s - strtoll(bracket + 1, NULL, 10), 0)));
	}
}
