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

/* --- strings and members --- */

struct fr_value fr_text(struct fr *f, const char *s, size_t len)
{
	uint32_t before = f->t->names.n, id;

	if (len > FR_STRING_MAX || f->text_bytes > FR_TEXT_MAX) {
		f->stats->skipped[SKIP_TOO_LONG]++;
		return fr_plain(FR_UNKNOWN);
	}
	id = intern(&f->t->names, s, len);
	if (f->t->names.n != before)
		f->text_bytes += len + 1;
	return fr_string(id);
}

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
static uint32_t members_of(struct fr *f, const struct fr_value *v)
{
	size_t n;
	const struct fr_value *items = fr_pile_items(&f->pile, v, &n);
	char number[24];

	if (v && v->kind == FR_STRING)
		return count_numbers(intern_get(&f->t->names, v->ref)) ? v->ref : NO_ID;
	f->text.len = 0;
	for (size_t i = 0; i < n; i++) {
		int len = snprintf(number, sizeof(number), "%s%" PRId64, i ? ", " : "[",
				   fr_number(f, &items[i], -1));

		buf_put(&f->text, number, (size_t)len);
	}
	buf_put(&f->text, "]", 1);
	return n ? intern(&f->t->names, (const char *)f->text.data, f->text.len) : NO_ID;
}

/* --- the header --- */

static void slots_of(const struct fr_value *pairs, size_t n, struct fr_slots *slots)
{
	slots->seen = 0;
	for (size_t i = 0; i + 1 < n; i += 2)
		if (pairs[i].kind == FR_STRING && pairs[i].ref < FR_N_WORDS)
			fr_slot_set(slots, pairs[i].ref, &pairs[i + 1]);
}

static uint32_t id_of(const struct fr_value *v, uint32_t otherwise)
{
	return v && v->kind == FR_STRING ? v->ref : otherwise;
}

static void take_group(struct fr *f, const struct fr_value *key, const struct fr_value *config)
{
	struct fr_slots slots;
	size_t n;
	const struct fr_value *pairs = fr_pile_cells(&f->pile, config, FR_DICT, &n);
	uint32_t name, desc, ranks, row;
	const char *text;

	if (!pairs)
		return;
	slots_of(pairs, n, &slots);
	name = id_of(fr_slot(&slots, FR_KEY_NAME),
		     id_of(fr_slot(&slots, FR_KEY_PG_NAME), id_of(key, NO_ID)));
	desc = id_of(fr_slot(&slots, FR_KEY_DESC), id_of(fr_slot(&slots, FR_KEY_PG_DESC), NO_ID));
	ranks = members_of(f, fr_slot(&slots, FR_KEY_RANKS));
	text = intern_get(&f->t->names, name);
	if (ranks != NO_ID && (!*text || desc == FR_KEY_DEFAULT_PG || !strcmp(text, "0")))
		f->t->world_size =
		    MAX(f->t->world_size, count_numbers(intern_get(&f->t->names, ranks)));
	if (!*text) /* Gloo: one line without a name, for all groups */
		return;
	row = testimony_group(f->t, name, desc);
	if (ranks != NO_ID)
		f->t->groups.v[row].ranks = ranks;
	if (f->configured.n < FR_GROUPS_MAX)
		*vec_push(&f->configured) = row;
}

static void take_groups(struct fr *f, const struct fr_value *v)
{
	size_t n;
	const struct fr_value *items = fr_pile_cells(&f->pile, v, FR_DICT, &n);

	for (size_t i = 0; i + 1 < n; i += 2)
		take_group(f, &items[i], &items[i + 1]);
	items = fr_pile_items(&f->pile, v, &n);
	for (size_t i = 0; i < n; i++)
		take_group(f, NULL, &items[i]);
}

static void take_status(struct fr *f, const struct fr_value *v)
{
	size_t n, n_own;
	const struct fr_value *pairs = fr_pile_cells(&f->pile, v, FR_DICT, &n);

	for (size_t i = 0; i + 1 < n && f->status.n < FR_GROUPS_MAX; i += 2) {
		struct fr_slots slots;
		const struct fr_value *own =
		    fr_pile_cells(&f->pile, &pairs[i + 1], FR_DICT, &n_own);
		struct fr_raw_status s = { .pg_id = fr_number(f, &pairs[i], -1) };

		slots_of(own, own ? n_own : 0, &slots);
		s.enqueued = MAX(fr_number(f, fr_slot(&slots, FR_KEY_LAST_ENQUEUED), -1), -1);
		s.started = MAX(fr_number(f, fr_slot(&slots, FR_KEY_LAST_STARTED), -1), -1);
		s.completed = MAX(fr_number(f, fr_slot(&slots, FR_KEY_LAST_COMPLETED), -1), -1);
		if (own && s.pg_id >= 0)
			*vec_push(&f->status) = s;
	}
}

static void take_version(struct fr *f, const struct fr_value *v)
{
	const char *text = v && v->kind == FR_STRING ? intern_get(&f->t->names, v->ref) : "";
	int major, minor;

	if (sscanf(text, "%6d.%6d", &major, &minor) == 2 && major >= 0 && minor >= 0) {
		f->t->version_major = major;
		f->t->version_minor = minor;
	}
}

static void take_header(struct fr *f, const struct fr_slots *slots)
{
	int64_t rank = fr_number(f, fr_slot(slots, FR_KEY_RANK), -1);

	f->header = true;
	if (rank >= 0 && rank <= INT32_MAX)
		f->t->rank = rank;
	take_version(f, fr_slot(slots, FR_KEY_VERSION));
	if (fr_slot(slots, FR_KEY_PG_CONFIG))
		take_groups(f, fr_slot(slots, FR_KEY_PG_CONFIG));
	if (fr_slot(slots, FR_KEY_PG_STATUS))
		take_status(f, fr_slot(slots, FR_KEY_PG_STATUS));
}

/* --- dictionaries as they end --- */

static bool is_entry(const struct fr_slots *slots)
{
	return fr_slot(slots, FR_KEY_PROFILING_NAME) ||
	       (fr_slot(slots, FR_KEY_STATE) &&
		(fr_slot(slots, FR_KEY_COLLECTIVE_SEQ_ID) || fr_slot(slots, FR_KEY_SEQ_ID)));
}

static bool is_header(const struct fr_slots *slots)
{
	return fr_slot(slots, FR_KEY_PG_CONFIG) || fr_slot(slots, FR_KEY_PG_STATUS) ||
	       fr_slot(slots, FR_KEY_ENTRIES) ||
	       (fr_slot(slots, FR_KEY_VERSION) &&
		(fr_slot(slots, FR_KEY_COMM_LIB_VERSION) || fr_slot(slots, FR_KEY_NCCL_VERSION)));
}

static void take_entry(struct fr *f, const struct fr_slots *slots)
{
	size_t n;
	const struct fr_value *items = fr_pile_items(&f->pile, fr_slot(slots, FR_KEY_FRAMES), &n);
	bool wanted = fr_entry(f, slots, NO_ID, NO_ID);

	fr_entry_frames(f, items, n);
	if (wanted)
		f->t->entries.v[f->t->entries.n - 1].frames = fr_frames_text(f);
}

static enum fr_take take(void *user, uint32_t object, const struct fr_value *pairs, size_t n)
{
	struct fr *f = user;
	struct fr_slots slots;

	slots_of(pairs, n, &slots);
	if (is_entry(&slots)) {
		if (object != NO_ID)
			take_entry(f, &slots);
		return FR_IS_TAKEN;
	}
	if (fr_slot(&slots, FR_KEY_FILENAME) ||
	    (fr_slot(&slots, FR_KEY_LINE) && fr_slot(&slots, FR_KEY_NAME))) {
		const struct fr_value none = fr_plain(FR_NONE);
		const struct fr_value frame[3] = {
			fr_slot(&slots, FR_KEY_NAME) ? *fr_slot(&slots, FR_KEY_NAME) : none,
			fr_slot(&slots, FR_KEY_FILENAME) ? *fr_slot(&slots, FR_KEY_FILENAME) : none,
			fr_slot(&slots, FR_KEY_LINE) ? *fr_slot(&slots, FR_KEY_LINE) : none,
		};

		fr_pile_frame(&f->pile, object, frame);
		return FR_IS_FRAME;
	}
	if (!is_header(&slots) && !(object == NO_ID && fr_slot(&slots, FR_KEY_VERSION)))
		return FR_PLAIN;
	take_header(f, &slots);
	return FR_IS_TAKEN;
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
	qsort_r(f->configured.v, f->configured.n, sizeof(*f->configured.v), by_made, f->t);
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
			f->t->dropped += s->enqueued > 0;
			continue;
		}
		*vec_push(&f->t->status) = (struct op_status){
			group, f->t->rank, s->enqueued, s->started, s->completed,
		};
	}
}

static struct testimony *testimony_of(const char *path)
{
	static const char *const words[FR_N_WORDS] = {
#define FR_WORD_TEXT(id, text) text,
		FR_WORDS(FR_WORD_TEXT)
#undef FR_WORD_TEXT
	};
	struct testimony *t = testimony_new(WITNESS_DUMP, "flight-recorder");
	const char *host;
	size_t len;

	for (uint32_t i = 0; i < FR_N_WORDS; i++)
		intern_str(&t->names, words[i]);
	t->path = testimony_name(t, path, strlen(path));
	t->rank = fr_rank_of_path(path);
	if (fr_host_of_path(path, &host, &len))
		t->host = testimony_name(t, host, len);
	return t;
}

static void finish(struct fr *f, enum fr_end end)
{
	struct testimony *t = f->t;

	if (end != FR_REFUSED)
		fr_pile_end(&f->pile);
	map_status(f);
	/* The last call's place in the program helps even if the call is done. */
	if (t->entries.n && t->entries.v[t->entries.n - 1].frames == NO_ID)
		t->entries.v[t->entries.n - 1].frames = fr_frames_text(f);
	t->present = f->header || t->entries.n;
	f->stats->skipped[SKIP_TRUNCATED] += end == FR_CUT;
	f->stats->skipped[SKIP_MALFORMED] += end == FR_BROKEN;
}

int fr_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	    struct error *reterr)
{
	struct fr f = { .t = testimony_of(path), .stats = stats };
	struct error e = { 0 };
	enum fr_end end;
	int r = 0;

	json_window_init(&f.window, in, FR_WINDOW_BYTES);
	fr_pile_init(&f.pile, take, &f);
	json_skip_space_refilling(&f.window);
	if (f.window.p < f.window.end && (unsigned char)*f.window.p == 0x80)
		end = fr_pickle_run(&f, &e);
	else
		end = fr_json_run(&f, &e);
	finish(&f, end);
	if (end == FR_REFUSED)
		r = error_set(reterr, -EPERM, "%s", e.text);
	else if (!f.t->present)
		r = error_set(reterr, -EPROTO, "%s%snothing of a dump in it", e.text,
			      e.text[0] ? ", " : "");
	else if (end != FR_WHOLE)
		error_set(reterr, 0, "%s", e.text);
	if (r < 0)
		testimony_free(f.t);
	else
		*ret = f.t;
	fr_pile_done(&f.pile);
	json_window_done(&f.window);
	buf_done(&f.text);
	free(f.status.v);
	free(f.group_of_pg.v);
	free(f.configured.v);
	return r;
}

/* --- what is a dump --- */

static bool has(const char *text, size_t len, const char *word)
{
	return memmem(text, len, word, strlen(word)) != NULL;
}

static bool has_keys(const char *text, size_t len)
{
	return has(text, len, "pg_config") || has(text, len, "pg_status") ||
	       has(text, len, "comm_lib_version") || has(text, len, "profiling_name");
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

bool fr_json_sniff(const char *text, size_t len, const char *path)
{
	const char *end = text + len;

	(void)path;
	while (text < end && (unsigned char)*text <= ' ')
		text++;
	if (text == end || (*text != '{' && *text != '['))
		return false;
	len = (size_t)(end - text);
	return has(text, len, "\"profiling_name\"") || has(text, len, "\"pg_status\"") ||
	       (has(text, len, "\"pg_config\"") && has(text, len, "\"version\""));
}
