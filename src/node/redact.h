/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redact.h - users, hosts, addresses and folders under other names, the same everywhere.
 *
 * An alias is as long as the name it stands for: so it can be put into anything, pickles with their
 * counted strings among it, without understanding it. What stays: the names of files (train.py), of
 * functions, and folders that every machine has (/usr/lib, site-packages and what is below it).
 */
#pragma once
#include "base/intern.h"

struct redact;
struct redact *redact_new(void);
void redact_user(struct redact *r, const char *name);
/* A host; others that are called like it but for the number (node17 for node03) are found too. */
void redact_host(struct redact *r, const char *name);
/* Bytes in place; their number does not change. */
void redact_bytes(struct redact *r, char *p, size_t len);
/* A regular file in place: 0, or a negative errno; -EINVAL: a pickle that is not only plain values,
   or is cut, which then may still hold names. */
int redact_file(struct redact *r, const char *path);
size_t redact_count(const struct redact *r); /* names that have an alias */
struct redact *redact_free(struct redact *r);
