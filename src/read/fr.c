/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fr.c - a dump as a whole: its header, its groups and how far each had come.
 *
 * pg_status counts groups by a number that is local to the rank; only the rank's own entries say
 * which group that is. Where none does, the order in which groups were made may, and where that
 * does not fit either, the line is left out rather than guessed.
 */
#include "read/fr.h"

#include <stdio.h>

#include "read/fr_inside.h"
#include "read/survey.h"
#include "read/text_lines.h"

/* --- the header --- */

static uint32_t count_numbers(const char *s)
{
	uint32_t n = 0;

	for (bool in = false; *s; s++) {
		bool digit = *s >= '0' && *s <= '9';

		n += digit && !in;
		in = digit;
	}
	return n;
}

/* "[0, 1]" as it is written, or of a list of numbers; NO_ID: no members. */
static uint32_t members_of(struct fr *f, const struct pile_value *v)
{
	size_t n;
	const struct pile_value *items = pile_items(&f->r.pile, v, &n);
	char number[24];

	if (v && v->kind == PILE_STRING)
		n = intern_len(&f->r.t->names, v->ref);
	if (!fr_may_walk(f, n))
		return NO_ID;
	if (v && v->kind == PILE_STRING)
		return count_numbers(intern_get(&f->r.t->names, v->ref)) ? v->ref : NO_ID;
	f->r.text.len = 0;
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(number, sizeof(number), "%s%" PRId64, i ? ", " : "[",
				   pile_number(&f->r, &items[i], -1));

		buf_put(&f->r.text, number, (size_t)len);
	}
	buf_put(&f->r.text, "]", 1);
	return n ? intern(&f->r.t->names, (const char *)f->r.text.data, f->r.text.len) : NO_ID;
}

static void take_group(struct fr *f, const struct pile_value *key, const struct pile_value *config)
{
	struct pile_slots slots;
	size_t n;
	const struct pile_value *pairs = pile_cells(&f->r.pile, config, PILE_DICT, &n);
	uint32_t name, desc, ranks, row;
	const char *text;

	if (!pairs)
		return;
	pile_slots_of(pairs, n, FR_N_WORDS, &slots);
	name = pile_id(pile_slot(&slots, FR_KEY_NAME));
	if (name == NO_ID)
		name = pile_id(pile_slot(&slots, FR_KEY_PG_NAME));
	if (name == NO_ID)
		name = pile_id(key);
	desc = pile_id(pile_slot(&slots, FR_KEY_DESC));
	if (desc == NO_ID)
		desc = pile_id(pile_slot(&slots, FR_KEY_PG_DESC));
	ranks = members_of(f, pile_slot(&slots, FR_KEY_RANKS));
	text = intern_get(&f->r.t->names, name);
	if (ranks != NO_ID && (!*text || desc == FR_KEY_DEFAULT_PG || !strcmp(text, "0")))
		f->r.t->world_size =
		    MAX(f->r.t->world_size, count_numbers(intern_get(&f->r.t->names, ranks)));
	if (!*text) /* Gloo: one line without a name, for all groups */
		return;
	row = testimony_group(f->r.t, name, desc);
	if (ranks != NO_ID)
		f->r.t->groups.v[row].ranks = ranks;
	if (f->configured.n < FR_GROUPS_MAX)
		*vec_push(&f->configured) = row;
}

static void take_groups(struct fr *f, const struct pile_value *v)
{
	size_t n;
	const struct pile_value *items = pile_cells(&f->r.pile, v, PILE_DICT, &n);

	for (size_t i = 0; i + 1 < n; i += 2)
		take_group(f, &items[i], &items[i + 1]);
	items = pile_items(&f->r.pile, v, &n);
	for (size_t i = 0; i < n; i++)
		take_group(f, NULL, &items[i]);
}

static void take_status(struct fr *f, const struct pile_value *v)
{
	size_t n, n_own;
	const struct pile_value *pairs = pile_cells(&f->r.pile, v, PILE_DICT, &n);

	for (size_t i = 0; i + 1 < n && f->status.n < FR_GROUPS_MAX; i += 2) {
		struct pile_slots slots;
		const struct pile_value *own =
		    pile_cells(&f->r.pile, &pairs[i + 1], PILE_DICT, &n_own);
		struct fr_raw_status s = { .pg_id = pile_number(&f->r, &pairs[i], -1) };

		pile_slots_of(own, own ? n_own : 0, FR_N_WORDS, &slots);
		s.enqueued =
		    MAX(pile_number(&f->r, pile_slot(&slots, FR_KEY_LAST_ENQUEUED), -1), -1);
		s.started = MAX(pile_number(&f->r, pile_slot(&slots, FR_KEY_LAST_STARTED), -1), -1);
		s.completed =
		    MAX(pile_number(&f->r, pile_slot(&slots, FR_KEY_LAST_COMPLETED), -1), -1);
		if (own && s.pg_id >= 0)
			*vec_push(&f->status) = s;
	}
}

static void take_version(struct fr *f, const struct pile_value *v)
{
	const char *text = v && v->kind == PILE_STRING ? intern_get(&f->r.t->names, v->ref) : "";
	int major, minor;

	if (sscanf(text, "%6d.%6d", &major, &minor) == 2 && major >= 0 && minor >= 0) {
		f->r.t->version_major = major;
		f->r.t->version_minor = minor;
	}
}

static void take_header(struct fr *f, const struct pile_slots *slots)
{
	int64_t rank = pile_number(&f->r, pile_slot(slots, FR_KEY_RANK), -1);

	f->header = true;
	if (rank >= 0 && rank <= INT32_MAX)
		f->r.t->rank = rank;
	take_version(f, pile_slot(slots, FR_KEY_VERSION));
	if (pile_slot(slots, FR_KEY_PG_CONFIG))
		take_groups(f, pile_slot(slots, FR_KEY_PG_CONFIG));
	if (pile_slot(slots, FR_KEY_PG_STATUS))
		take_status(f, pile_slot(slots, FR_KEY_PG_STATUS));
}

/* --- dictionaries as they end --- */

static bool is_entry(const struct pile_slots *slots)
{
	return pile_slot(slots, FR_KEY_PROFILING_NAME) ||
	       (pile_slot(slots, FR_KEY_STATE) &&
		(pile_slot(slots, FR_KEY_COLLECTIVE_SEQ_ID) || pile_slot(slots, FR_KEY_SEQ_ID)));
}

static bool is_header(const struct pile_slots *slots)
{
	return pile_slot(slots, FR_KEY_PG_CONFIG) || pile_slot(slots, FR_KEY_PG_STATUS) ||
	       pile_slot(slots, FR_KEY_ENTRIES) ||
	       (pile_slot(slots, FR_KEY_VERSION) && (pile_slot(slots, FR_KEY_COMM_LIB_VERSION) ||
						     pile_slot(slots, FR_KEY_NCCL_VERSION)));
}

static void take_entry(struct fr *f, const struct pile_slots *slots)
{
	size_t n;
	const struct pile_value *items =
	    pile_items(&f->r.pile, pile_slot(slots, FR_KEY_FRAMES), &n);
	bool wanted = fr_entry(f, slots, NO_ID, NO_ID);

	fr_entry_frames(f, items, n);
	if (wanted)
		f->r.t->entries.v[f->r.t->entries.n - 1].frames = fr_frames_text(f);
}

static enum pile_take take(void *user, uint32_t object, const struct pile_value *pairs, size_t n)
{
	struct fr *f = user;
	struct pile_slots slots;

	pile_slots_of(pairs, n, FR_N_WORDS, &slots);
	if (is_entry(&slots)) {
		if (object != NO_ID)
			take_entry(f, &slots);
		return PILE_IS_TAKEN;
	}
	if (pile_slot(&slots, FR_KEY_FILENAME) ||
	    (pile_slot(&slots, FR_KEY_LINE) && pile_slot(&slots, FR_KEY_NAME))) {
		const struct pile_value none = pile_plain(PILE_NONE);
		const struct pile_value frame[3] = {
			pile_slot(&slots, FR_KEY_NAME) ? *pile_slot(&slots, FR_KEY_NAME) : none,
			pile_slot(&slots, FR_KEY_FILENAME) ? *pile_slot(&slots, FR_KEY_FILENAME)
							   : none,
			pile_slot(&slots, FR_KEY_LINE) ? *pile_slot(&slots, FR_KEY_LINE) : none,
		};

		pile_frame(&f->r.pile, object, frame);
		return PILE_IS_FRAME;
	}
	if (!is_header(&slots) && !(object == NO_ID && pile_slot(&slots, FR_KEY_VERSION)))
		return PILE_PLAIN;
	take_header(f, &slots);
	return PILE_IS_TAKEN;
}

/* --- the end --- */

/* Groups are named by a number that counts as they are made, as pg_id does. */
static int by_made(const void *a, const void *b, void *user)
{
	const struct testimony *t = user;
	const char *x = intern_get(&t->names, t->groups.v[*(const uint32_t *)a].name);
	const char *y = intern_get(&t->names, t->groups.v[*(const uint32_t *)b].name);
	long n = strtol(x, NULL, 10), m = strtol(y, NULL, 10);

	return n != m ? (n < m ? -1 : 1) : strcmp(x, y);
}

/* Does the order of the configured groups agree with all that the entries tell? */
static bool order_holds(struct fr *f)
{
	if (!f->configured.n || f->configured.n != f->status.n)
		return false;
	qsort_r(f->configured.v, f->configured.n, sizeof(*f->configured.v), by_made, f->r.t);
	for (size_t i = 0; i < f->group_of_pg.n; i++)
		if (f->group_of_pg.v[i] &&
		    (i >= f->configured.n || f->group_of_pg.v[i] - 1 != f->configured.v[i]))
			return false;
	for (size_t i = 0; i < f->status.n; i++)
		if ((uint64_t)f->status.v[i].pg_id >= f->configured.n)
			return false;
	return true;
}

static void map_status(struct fr *f)
{
	bool ordered = order_holds(f);

	for (size_t i = 0; i < f->status.n; i++) {
		const struct fr_raw_status *s = &f->status.v[i];
		uint32_t group = NO_ID;

		if ((uint64_t)s->pg_id < f->group_of_pg.n && f->group_of_pg.v[s->pg_id])
			group = f->group_of_pg.v[s->pg_id] - 1;
		else if (ordered)
			group = f->configured.v[s->pg_id];
		else if (!s->pg_id && f->configured.n == 1)
			group = f->configured.v[0];
		if (group == NO_ID) {
			f->r.t->dropped += s->enqueued > 0;
			continue;
		}
		*vec_push(&f->r.t->status) = (struct op_status){
			group, f->r.t->rank, s->enqueued, s->started, s->completed,
		};
	}
}

static void name_of_path(struct testimony *t, const char *path)
{
	const char *host;
	size_t len;

	t->path = testimony_name(t, path, strlen(path));
	t->rank = fr_rank_of_path(path);
	if (fr_host_of_path(path, &host, &len))
		t->host = testimony_name(t, host, len);
}

static void finish(struct fr *f, enum pile_end end)
{
	struct testimony *t = f->r.t;

	if (end != PILE_REFUSED)
		pile_close(&f->r.pile);
	map_status(f);
	/* The last call's place in the program helps even if the call is done. */
	if (t->entries.n && t->entries.v[t->entries.n - 1].frames == NO_ID)
		t->entries.v[t->entries.n - 1].frames = fr_frames_text(f);
	t->present = f->header || t->entries.n;
	f->r.stats->skipped[SKIP_TRUNCATED] += end == PILE_CUT;
	f->r.stats->skipped[SKIP_MALFORMED] += end == PILE_BROKEN;
}

static const char *const fr_words[FR_N_WORDS] = {
#define FR_WORD_TEXT(id, text) text,
	FR_WORDS(FR_WORD_TEXT)
#undef FR_WORD_TEXT
};

int fr_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	    struct error *reterr)
{
	struct testimony *t = testimony_new(WITNESS_DUMP, "flight-recorder");
	struct fr *f = xcalloc(1, sizeof(*f));
	struct error e = { 0 };
	enum pile_end end;
	int r = 0;

	pile_reader_init(&f->r, t, in, stats, fr_words, FR_N_WORDS, take, f);
	name_of_path(t, path);
	json_skip_space_refilling(&f->r.window);
	if (f->r.window.p < f->r.window.end && (unsigned char)*f->r.window.p == 0x80)
		end = fr_pickle_run(f, &e);
	else
		end = pile_json_run(&f->r, &e);
	finish(f, end);
	if (end == PILE_REFUSED)
		r = error_set(reterr, -EPERM, "%s", e.text);
	else if (!t->present)
		r = error_set(reterr, -EPROTO, "%s%snothing of a dump in it", e.text,
			      e.text[0] ? ", " : "");
	else if (end != PILE_WHOLE)
		error_set(reterr, 0, "%s", e.text);
	if (r < 0)
		testimony_free(t);
	else
		*ret = t;
	pile_reader_done(&f->r);
	free(f->status.v);
	free(f->group_of_pg.v);
	free(f->configured.v);
	free(f);
	return r;
}

/* --- what is a dump --- */

static bool has_keys(const char *text, size_t len)
{
	return line_has(text, len, "pg_config") || line_has(text, len, "pg_status") ||
	       line_has(text, len, "comm_lib_version") || line_has(text, len, "profiling_name");
}

/* Called as dumps are called. */
static bool path_may_be(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;

	return survey_rank_of_name(path) >= 0 || strstr(base, "trace") || strstr(base, "dump") ||
	       strstr(base, "flight");
}

bool fr_pickle_sniff(const char *text, size_t len, const char *path)
{
	const unsigned char *p = (const unsigned char *)text;

	if (len < 2 || p[0] != 0x80 || p[1] < 2 || p[1] > 5)
		return false;
	if (has_keys(text, len))
		return true;
	/* A tensor file begins with a number; a dump that is cut or foul, with anything else. */
	return path_may_be(path) && (len < 3 || p[2] != 0x8a);
}

/* Is there an "entries" that is a list, as no other JSON with our words has? */
static bool has_entries(const char *text, size_t len)
{
	static const char key[] = "\"entries\"";
	const char *end = text + len, *p = memmem(text, len, key, strlen(key));

	for (; p; p = memmem(p, (size_t)(end - p), key, strlen(key))) {
		for (p += strlen(key); p < end && (unsigned char)*p <= ' '; p++)
			;
		if (p < end && *p == ':')
			for (p++; p < end && (unsigned char)*p <= ' '; p++)
				;
		if (p < end && *p == '[')
			return true;
	}
	return false;
}

bool fr_json_sniff(const char *text, size_t len, const char *path)
{
	(void)path;
	line_trim(&text, &len);
	if (!len || (*text != '{' && *text != '['))
		return false;
	if (line_has(text, len, "\"pg_status\"") ||
	    (line_has(text, len, "\"pg_config\"") && line_has(text, len, "\"version\"")))
		return true;
	if (!line_has(text, len, "\"profiling_name\""))
		return false;
	return *text == '[' || has_entries(text, len);
}
