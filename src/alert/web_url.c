/* SPDX-License-Identifier: Apache-2.0 */
/* web_url.c - which URLs we take, and what of one may be shown: its path can be the secret. */
#include "alert/web.h"

#include <stdio.h>
#include <strings.h>

int web_url_check(const char *url, struct error *reterr)
{
	size_t len = url ? strlen(url) : 0;
	char name[128];

	if (!len || len > WEB_URL_MOST)
		return error_set(reterr, -EINVAL, "a URL of %zu bytes; 1 to %u are taken", len,
				 WEB_URL_MOST);
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)url[i] <= ' ' || url[i] == 0x7f)
			return error_set(reterr, -EINVAL,
					 "a URL with a space or a control character at byte %zu",
					 i + 1);
	if (!strncasecmp(url, "unix:", 5)) {
		if (url[5] != '/')
			return error_set(reterr, -EINVAL,
					 "\"%.60s\": write unix:/the/socket or "
					 "unix:/the/socket:/path",
					 url);
		return 0;
	}
	if ((strncasecmp(url, "http://", 7) && strncasecmp(url, "https://", 8)) ||
	    strchr("/?#:@", strchr(url, '/')[2])) {
		web_url_name(url, name, sizeof(name));
		return error_set(reterr, -EINVAL,
				 "\"%s\" is no URL of ours: it begins with http://HOST, "
				 "https://HOST or unix:/",
				 name);
	}
	return 0;
}

/* Without user and password, path and query. */
void web_url_name(const char *url, char *ret, size_t size)
{
	const char *host = strstr(url, "://"), *end, *at;
	size_t n = 0;

	if (!strncasecmp(url, "unix:", 5) || !host) {
		snprintf(ret, size, "%.100s", url);
	} else {
		host += 3;
		end = host + strcspn(host, "/?#");
		at = memrchr(host, '@', (size_t)(end - host));
		snprintf(ret, size, "%.*s%.*s", (int)MIN(host - url, 16), url,
			 (int)MIN(end - (at ? at + 1 : host), 200), at ? at + 1 : host);
	}
	for (; ret[n]; n++)
		if ((unsigned char)ret[n] < ' ' || ret[n] == 0x7f)
			ret[n] = '?';
}
