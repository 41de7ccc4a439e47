/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sqlite_file.h - the rows of the tables of an SQLite database that came from outside.
 *
 * SQLite is loaded when the first one is met, so that nobody else needs it. The file is opened
 * unchangeable and read-only; only real tables are read, column by column as they are asked for,
 * and what a table lacks is no value. Damage ends a table where it is met.
 */
#pragma once
#include "base/base.h"

struct sqlite_file;

enum sqlite_kind {
	SQLITE_NOTHING, /* NULL, or the table has no such column */
	SQLITE_NUMBER,
	SQLITE_TEXTS,
	SQLITE_NO_NUMBER, /* a real beyond 64 bits; a blob: text and len are its bytes */
};
struct sqlite_value {
	enum sqlite_kind kind;
	int64_t number;
	const char *text; /* until the row's callback returns; NUL-ended */
	size_t len;
};

/* Do a file's first bytes say that it is one? */
bool sqlite_looks(const char *bytes, size_t len);
/* A file that is damaged but can be read in part is opened, with a line in reterr->text. -ENOTSUP
 * with the package's name if SQLite is not installed; -EBADMSG if it is no database. */
int sqlite_file_open(const char *path, uint64_t size_bytes, struct sqlite_file **ret,
		     struct error *reterr);
/* The same for a database that lies in memory, which must outlive it and may be changed by it. */
int sqlite_file_of_bytes(uint8_t *bytes, uint64_t len, struct sqlite_file **ret,
			 struct error *reterr);
struct sqlite_file *sqlite_file_close(struct sqlite_file *f); /* NULL is fine; returns NULL */
bool sqlite_file_has(struct sqlite_file *f, const char *table);
/*
 * Each row of a table to fn, with the values of n columns; a negative errno of fn stops. The number
 * of rows, 0 if there is no such table. -EBADMSG with detail after the rows in front of a damage.
 */
int64_t sqlite_file_rows(struct sqlite_file *f, const char *table, const char *const *columns,
			 size_t n, int (*fn)(void *user, const struct sqlite_value *v), void *user,
			 struct error *reterr);
