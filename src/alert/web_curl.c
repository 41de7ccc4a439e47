/* SPDX-License-Identifier: Apache-2.0 */
/* web_curl.c - finds libcurl, whichever TLS library it was built with. */
#include "alert/web_curl.h"
#include "base/library.h"

#include <pthread.h>

static struct web_curl cu;
static const struct library_symbol cu_symbols[] = {
	{ "curl_global_init", &cu.global_init },
	{ "curl_easy_init", &cu.easy_init },
	{ "curl_easy_setopt", &cu.easy_setopt },
	{ "curl_easy_getinfo", &cu.easy_getinfo },
	{ "curl_easy_cleanup", &cu.easy_cleanup },
	{ "curl_easy_strerror", &cu.easy_strerror },
	{ "curl_multi_init", &cu.multi_init },
	{ "curl_multi_setopt", &cu.multi_setopt },
	{ "curl_multi_add_handle", &cu.multi_add_handle },
	{ "curl_multi_remove_handle", &cu.multi_remove_handle },
	{ "curl_multi_perform", &cu.multi_perform },
	{ "curl_multi_poll", &cu.multi_poll },
	{ "curl_multi_info_read", &cu.multi_info_read },
	{ "curl_multi_cleanup", &cu.multi_cleanup },
	{ "curl_slist_append", &cu.slist_append },
	{ "curl_slist_free_all", &cu.slist_free_all },
	{ "curl_getdate", &cu.getdate },
};
static struct {
	bool loaded;
	char why[256];
} state;

static void load(void)
{
	static const char *const files[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };

	for (size_t i = 0; i < ARRAY_SIZE(files) && !state.loaded; i++)
		state.loaded = library_load(
		    files[i], "URLs need libcurl, which is not installed (package libcurl4)",
		    cu_symbols, ARRAY_SIZE(cu_symbols), state.why);
	if (state.loaded && cu.global_init(CU_GLOBAL_ALL) != CU_OK) {
		state.loaded = false;
		strcpy(state.why, "libcurl cannot be set up");
	}
}

int web_curl_load(const struct web_curl **ret, struct error *reterr)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (!state.loaded)
		return error_set(reterr, -ENOTSUP, "%s", state.why);
	*ret = &cu;
	return 0;
}
