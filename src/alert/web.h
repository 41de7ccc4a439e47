/* SPDX-License-Identifier: Apache-2.0 */
/*
 * web.h - asks HTTP servers, many at once, without ever waiting for one of them.
 *
 * A call has a deadline from its start to the last byte, and takes at most so many bytes of an
 * answer; then it is over, whatever the server does. Certificates are verified. Redirects are never
 * followed: what is sent goes where the user said, or nowhere. libcurl does the work, loaded when
 * the first call begins. One thread uses a struct web; answers come out of web_step.
 */
#pragma once
#include <poll.h>

#include "base/base.h"

#define WEB_ANSWER_MOST	   (8u << 20)
#define WEB_DEADLINE_MS	   10000u
#define WEB_URL_MOST	   4096u
#define WEB_HEADERS_MOST   32u
#define WEB_CALLS_MOST	   256u		      /* under way; more are refused with -EAGAIN */
#define WEB_TOKEN_MOST	   8192u	      /* bytes of a token file */
#define WEB_RETRY_AFTER_MS (24 * 3600 * 1000) /* a server cannot put us off for longer */

struct web;
struct web_call;

struct web_answer {
	int status;	 /* HTTP's; 0: none came, and error and why say why not */
	int error;	 /* 0 or a negative errno: -ETIMEDOUT, -ECONNREFUSED, .. */
	const char *why; /* for people: of the error, or of a redirect; never has the whole URL */
	const uint8_t *body; /* valid in the callback only */
	size_t len;
	bool cut;		/* there was more than answer_most */
	int64_t retry_after_ms; /* from now; -1: the server did not say */
	int64_t took_ms;
};

struct web_request {
	const char *url;  /* http:, https:, or unix:/the/socket[:/path] */
	const char *body; /* POSTed; NULL: GET */
	size_t body_len;
	const char *const *headers; /* "Name: value" */
	size_t n_headers;
	const char *ca_file;	/* trusted instead of the system's; NULL */
	const char *token_file; /* its first line goes out as bearer token, read at each call */
	unsigned deadline_ms;	/* 0: WEB_DEADLINE_MS */
	size_t answer_most;	/* 0: WEB_ANSWER_MOST */
	/* Called once, from web_step, unless the call is cancelled; may begin other calls. */
	void (*done)(void *user, const struct web_answer *answer);
	void *user;
};

struct web *web_new(void);
/* Everything is copied. ret_call (may be NULL) is valid until done is called. -EINVAL for what can
   never work, -ENOTSUP without libcurl, other errors may pass. */
int web_start(struct web *w, const struct web_request *request, struct web_call **ret_call,
	      struct error *reterr);
void web_cancel(struct web *w, struct web_call *call); /* its done is not called */
size_t web_busy(const struct web *w);		       /* calls under way */
/* Goes on with all calls; returns when one is done, one of the caller's own n files is ready (its
   revents say which), or wait_ms are over. Without calls it waits for the files only. */
void web_step(struct web *w, unsigned wait_ms, struct pollfd *files, size_t n);
struct web *web_free(struct web *w); /* cancels what is under way; NULL is fine; returns NULL */

/* Is it a URL that web_start would take? -EINVAL with detail. */
int web_url_check(const char *url, struct error *reterr);
/* "https://hooks.example.com": the part of a URL that may be shown; paths may be secrets. */
void web_url_name(const char *url, char *ret, size_t size);
