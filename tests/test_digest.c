/* SPDX-License-Identifier: Apache-2.0 */
/* test_digest.c - against the published vectors: FIPS 180-2 for SHA-256, RFC 4231 for HMAC. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "meet/digest.h"

static void expect(const char *key, size_t key_len, const char *text, size_t len, const char *want)
{
	struct digest *d;
	struct error error;
	uint8_t got[DIGEST_BYTES];
	char hex[DIGEST_HEX];

	if (digest_open(key, key_len, &d, &error) < 0)
		fail_msg("%s", error.text);
	for (size_t i = 0; i < len; i++) /* piecemeal */
		digest_add(d, text + i, 1);
	digest_end(d, got);
	digest_hex(got, hex);
	assert_string_equal(hex, want);
}

static void plain_digests_are_sha256(void **state)
{
	(void)state;
	expect(NULL, 0, "", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	expect(NULL, 0, "abc", 3,
	       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void keyed_digests_are_hmac(void **state)
{
	char key[131], data[] = "Test Using Larger Than Block-Size Key - Hash Key First";

	(void)state;
	expect("Jefe", 4, "what do ya want for nothing?", 28,
	       "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	expect(key, sizeof(key), data, sizeof(data) - 1,
	       "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void digests_are_the_same_only_if_all_bytes_are(void **state)
{
	uint8_t a[DIGEST_BYTES] = { 0 }, b[DIGEST_BYTES] = { 0 };

	(void)state;
	assert_true(digest_same(a, b));
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		b[i] = 1;
		assert_false(digest_same(a, b));
		b[i] = 0;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_digests_are_sha256),
		cmocka_unit_test(keyed_digests_are_hmac),
		cmocka_unit_test(digests_are_the_same_only_if_all_bytes_are),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
