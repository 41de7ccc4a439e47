/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - SHA-256 by libcrypto (OpenSSL 3 or 1.1), loaded when met; HMAC on top of it. */
#include "meet/digest.h"
#include "base/library.h"

#include <stdio.h>

#define BLOCK 64u

/*
 * SHA-256 alone, by its own functions and their context, whose layout is OpenSSL's ABI since 1.0.
 * EVP would first set up all of the library's algorithms: three times the work of loading it.
 */
struct sha256_ctx {
	uint32_t h[8], low, high, data[16];
	unsigned n, digest_len;
};
static struct {
	int (*init)(struct sha256_ctx *);
	int (*update)(struct sha256_ctx *, const void *, size_t);
	int (*final)(unsigned char *, struct sha256_ctx *);
} crypto;

static const struct library_symbol symbols[] = {
	{ "SHA256_Init", &crypto.init },
	{ "SHA256_Update", &crypto.update },
	{ "SHA256_Final", &crypto.final },
};

struct digest {
	struct sha256_ctx ctx;
	bool keyed;
	uint8_t outer[BLOCK]; /* the key, as the outer hash of HMAC begins with it */
};

static bool crypto_load(char why[256])
{
	static const char *const files[] = { "libcrypto.so.3", "libcrypto.so.1.1" };
	static bool loaded;

	for (size_t i = 0; i < ARRAY_SIZE(files) && !loaded; i++)
		loaded = library_load(files[i], "digests need libcrypto (Debian: libssl3)", symbols,
				      ARRAY_SIZE(symbols), why);
	return loaded;
}

/* libcrypto fails here only for want of memory. */
static void must(int ok)
{
	if (ok == 1)
		return;
	fputs("lockstep: libcrypto refuses SHA-256\n", stderr);
	exit(70);
}

static void begin(struct digest *d)
{
	must(crypto.init(&d->ctx));
}

static void finish(struct digest *d, uint8_t ret[DIGEST_BYTES])
{
	must(crypto.final(ret, &d->ctx));
}

int digest_open(const void *key, size_t key_len, struct digest **ret, struct error *reterr)
{
	char why[256];
	struct digest *d;
	uint8_t short_key[DIGEST_BYTES], inner[BLOCK] = { 0 };

	if (!crypto_load(why))
		return error_set(reterr, -ENOENT, "%s", why);
	d = xcalloc(1, sizeof(*d));
	begin(d);
	if (key && key_len > BLOCK) {
		digest_add(d, key, key_len);
		finish(d, short_key);
		begin(d);
		key = short_key;
		key_len = DIGEST_BYTES;
	}
	if (key) {
		memcpy(inner, key, key_len);
		for (size_t i = 0; i < BLOCK; i++) {
			d->outer[i] = inner[i] ^ 0x5c;
			inner[i] ^= 0x36;
		}
		d->keyed = true;
		digest_add(d, inner, BLOCK);
	}
	*ret = d;
	return 0;
}

void digest_add(struct digest *d, const void *p, size_t len)
{
	must(crypto.update(&d->ctx, p, len));
}

void digest_end(struct digest *d, uint8_t ret[DIGEST_BYTES])
{
	finish(d, ret);
	if (d->keyed) {
		begin(d);
		digest_add(d, d->outer, BLOCK);
		digest_add(d, ret, DIGEST_BYTES);
		finish(d, ret);
	}
	digest_free(d);
}

struct digest *digest_free(struct digest *d)
{
	free(d);
	return NULL;
}

void digest_hex(const uint8_t digest[DIGEST_BYTES], char ret[DIGEST_HEX])
{
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

bool digest_same(const uint8_t a[DIGEST_BYTES], const uint8_t b[DIGEST_BYTES])
{
	uint8_t differs = 0;

	for (size_t i = 0; i < DIGEST_BYTES; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}
