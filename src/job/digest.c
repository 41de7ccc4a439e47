/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - SHA-256 by libcrypto (OpenSSL 3 or 1.1), loaded when met; HMAC on top of it. */
#include "job/digest.h"
#include "read/library.h"

#include <stdio.h>

#define BLOCK 64u

/* OpenSSL's own, by name; its headers are not needed to build. */
struct evp_md_ctx;
struct evp_md;
static struct {
	struct evp_md_ctx *(*ctx_new)(void);
	void (*ctx_free)(struct evp_md_ctx *);
	int (*init)(struct evp_md_ctx *, const struct evp_md *, void *);
	int (*update)(struct evp_md_ctx *, const void *, size_t);
	int (*final)(struct evp_md_ctx *, unsigned char *, unsigned *);
	const struct evp_md *(*sha256)(void);
} crypto;

static const struct library_symbol symbols[] = {
	{ "EVP_MD_CTX_new", &crypto.ctx_new },	 { "EVP_MD_CTX_free", &crypto.ctx_free },
	{ "EVP_DigestInit_ex", &crypto.init },	 { "EVP_DigestUpdate", &crypto.update },
	{ "EVP_DigestFinal_ex", &crypto.final }, { "EVP_sha256", &crypto.sha256 },
};

struct digest {
	struct evp_md_ctx *ctx;
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
	must(crypto.init(d->ctx, crypto.sha256(), NULL));
}

static void finish(struct digest *d, uint8_t ret[DIGEST_BYTES])
{
	must(crypto.final(d->ctx, ret, NULL));
}

int digest_open(const void *key, size_t key_len, struct digest **ret, struct error *reterr)
{
	char why[256];
	struct digest *d;
	uint8_t short_key[DIGEST_BYTES], inner[BLOCK] = { 0 };

	if (!crypto_load(why))
		return error_set(reterr, -ENOENT, "%s", why);
	d = xcalloc(1, sizeof(*d));
	d->ctx = crypto.ctx_new();
	must(d->ctx != NULL);
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
	must(crypto.update(d->ctx, p, len));
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
	if (d) {
		crypto.ctx_free(d->ctx);
		free(d);
	}
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
