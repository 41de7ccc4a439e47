/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - SHA-256, plain for fingerprints and keyed (HMAC, RFC 2104) for messages between nodes.
 *
 * The work is libcrypto's, loaded when the first digest is wanted, so that commands which want none
 * start without it.
 */
#pragma once
#include "base/base.h"

#define DIGEST_BYTES 32u
#define DIGEST_HEX   (2 * DIGEST_BYTES + 1)

struct digest;

/* Begins one; key NULL: plain. -ENOENT with detail where libcrypto is not installed. */
int digest_open(const void *key, size_t key_len, struct digest **ret, struct error *reterr);
void digest_add(struct digest *d, const void *p, size_t len);
/* Ends it and frees d; the next one begins with digest_open. */
void digest_end(struct digest *d, uint8_t ret[DIGEST_BYTES]);
struct digest *digest_free(struct digest *d); /* without an end; NULL is fine; returns NULL */

void digest_hex(const uint8_t digest[DIGEST_BYTES], char ret[DIGEST_HEX]);
/* Takes the same time wherever they differ. */
bool digest_same(const uint8_t a[DIGEST_BYTES], const uint8_t b[DIGEST_BYTES]);
