/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sqlite_file.c - SQLite, by the dozen functions that are needed, found at run time.
 *
 * Invariant: no SQL comes from the file. A statement names one table, seen to be a real one, and
 * columns that it has; views, triggers and virtual tables are never touched, and a statement that
 * works for longer than the file's size can justify is stopped.
 */
#include "read/sqlite_file.h"
#include "base/library.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define SQLITE_LIBRARY	   "libsqlite3.so.0"
#define COLUMNS_MAX	   16u
#define TEXT_BYTES_MAX	   (1 << 20)
#define COLUMNS_LOOKED_MAX 512
#define OPS_A_CALL	   100000 /* of SQLite's machine, between two looks at the budget */
#define OPS_A_BYTE	   64	  /* of the file; a row of a few dozen bytes needs fewer than 100 */

/* From sqlite3.h, whose ABI has this number. */
enum {
	SQ_OK = 0,
	SQ_INTERRUPT = 9,
	SQ_ROW = 100,
	SQ_DONE = 101,
	SQ_OPEN_READONLY = 1,
	SQ_OPEN_URI = 0x40,
	SQ_OPEN_NOMUTEX = 0x8000,
	SQ_DESERIALIZE_READONLY = 4,
	SQ_LIMIT_LENGTH = 0,
	SQ_LIMIT_COLUMN = 2,
	SQ_LIMIT_ATTACHED = 7,
};
enum { SQ_INTEGER = 1, SQ_FLOAT = 2, SQ_TEXT = 3, SQ_BLOB = 4, SQ_NULL = 5 };

struct sqlite3;
struct sqlite3_stmt;

static struct {
	int (*open_v2)(const char *, struct sqlite3 **, int, const char *);
	int (*close)(struct sqlite3 *);
	int (*exec)(struct sqlite3 *, const char *, void *, void *, char **);
	int (*limit)(struct sqlite3 *, int, int);
	void (*progress_handler)(struct sqlite3 *, int, int (*)(void *), void *);
	int (*prepare_v2)(struct sqlite3 *, const char *, int, struct sqlite3_stmt **,
			  const char **);
	int (*step)(struct sqlite3_stmt *);
	int (*finalize)(struct sqlite3_stmt *);
	int (*column_count)(struct sqlite3_stmt *);
	const char *(*column_name)(struct sqlite3_stmt *, int);
	int (*column_type)(struct sqlite3_stmt *, int);
	int64_t (*column_int64)(struct sqlite3_stmt *, int);
	double (*column_double)(struct sqlite3_stmt *, int);
	const unsigned char *(*column_text)(struct sqlite3_stmt *, int);
	const void *(*column_blob)(struct sqlite3_stmt *, int);
	int (*column_bytes)(struct sqlite3_stmt *, int);
	const char *(*errmsg)(struct sqlite3 *);
	int (*deserialize)(struct sqlite3 *, const char *, unsigned char *, int64_t, int64_t,
			   unsigned);
	bool loaded;
	char why[256];
} sq;

static const struct library_symbol sq_symbols[] = {
	{ "sqlite3_open_v2", &sq.open_v2 },
	{ "sqlite3_close", &sq.close },
	{ "sqlite3_exec", &sq.exec },
	{ "sqlite3_limit", &sq.limit },
	{ "sqlite3_progress_handler", &sq.progress_handler },
	{ "sqlite3_prepare_v2", &sq.prepare_v2 },
	{ "sqlite3_step", &sq.step },
	{ "sqlite3_finalize", &sq.finalize },
	{ "sqlite3_column_count", &sq.column_count },
	{ "sqlite3_column_name", &sq.column_name },
	{ "sqlite3_column_type", &sq.column_type },
	{ "sqlite3_column_int64", &sq.column_int64 },
	{ "sqlite3_column_double", &sq.column_double },
	{ "sqlite3_column_text", &sq.column_text },
	{ "sqlite3_column_blob", &sq.column_blob },
	{ "sqlite3_column_bytes", &sq.column_bytes },
	{ "sqlite3_errmsg", &sq.errmsg },
	{ "sqlite3_deserialize", &sq.deserialize },
};

static void load(void)
{
	sq.loaded = library_load(
	    SQLITE_LIBRARY,
	    "SQLite files need libsqlite3, which is not installed (package libsqlite3-0)",
	    sq_symbols, ARRAY_SIZE(sq_symbols), sq.why);
}

struct sqlite_file {
	struct sqlite3 *db;
	uint64_t budget; /* of calls of the watch, for one statement */
	uint64_t calls;
};

bool sqlite_looks(const char *bytes, size_t len)
{
	static const char magic[] = "SQLite format 3"; /* with its NUL */

	return len >= sizeof(magic) && !memcmp(bytes, magic, sizeof(magic));
}

static int watch(void *user)
{
	struct sqlite_file *f = user;

	return ++f->calls > f->budget;
}

/* The path as SQLite's URI has it: what is no plain character is escaped. */
static char *uri_of(const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-";
	char *uri = xmalloc(3 * strlen(path) + 64), *out = uri;

	out += sprintf(out, "file:%s", *path == '/' ? "" : "./");
	for (; *path; path++)
		out += strchr(plain, *path) ? sprintf(out, "%c", *path)
					    : sprintf(out, "%%%02X", (unsigned char)*path);
	strcpy(out, "?mode=ro&immutable=1");
	return uri;
}

/* Sets limits, and sees that there is a database. One that was cut off is refused unless the schema
   may be written, which nothing here does: then the tables in front of the cut can be read. */
static int prove(struct sqlite_file *f, struct error *reterr)
{
	static const char settings[] = "PRAGMA trusted_schema=off; PRAGMA query_only=on; "
				       "PRAGMA cell_size_check=on; PRAGMA mmap_size=0;";
	static const char look[] = "SELECT count(*) FROM sqlite_master";

	sq.limit(f->db, SQ_LIMIT_LENGTH, TEXT_BYTES_MAX);
	sq.limit(f->db, SQ_LIMIT_COLUMN, COLUMNS_LOOKED_MAX);
	sq.limit(f->db, SQ_LIMIT_ATTACHED, 0);
	sq.progress_handler(f->db, OPS_A_CALL, watch, f);
	if (sq.exec(f->db, settings, NULL, NULL, NULL) == SQ_OK &&
	    sq.exec(f->db, look, NULL, NULL, NULL) == SQ_OK)
		return 0;
	f->calls = 0;
	if (sq.exec(f->db, "PRAGMA writable_schema=on", NULL, NULL, NULL) != SQ_OK ||
	    sq.exec(f->db, look, NULL, NULL, NULL) != SQ_OK)
		return error_set(reterr, -EBADMSG, "a damaged SQLite database: %s",
				 sq.errmsg(f->db));
	return error_set(reterr, 0, "a damaged SQLite database, cut off perhaps");
}

/* bytes: NULL if the file lies where the URI says. */
static int open_any(const char *uri, uint8_t *bytes, uint64_t size_bytes, struct sqlite_file **ret,
		    struct error *reterr)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sqlite_file *f;
	int r = 0;

	pthread_once(&once, load);
	if (!sq.loaded)
		return error_set(reterr, -ENOTSUP, "%s", sq.why);
	f = xcalloc(1, sizeof(*f));
	f->budget = 1000 + size_bytes * OPS_A_BYTE / OPS_A_CALL;
	if (sq.open_v2(uri, &f->db, SQ_OPEN_READONLY | SQ_OPEN_URI | SQ_OPEN_NOMUTEX, NULL) !=
	    SQ_OK)
		r = error_set(reterr, -EBADMSG, "no SQLite database: %s",
			      f->db ? sq.errmsg(f->db) : "out of memory");
	if (r >= 0 && bytes &&
	    sq.deserialize(f->db, "main", bytes, (int64_t)size_bytes, (int64_t)size_bytes,
			   SQ_DESERIALIZE_READONLY) != SQ_OK)
		r = error_set(reterr, -EBADMSG, "no SQLite database: %s", sq.errmsg(f->db));
	if (r >= 0)
		r = prove(f, reterr);
	if (r < 0) {
		sqlite_file_close(f);
		return r;
	}
	*ret = f;
	return 0;
}

int sqlite_file_open(const char *path, uint64_t size_bytes, struct sqlite_file **ret,
		     struct error *reterr)
{
	_cleanup_free_ char *uri = uri_of(path);

	return open_any(uri, NULL, size_bytes, ret, reterr);
}

int sqlite_file_of_bytes(uint8_t *bytes, uint64_t len, struct sqlite_file **ret,
			 struct error *reterr)
{
	if (len < 100 || !sqlite_looks((const char *)bytes, len))
		return error_set(reterr, -EBADMSG, "no SQLite database: shorter than its header");
	/* A database in memory has no log beside it, whatever mode it was written in. */
	bytes[18] = bytes[19] = 1;
	return open_any(":memory:", bytes, len, ret, reterr);
}

struct sqlite_file *sqlite_file_close(struct sqlite_file *f)
{
	if (!f)
		return NULL;
	if (f->db)
		sq.close(f->db);
	free(f);
	return NULL;
}

/* Names of tables and columns come from our own source only. */
static struct sqlite3_stmt *prepare(struct sqlite_file *f, const char *sql)
{
	struct sqlite3_stmt *s = NULL;

	f->calls = 0;
	if (sq.prepare_v2(f->db, sql, -1, &s, NULL) == SQ_OK)
		return s;
	sq.finalize(s);
	return NULL;
}

bool sqlite_file_has(struct sqlite_file *f, const char *table)
{
	_cleanup_free_ char *sql = xasprintf(
	    "SELECT 1 FROM sqlite_master WHERE type='table' AND name='%s' AND rootpage>0", table);
	struct sqlite3_stmt *s = prepare(f, sql);
	bool has = s && sq.step(s) == SQ_ROW;

	sq.finalize(s);
	return has;
}

/* "SELECT a, NULL, c FROM t": what the table has of the columns. NULL if it cannot be read. */
static char *select_of(struct sqlite_file *f, const char *table, const char *const *columns,
		       size_t n)
{
	_cleanup_free_ char *look = xasprintf("SELECT * FROM \"%s\" LIMIT 0", table);
	struct sqlite3_stmt *s = prepare(f, look);
	char *sql = NULL;

	for (size_t i = 0; s && i < n; i++) {
		_cleanup_free_ char *before = sql;
		bool has = false;

		for (int c = 0; c < sq.column_count(s) && !has; c++)
			has = sq.column_name(s, c) && !strcmp(sq.column_name(s, c), columns[i]);
		sql = xasprintf("%s%s%s%s%s", before ? before : "SELECT ", before ? "," : "",
				has ? "\"" : "", has ? columns[i] : "NULL", has ? "\"" : "");
	}
	if (sql) {
		_cleanup_free_ char *before = sql;

		sql = xasprintf("%s FROM \"%s\"", before, table);
	}
	sq.finalize(s);
	return sql;
}

static struct sqlite_value value_of(struct sqlite3_stmt *s, int c)
{
	struct sqlite_value v = { .kind = SQLITE_NOTHING };
	double real;

	switch (sq.column_type(s, c)) {
	case SQ_INTEGER:
		v.kind = SQLITE_NUMBER;
		v.number = sq.column_int64(s, c);
		break;
	case SQ_FLOAT:
		real = sq.column_double(s, c);
		v.kind = SQLITE_NO_NUMBER;
		if (fabs(real) < 9e18) {
			v.kind = SQLITE_NUMBER;
			v.number = (int64_t)real;
		}
		break;
	case SQ_TEXT:
		v.text = (const char *)sq.column_text(s, c);
		v.len = v.text ? strlen(v.text) : 0;
		v.kind = v.text ? SQLITE_TEXTS : SQLITE_NOTHING;
		break;
	case SQ_NULL:
		break;
	default:
		v.kind = SQLITE_NO_NUMBER;
		v.text = sq.column_blob(s, c);
		v.len = v.text ? (size_t)MAX(sq.column_bytes(s, c), 0) : 0;
	}
	return v;
}

static int broken(struct sqlite_file *f, const char *table, int got, struct error *reterr)
{
	return error_set(reterr, -EBADMSG, "table %s is damaged: %s", table,
			 got == SQ_INTERRUPT ? "more rows than the file can hold"
					     : sq.errmsg(f->db));
}

int64_t sqlite_file_rows(struct sqlite_file *f, const char *table, const char *const *columns,
			 size_t n, int (*fn)(void *user, const struct sqlite_value *v), void *user,
			 struct error *reterr)
{
	_cleanup_free_ char *sql = NULL;
	struct sqlite_value values[COLUMNS_MAX];
	struct sqlite3_stmt *s;
	int64_t rows = 0;
	int got = SQ_DONE, r = 0;

	if (n > COLUMNS_MAX || !sqlite_file_has(f, table))
		return 0;
	sql = select_of(f, table, columns, n);
	s = sql ? prepare(f, sql) : NULL;
	if (!s)
		return broken(f, table, 0, reterr);
	while (r >= 0 && (got = sq.step(s)) == SQ_ROW) {
		for (size_t i = 0; i < n; i++)
			values[i] = value_of(s, (int)i);
		r = fn(user, values);
		rows++;
	}
	if (r >= 0 && got != SQ_DONE)
		r = broken(f, table, got, reterr);
	sq.finalize(s);
	return r < 0 ? r : rows;
}
