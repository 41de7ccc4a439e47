/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web.c - calls under way in one libcurl multi handle.
 *
 * Invariant: a call's done is called exactly once, with the call already off the list, or never
 * after web_cancel and web_free. What is POSTed gets a connection of its own: libcurl sends again
 * by itself when a kept one turns out to be closed, and then nobody knows how often it arrived.
 */
#include "alert/web.h"
#include "alert/web_curl.h"
#include "base/buf.h"
#include "base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_KEPT 64
#define ERROR_BYTES	 256 /* CURL_ERROR_SIZE */
#define HEAD_MOST	 (256u << 10)

struct web_call {
	struct web_call *next, *before;
	void *easy;
	struct cu_list *headers;
	char *body; /* that is sent */
	struct buf got;
	size_t most, head;
	bool cut;
	int64_t retry_after_ms, began_ms;
	char place[128]; /* where a redirect points */
	char why[ERROR_BYTES];
	char name[128];
	void (*done)(void *user, const struct web_answer *answer);
	void *user;
};

struct web {
	const struct web_curl *curl; /* NULL: no call yet */
	void *multi;
	struct web_call *calls;
	size_t n;
};

struct web *web_new(void)
{
	return xcalloc(1, sizeof(struct web));
}

size_t web_busy(const struct web *w)
{
	return w->n;
}

/* --- what comes --- */

static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
	struct web_call *c = user;
	size_t len = size * n, room = c->most - c->got.len;

	buf_put(&c->got, bytes, MIN(len, room));
	c->cut = c->cut || len > room;
	return c->cut ? 0 : len; /* 0 of some: libcurl ends the transfer */
}

/* Copies what is printable of a header's value. */
static void value_copy(const char *p, size_t len, char *ret, size_t size)
{
	size_t n = 0;

	for (; len && (*p == ' ' || *p == '\t'); p++)
		len--;
	for (; len && n + 1 < size && (unsigned char)*p >= ' ' && *p != 0x7f; len--)
		ret[n++] = *p++;
	ret[n] = '\0';
}

/* Seconds, or a date (RFC 9110, 10.2.3). */
static int64_t retry_after_ms(const struct web_curl *cu, const char *text)
{
	int64_t s = -1;
	char *end;

	if (*text >= '0' && *text <= '9') {
		errno = 0;
		s = strtoll(text, &end, 10);
		if (errno)
			s = WEB_RETRY_AFTER_MS / 1000;
		if (*end && *end != ' ')
			return -1;
	} else {
		int64_t when = cu->getdate(text, NULL);

		if (when < 0)
			return -1;
		s = MAX(when - (int64_t)time(NULL), 0);
	}
	return MIN(s, WEB_RETRY_AFTER_MS / 1000) * 1000;
}

static size_t take_header(char *bytes, size_t size, size_t n, void *user)
{
	struct web_call *c = user;
	const struct web_curl *cu;
	size_t len = size * n;
	char value[64];

	c->head += len;
	if (c->head > HEAD_MOST) /* libcurl keeps them all */
		return 0;
	if (len >= 5 && !strncasecmp(bytes, "HTTP/", 5)) { /* 100 Continue was not the answer */
		c->retry_after_ms = -1;
		c->place[0] = '\0';
	} else if (len > 12 && !strncasecmp(bytes, "retry-after:", 12)) {
		value_copy(bytes + 12, len - 12, value, sizeof(value));
		if (web_curl_load(&cu, NULL) == 0)
			c->retry_after_ms = retry_after_ms(cu, value);
	} else if (len > 9 && !strncasecmp(bytes, "location:", 9)) {
		char whole[512];

		value_copy(bytes + 9, len - 9, whole, sizeof(whole));
		web_url_name(*whole == '/' ? "the same host" : whole, c->place, sizeof(c->place));
	}
	return len;
}

/* --- what goes --- */

static bool header_fine(const char *h)
{
	if (!strchr(h, ':'))
		return false;
	for (; *h; h++)
		if ((unsigned char)*h < ' ' && *h != '\t')
			return false;
	return true;
}

static int token_read(const char *path, char ret[WEB_TOKEN_MOST + 1], struct error *reterr)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd >= 0 ? read(fd, ret, WEB_TOKEN_MOST) : -1;
	size_t len;

	if (n < 0)
		return error_set(reterr, -errno, "token file %s: %s", path, strerror(errno));
	ret[n] = '\0';
	len = strcspn(ret, "\r\n");
	while (len && (ret[len - 1] == ' ' || ret[len - 1] == '\t'))
		len--;
	ret[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)ret[i] <= ' ' || (unsigned char)ret[i] >= 0x7f)
			len = 0;
	if (!len || n == WEB_TOKEN_MOST)
		return error_set(reterr, -EBADMSG,
				 "token file %s: its first line is no token (printable, without "
				 "spaces, below %u bytes)",
				 path, WEB_TOKEN_MOST);
	return 0;
}

static int headers_make(const struct web_curl *cu, const struct web_request *q,
			struct cu_list **ret, struct error *reterr)
{
	struct cu_list *list = cu->slist_append(NULL, "Expect:");
	char token[WEB_TOKEN_MOST + 1];

	for (size_t i = 0; list && i < q->n_headers; i++)
		list = header_fine(q->headers[i]) ? cu->slist_append(list, q->headers[i]) : list;
	if (q->token_file) {
		_cleanup_free_ char *line = NULL;
		int r = token_read(q->token_file, token, reterr);

		if (r < 0) {
			cu->slist_free_all(list);
			return r;
		}
		line = xasprintf("Authorization: Bearer %s", token);
		list = cu->slist_append(list, line);
		explicit_bzero(line, strlen(line));
		explicit_bzero(token, sizeof(token));
	}
	*ret = list;
	return 0;
}

/* "unix:/the/socket:/path": the last ":/" divides. */
static void set_url(const struct web_curl *cu, void *easy, const char *url)
{
	_cleanup_free_ char *path = NULL, *http = NULL;
	char *colon;

	if (strncasecmp(url, "unix:", 5)) {
		cu->easy_setopt(easy, CU_URL, url);
		return;
	}
	path = xstrdup(url + 5);
	colon = strstr(path, ":/");
	for (char *next = colon; next; next = strstr(next + 1, ":/"))
		colon = next;
	http = xasprintf("http://localhost%s", colon ? colon + 1 : "/");
	if (colon)
		*colon = '\0';
	cu->easy_setopt(easy, CU_UNIX_SOCKET_PATH, path);
	cu->easy_setopt(easy, CU_URL, http);
}

static void set_options(const struct web_curl *cu, struct web_call *c, const struct web_request *q)
{
	long deadline = (long)(q->deadline_ms ? q->deadline_ms : WEB_DEADLINE_MS);
	void *e = c->easy;

	set_url(cu, e, q->url);
	cu->easy_setopt(e, CU_PRIVATE, c);
	cu->easy_setopt(e, CU_ERRORBUFFER, c->why);
	cu->easy_setopt(e, CU_WRITEFUNCTION, take_body);
	cu->easy_setopt(e, CU_WRITEDATA, c);
	cu->easy_setopt(e, CU_HEADERFUNCTION, take_header);
	cu->easy_setopt(e, CU_HEADERDATA, c);
	cu->easy_setopt(e, CU_HTTPHEADER, c->headers);
	cu->easy_setopt(e, CU_USERAGENT, "lockstep/" LOCKSTEP_VERSION);
	cu->easy_setopt(e, CU_PROTOCOLS, (long)(CU_PROTOCOL_HTTP | CU_PROTOCOL_HTTPS));
	cu->easy_setopt(e, CU_HTTP_VERSION, (long)CU_HTTP_1_1);
	cu->easy_setopt(e, CU_NOSIGNAL, 1L);
	cu->easy_setopt(e, CU_QUICK_EXIT, 1L); /* a name server that hangs does not hold us */
	cu->easy_setopt(e, CU_TIMEOUT_MS, deadline);
	cu->easy_setopt(e, CU_CONNECTTIMEOUT_MS, deadline);
	if (q->ca_file)
		cu->easy_setopt(e, CU_CAINFO, q->ca_file);
	if (!q->body)
		return;
	cu->easy_setopt(e, CU_FRESH_CONNECT, 1L);
	cu->easy_setopt(e, CU_FORBID_REUSE, 1L);
	cu->easy_setopt(e, CU_POSTFIELDSIZE, (long)q->body_len);
	cu->easy_setopt(e, CU_POSTFIELDS, c->body);
}

/* --- calls --- */

static void unlink_call(struct web *w, struct web_call *c)
{
	if (c->next)
		c->next->before = c->before;
	*(c->before ? &c->before->next : &w->calls) = c->next;
	w->n--;
}

static void call_free(const struct web_curl *cu, struct web_call *c)
{
	if (c->easy)
		cu->easy_cleanup(c->easy);
	if (c->headers)
		cu->slist_free_all(c->headers);
	free(c->body);
	buf_done(&c->got);
	free(c);
}

static int ready(struct web *w, struct error *reterr)
{
	int r;

	if (w->multi)
		return 0;
	r = web_curl_load(&w->curl, reterr);
	if (r < 0)
		return r;
	w->multi = w->curl->multi_init();
	if (!w->multi)
		return error_set(reterr, -ENOMEM, "libcurl has no memory");
	w->curl->multi_setopt(w->multi, CU_M_MAXCONNECTS, (long)CONNECTIONS_KEPT);
	signal(SIGPIPE, SIG_IGN); /* TLS libraries write to closed connections */
	return 0;
}

static struct web_call *call_new(const struct web_request *q)
{
	struct web_call *c = xcalloc(1, sizeof(*c));

	c->most = q->answer_most ? q->answer_most : WEB_ANSWER_MOST;
	c->retry_after_ms = -1;
	c->began_ms = clock_ms();
	c->done = q->done;
	c->user = q->user;
	web_url_name(q->url, c->name, sizeof(c->name));
	if (q->body) {
		c->body = xmalloc(q->body_len);
		if (q->body_len)
			memcpy(c->body, q->body, q->body_len);
	}
	return c;
}

int web_start(struct web *w, const struct web_request *request, struct web_call **ret_call,
	      struct error *reterr)
{
	struct web_call *c;
	int r = web_url_check(request->url, reterr);

	if (r < 0)
		return r;
	if (request->n_headers > WEB_HEADERS_MOST || request->body_len > INT32_MAX)
		return error_set(reterr, -EINVAL, "more headers or bytes than a request may have");
	for (size_t i = 0; i < request->n_headers; i++)
		if (!header_fine(request->headers[i]))
			return error_set(reterr, -EINVAL, "\"%.40s\" is no header \"Name: value\"",
					 request->headers[i]);
	if (w->n >= WEB_CALLS_MOST)
		return error_set(reterr, -EAGAIN, "%u calls are under way already", WEB_CALLS_MOST);
	r = ready(w, reterr);
	if (r < 0)
		return r;
	c = call_new(request);
	r = headers_make(w->curl, request, &c->headers, reterr);
	if (r >= 0 && !(c->easy = w->curl->easy_init()))
		r = error_set(reterr, -ENOMEM, "libcurl has no memory");
	if (r >= 0) {
		set_options(w->curl, c, request);
		if (w->curl->multi_add_handle(w->multi, c->easy) != CU_OK)
			r = error_set(reterr, -EIO, "libcurl takes no call");
	}
	if (r < 0) {
		call_free(w->curl, c);
		return r;
	}
	c->next = w->calls;
	if (c->next)
		c->next->before = c;
	w->calls = c;
	w->n++;
	if (ret_call)
		*ret_call = c;
	return 0;
}

void web_cancel(struct web *w, struct web_call *call)
{
	unlink_call(w, call);
	w->curl->multi_remove_handle(w->multi, call->easy);
	call_free(w->curl, call);
}

static int error_of(int result)
{
	static const struct {
		int result, error;
	} errors[] = {
		{ CU_NO_PROTOCOL, -EINVAL },	   { CU_BAD_URL, -EINVAL },
		{ CU_NO_PROXY, -EHOSTUNREACH },	   { CU_NO_HOST, -EHOSTUNREACH },
		{ CU_TIMED_OUT, -ETIMEDOUT },	   { CU_NO_CONNECTION, -ECONNREFUSED },
		{ CU_SEND_FAILED, -ECONNRESET },   { CU_RECEIVE_FAILED, -ECONNRESET },
		{ CU_NOTHING_CAME, -ECONNRESET },  { CU_TLS_FAILED, -EPROTO },
		{ CU_BAD_CA_FILE, -EKEYREJECTED }, { CU_BAD_CERTIFICATE, -EKEYREJECTED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(errors); i++)
		if (errors[i].result == result)
			return errors[i].error;
	return -EIO;
}

/* "https://host: certificate verify failed", "https://host: 301, a redirect to .." */
static void explain(const struct web_curl *cu, const struct web_call *c, int result,
		    struct web_answer *a, char *text, size_t size)
{
	if (result != CU_OK && !(c->cut && result == CU_WRITE_FAILED)) {
		a->error = error_of(result);
		a->status = 0;
		snprintf(text, size, "%s: %s", c->name,
			 c->why[0] ? c->why : cu->easy_strerror(result));
	} else if (a->status >= 300 && a->status < 400 && c->place[0]) {
		snprintf(text, size, "%s: a redirect to %s, which is not followed: give that URL",
			 c->name, c->place);
	}
}

static void finish(struct web *w, struct web_call *c, int result)
{
	struct web_answer a = { .body = c->got.data, .len = c->got.len };
	char text[512] = "";
	long status = 0;

	w->curl->easy_getinfo(c->easy, CU_INFO_STATUS, &status);
	a.status = (int)status;
	a.cut = c->cut;
	a.retry_after_ms = c->retry_after_ms;
	a.took_ms = clock_ms() - c->began_ms;
	explain(w->curl, c, result, &a, text, sizeof(text));
	a.why = text;
	unlink_call(w, c);
	w->curl->multi_remove_handle(w->multi, c->easy);
	c->done(c->user, &a);
	call_free(w->curl, c);
}

/* How many calls ended. */
static size_t go_on(struct web *w)
{
	struct cu_message *m;
	size_t ended = 0;
	int left;

	w->curl->multi_perform(w->multi, &left);
	while ((m = w->curl->multi_info_read(w->multi, &left))) {
		struct web_call *c = NULL;
		int result = m->data.result;

		if (m->message != CU_MESSAGE_DONE)
			continue;
		w->curl->easy_getinfo(m->easy, CU_INFO_PRIVATE, &c);
		finish(w, c, result); /* m is no longer valid */
		ended++;
	}
	return ended;
}

static bool any_ready(const struct pollfd *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (files[i].revents)
			return true;
	return false;
}

void web_step(struct web *w, unsigned wait_ms, struct pollfd *files, size_t n)
{
	int64_t until = clock_ms() + wait_ms, left;

	for (size_t i = 0; i < n; i++)
		files[i].revents = 0;
	if (!w->n) {
		poll(files, (nfds_t)n, (int)MIN(wait_ms, INT32_MAX));
		return;
	}
	/* struct curl_waitfd is a pollfd, and its bits are those of Linux's poll. */
	while (!go_on(w) && (left = until - clock_ms()) > 0 && !any_ready(files, n))
		w->curl->multi_poll(w->multi, files, (unsigned)n, (int)left, NULL);
	if (n && !any_ready(files, n))
		poll(files, (nfds_t)n, 0);
}

struct web *web_free(struct web *w)
{
	if (!w)
		return NULL;
	for (struct web_call *c = w->calls, *next; c; c = next) {
		next = c->next;
		w->curl->multi_remove_handle(w->multi, c->easy);
		call_free(w->curl, c);
	}
	if (w->multi)
		w->curl->multi_cleanup(w->multi);
	free(w);
	return NULL;
}
