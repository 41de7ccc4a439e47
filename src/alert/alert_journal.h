/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_journal.h - the ledger's file: appended to and synced at each change, written anew beside
 * itself and renamed when it has grown, so that at every moment the disk holds one whole ledger.
 * Beside it lies a file of nothing, given up for room when the disk is full: full disks are among
 * what alerts have to tell.
 */
#pragma once
#include "alert/alert_ledger.h"

#define JOURNAL_BYTES_MOST (64u << 20) /* read at the start; the rest is counted as damaged */
#define JOURNAL_ROOM	   (1u << 20)  /* grown by so much: written anew */
#define JOURNAL_RESERVE	   (256 << 10)

struct journal {
	char *folder;
	int lock, file;
	bool whole; /* the file says all that the ledger does */
	bool read;  /* what lay in the folder was read */
	uint64_t bytes, bytes_anew;
};

/* Makes the folder, locks and reads it into the empty ledger. 0; 1 with detail if it cannot be
   written; a negative errno if it is no folder for this, or another watcher's. */
int journal_open(struct journal *j, const char *folder, struct ledger *l, struct error *reterr);
/* Lines of a change that the ledger has already. 0, or a negative errno with detail, and then the
   file is no longer whole. */
int journal_append(struct journal *j, const struct ledger *l, const struct buf *lines,
		   struct error *reterr);
/* Writes the ledger anew. */
int journal_rewrite(struct journal *j, const struct ledger *l, struct error *reterr);
void journal_close(struct journal *j);
