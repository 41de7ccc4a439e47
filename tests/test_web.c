/* SPDX-License-Identifier: Apache-2.0 */
/* test_web.c - servers that answer, drip, reset, redirect or say nothing: a call ends in time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "alert/web.h"
#include "alert/web_curl.h"

#if __has_include(<curl/curl.h>)
#include <curl/curl.h>
#define SAME(ours, theirs) _Static_assert((long)(ours) == (long)(theirs), #theirs)
SAME(CU_WRITEDATA, CURLOPT_WRITEDATA);
SAME(CU_URL, CURLOPT_URL);
SAME(CU_ERRORBUFFER, CURLOPT_ERRORBUFFER);
SAME(CU_POSTFIELDS, CURLOPT_POSTFIELDS);
SAME(CU_USERAGENT, CURLOPT_USERAGENT);
SAME(CU_HTTPHEADER, CURLOPT_HTTPHEADER);
SAME(CU_HEADERDATA, CURLOPT_HEADERDATA);
SAME(CU_CAINFO, CURLOPT_CAINFO);
SAME(CU_PRIVATE, CURLOPT_PRIVATE);
SAME(CU_UNIX_SOCKET_PATH, CURLOPT_UNIX_SOCKET_PATH);
SAME(CU_WRITEFUNCTION, CURLOPT_WRITEFUNCTION);
SAME(CU_HEADERFUNCTION, CURLOPT_HEADERFUNCTION);
SAME(CU_POSTFIELDSIZE, CURLOPT_POSTFIELDSIZE);
SAME(CU_FRESH_CONNECT, CURLOPT_FRESH_CONNECT);
SAME(CU_FORBID_REUSE, CURLOPT_FORBID_REUSE);
SAME(CU_HTTP_VERSION, CURLOPT_HTTP_VERSION);
SAME(CU_NOSIGNAL, CURLOPT_NOSIGNAL);
SAME(CU_TIMEOUT_MS, CURLOPT_TIMEOUT_MS);
SAME(CU_CONNECTTIMEOUT_MS, CURLOPT_CONNECTTIMEOUT_MS);
#if LIBCURL_VERSION_NUM >= 0x075700
SAME(CU_QUICK_EXIT, CURLOPT_QUICK_EXIT);
#endif
SAME(CU_M_MAXCONNECTS, CURLMOPT_MAXCONNECTS);
SAME(CU_INFO_STATUS, CURLINFO_RESPONSE_CODE);
SAME(CU_INFO_PRIVATE, CURLINFO_PRIVATE);
SAME(CU_PROTOCOL_HTTP, CURLPROTO_HTTP);
SAME(CU_PROTOCOL_HTTPS, CURLPROTO_HTTPS);
SAME(CU_HTTP_1_1, CURL_HTTP_VERSION_1_1);
SAME(CU_GLOBAL_ALL, CURL_GLOBAL_ALL);
SAME(CU_MESSAGE_DONE, CURLMSG_DONE);
SAME(CU_NO_PROTOCOL, CURLE_UNSUPPORTED_PROTOCOL);
SAME(CU_BAD_URL, CURLE_URL_MALFORMAT);
SAME(CU_NO_PROXY, CURLE_COULDNT_RESOLVE_PROXY);
SAME(CU_NO_HOST, CURLE_COULDNT_RESOLVE_HOST);
SAME(CU_NO_CONNECTION, CURLE_COULDNT_CONNECT);
SAME(CU_WRITE_FAILED, CURLE_WRITE_ERROR);
SAME(CU_TIMED_OUT, CURLE_OPERATION_TIMEDOUT);
SAME(CU_TLS_FAILED, CURLE_SSL_CONNECT_ERROR);
SAME(CU_NOTHING_CAME, CURLE_GOT_NOTHING);
SAME(CU_SEND_FAILED, CURLE_SEND_ERROR);
SAME(CU_RECEIVE_FAILED, CURLE_RECV_ERROR);
SAME(CU_BAD_CERTIFICATE, CURLE_PEER_FAILED_VERIFICATION);
SAME(CU_BAD_CA_FILE, CURLE_SSL_CACERT_BADFILE);
_Static_assert(sizeof(struct cu_message) == sizeof(CURLMsg), "CURLMsg");
_Static_assert(offsetof(struct cu_message, data) == offsetof(CURLMsg, data), "CURLMsg.data");
_Static_assert(sizeof(struct pollfd) == sizeof(struct curl_waitfd), "curl_waitfd");
_Static_assert(CURL_WAIT_POLLIN == POLLIN && CURL_WAIT_POLLOUT == POLLOUT, "its bits");
#endif

/* --- a server, one process a connection --- */

static char base[64], unix_path[64];
static pid_t server;

static void say(int fd, const char *text)
{
	send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void drip(int fd)
{
	say(fd, "HTTP/1.1 200 OK\r\n\r\n");
	for (;;) {
		say(fd, "x");
		usleep(20000);
	}
}

static void pour(int fd)
{
	char block[4096];

	memset(block, 'y', sizeof(block));
	say(fd, "HTTP/1.1 200 OK\r\n\r\n");
	while (send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0)
		;
}

static void heap_headers(int fd)
{
	say(fd, "HTTP/1.1 200 OK\r\n");
	while (send(fd, "X-Another: header\r\n", 19, MSG_NOSIGNAL) > 0)
		;
}

static void reset(int fd)
{
	struct linger hard = { 1, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static void never(int fd)
{
	(void)fd;
	pause();
}

/* What was asked is the answer's body. */
static void echo(int fd, const char *asked)
{
	char head[128];

	snprintf(head, sizeof(head), "HTTP/1.1 201 Created\r\nContent-Length: %zu\r\n\r\n",
		 strlen(asked));
	say(fd, head);
	say(fd, asked);
}

static void serve(int fd)
{
	static const struct {
		const char *path, *answer;
	} fixed[] = {
		{ "/later",
		  "HTTP/1.1 429 Slow down\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n" },
		{ "/huge", "HTTP/1.1 503 x\r\nretry-after: 99999999999999999999\r\nContent-Length: "
			   "0\r\n\r\n" },
		{ "/odd", "HTTP/1.1 503 x\r\nRetry-After: soon\r\nContent-Length: 0\r\n\r\n" },
		{ "/past", "HTTP/1.1 503 x\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
			   "Content-Length: 0\r\n\r\n" },
		{ "/moved", "HTTP/1.1 301 x\r\nLocation: https://u:p@other.example/secret/path\r\n"
			    "Content-Length: 0\r\n\r\n" },
		{ "/file", "HTTP/1.1 302 x\r\nLocation: file:///etc/passwd\r\n"
			   "Content-Length: 0\r\n\r\n" },
		{ "/noise", "\x01\x02\x03 no HTTP\r\n\r\n" },
	};
	static const struct {
		const char *path;
		void (*act)(int fd);
	} acts[] = { { "/drip", drip },
		     { "/pour", pour },
		     { "/heap", heap_headers },
		     { "/reset", reset },
		     { "/never", never } };
	char asked[65536], *path;
	ssize_t n = recv(fd, asked, sizeof(asked) - 1, 0);

	asked[MAX(n, 0)] = '\0';
	path = strchr(asked, ' ');
	path = path ? path + 1 : asked;
	for (size_t i = 0; i < ARRAY_SIZE(fixed); i++)
		if (!strncmp(path, fixed[i].path, strlen(fixed[i].path)))
			say(fd, fixed[i].answer);
	for (size_t i = 0; i < ARRAY_SIZE(acts); i++)
		if (!strncmp(path, acts[i].path, strlen(acts[i].path)))
			acts[i].act(fd);
	if (!strncmp(path, "/echo", 5))
		echo(fd, asked);
	close(fd);
	_exit(0);
}

static _Noreturn void serve_all(int tcp, int local)
{
	struct pollfd p[2] = { { tcp, POLLIN, 0 }, { local, POLLIN, 0 } };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		poll(p, 2, -1);
		for (int i = 0; i < 2; i++) {
			int fd = p[i].revents ? accept(p[i].fd, NULL, NULL) : -1;

			if (fd >= 0 && fork() == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				serve(fd);
			}
			if (fd >= 0)
				close(fd);
		}
	}
}

static int set_up(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(at);
	int tcp = socket(AF_INET, SOCK_STREAM, 0), local = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)state;
	setenv("no_proxy", "*", 1);
	snprintf(unix_path, sizeof(unix_path), "/tmp/lockstep-test-web.%d", (int)getpid());
	strcpy(here.sun_path, unix_path);
	if (bind(tcp, (struct sockaddr *)&at, sizeof(at)) || listen(tcp, 128) ||
	    getsockname(tcp, (struct sockaddr *)&at, &len) ||
	    bind(local, (struct sockaddr *)&here, sizeof(here)) || listen(local, 16))
		return -1;
	snprintf(base, sizeof(base), "http://127.0.0.1:%d", ntohs(at.sin_port));
	server = fork();
	if (server == 0)
		serve_all(tcp, local);
	close(tcp);
	close(local);
	return server < 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(unix_path);
	kill(server, SIGKILL);
	return waitpid(server, NULL, 0) != server;
}

/* --- calls --- */

struct heard {
	int calls, status, error;
	bool cut;
	int64_t retry_after_ms, took_ms;
	size_t len;
	char body[4096], why[512];
};

static void hear(void *user, const struct web_answer *a)
{
	struct heard *h = user;

	h->calls++;
	h->status = a->status;
	h->error = a->error;
	h->cut = a->cut;
	h->retry_after_ms = a->retry_after_ms;
	h->took_ms = a->took_ms;
	h->len = a->len;
	memcpy(h->body, a->body ? a->body : (const uint8_t *)"", MIN(a->len, sizeof(h->body) - 1));
	snprintf(h->why, sizeof(h->why), "%s", a->why);
}

static struct heard ask_with(struct web_request q, const char *path)
{
	_cleanup_free_ char *url = xasprintf("%s%s", *path == '/' ? base : "", path);
	struct web *w = web_new();
	struct heard h = { 0 };
	struct error e;

	q.url = url;
	q.done = hear;
	q.user = &h;
	if (web_start(w, &q, NULL, &e) < 0)
		fail_msg("%s", e.text);
	for (int i = 0; i < 100 && web_busy(w); i++)
		web_step(w, 100, NULL, 0);
	assert_int_equal(web_busy(w), 0);
	assert_int_equal(h.calls, 1);
	web_free(w);
	return h;
}

static struct heard ask(const char *path)
{
	return ask_with((struct web_request){ .deadline_ms = 300 }, path);
}

static void a_post_arrives_with_its_headers_and_token(void **state)
{
	const char *headers[] = { "X-Key: 17", "Content-Type: application/json" };
	char token[] = "/tmp/lockstep-test-token.XXXXXX";
	int fd = mkstemp(token);
	struct web_request q = { .body = "{\"a\":1}",
				 .body_len = 7,
				 .headers = headers,
				 .n_headers = 2,
				 .token_file = token };
	struct heard h;

	(void)state;
	assert_int_equal(write(fd, "s3same \nmore\n", 13), 13);
	h = ask_with(q, "/echo");
	close(fd);
	unlink(token);
	assert_int_equal(h.status, 201);
	assert_int_equal(h.error, 0);
	assert_non_null(strstr(h.body, "POST /echo HTTP/1.1\r\n"));
	assert_non_null(strstr(h.body, "X-Key: 17\r\n"));
	assert_non_null(strstr(h.body, "Authorization: Bearer s3same\r\n"));
	assert_non_null(strstr(h.body, "\r\n\r\n{\"a\":1}"));
}

static void a_unix_socket_is_asked_for_a_path(void **state)
{
	_cleanup_free_ char *url = xasprintf("unix:%s:/echo?x=1", unix_path);
	struct heard h = ask(url);

	(void)state;
	assert_int_equal(h.status, 201);
	assert_non_null(strstr(h.body, "GET /echo?x=1 HTTP/1.1\r\n"));
}

static void whoever_never_answers_or_drips_is_left_at_the_deadline(void **state)
{
	const char *paths[] = { "/never", "/drip" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct heard h = ask(paths[i]);

		assert_int_equal(h.error, -ETIMEDOUT);
		assert_int_equal(h.status, 0);
		assert_in_range(h.took_ms, 290, 3000);
	}
}

static void endless_answers_are_cut(void **state)
{
	struct heard h = ask_with((struct web_request){ .answer_most = 100000 }, "/pour");

	(void)state;
	assert_int_equal(h.error, 0);
	assert_int_equal(h.status, 200);
	assert_true(h.cut);
	assert_int_equal(h.len, 100000);
}

static void failures_have_their_errors(void **state)
{
	struct heard h = ask("/reset");

	(void)state;
	assert_int_equal(h.error, -ECONNRESET);
	h = ask("http://127.0.0.1:1/secret");
	assert_int_equal(h.error, -ECONNREFUSED);
	assert_null(strstr(h.why, "secret"));
	h = ask("unix:/nowhere/at/all");
	assert_int_equal(h.error, -ECONNREFUSED);
	h = ask_with((struct web_request){ .deadline_ms = 20000 }, "/heap");
	assert_int_equal(h.error, -EIO);
	assert_in_range(h.took_ms, 0, 10000);
	h = ask("/noise");
	assert_true(h.error < 0);
}

static void redirects_are_told_and_not_followed(void **state)
{
	struct heard h = ask("/moved");

	(void)state;
	assert_int_equal(h.status, 301);
	assert_non_null(strstr(h.why, "a redirect to https://other.example,"));
	assert_null(strstr(h.why, "secret"));
	h = ask("/file");
	assert_int_equal(h.status, 302);
	assert_int_equal(h.len, 0);
}

static void retry_after_is_seconds_or_a_date_within_a_day(void **state)
{
	(void)state;
	assert_int_equal(ask("/later").retry_after_ms, 120000);
	assert_int_equal(ask("/huge").retry_after_ms, WEB_RETRY_AFTER_MS);
	assert_int_equal(ask("/odd").retry_after_ms, -1);
	assert_int_equal(ask("/past").retry_after_ms, 0);
	assert_int_equal(ask("/echo").retry_after_ms, -1);
}

static void many_wait_together(void **state)
{
	static struct heard heard[64];
	struct web *w = web_new();
	_cleanup_free_ char *slow = xasprintf("%s/never", base);
	_cleanup_free_ char *fast = xasprintf("%s/echo", base);
	int64_t most = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(heard); i++) {
		struct web_request q = { .url = i % 2 ? slow : fast,
					 .deadline_ms = 1000,
					 .done = hear,
					 .user = &heard[i] };

		assert_int_equal(web_start(w, &q, NULL, NULL), 0);
	}
	while (web_busy(w))
		web_step(w, 1000, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(heard); i++) {
		assert_int_equal(heard[i].calls, 1);
		assert_int_equal(heard[i].error, i % 2 ? -ETIMEDOUT : 0);
		most = MAX(most, heard[i].took_ms);
	}
	assert_in_range(most, 990, 8000); /* and not 32 times as long */
	web_free(w);
}

static void cancelled_calls_say_nothing(void **state)
{
	_cleanup_free_ char *url = xasprintf("%s/never", base);
	struct heard h = { 0 };
	struct web *w = web_new();
	struct web_request q = { .url = url, .done = hear, .user = &h };
	struct web_call *c;

	(void)state;
	assert_int_equal(web_start(w, &q, &c, NULL), 0);
	assert_int_equal(web_start(w, &q, NULL, NULL), 0);
	web_step(w, 20, NULL, 0);
	web_cancel(w, c);
	assert_int_equal(web_busy(w), 1);
	web_free(w);
	assert_int_equal(h.calls, 0);
}

static void files_of_the_caller_end_the_wait(void **state)
{
	_cleanup_free_ char *url = xasprintf("%s/never", base);
	struct heard h = { 0 };
	struct web *w = web_new();
	struct web_request q = { .url = url, .done = hear, .user = &h };
	int ends[2];
	struct timespec a, b;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	for (int round = 0; round < 2; round++) { /* without a call, and with one */
		struct pollfd p = { ends[0], POLLIN, 0 };

		assert_int_equal(write(ends[1], "x", 1), 1);
		clock_gettime(CLOCK_MONOTONIC, &a);
		web_step(w, 5000, &p, 1);
		clock_gettime(CLOCK_MONOTONIC, &b);
		assert_int_equal(p.revents, POLLIN);
		assert_in_range(b.tv_sec - a.tv_sec, 0, 3);
		assert_int_equal(read(ends[0], &(char){ 0 }, 1), 1);
		assert_int_equal(web_start(w, &q, NULL, NULL), 0);
	}
	web_free(w);
	close(ends[0]);
	close(ends[1]);
}

static void what_can_never_work_is_refused(void **state)
{
	const char *urls[] = {
		"",	    "ftp://a/b",    "file:///etc/passwd", "http://",	      "http:///x",
		"unix:rel", "http://a/b c", "http://a/\r\nX: y",  "hooks.example.com"
	};
	const char *headers[] = { "no header", "A: b\r\nC: d" };
	struct web *w = web_new();
	struct error e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
		assert_int_equal(web_url_check(urls[i], &e), -EINVAL);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		struct web_request q = { .url = base, .headers = &headers[i], .n_headers = 1 };

		assert_int_equal(web_start(w, &q, NULL, &e), -EINVAL);
	}
	assert_int_equal(web_url_check("HTTPS://h:443/x", &e), 0);
	assert_int_equal(web_url_check("http://u:p@[::1]:80", &e), 0);
	assert_int_equal(web_busy(w), 0);
	web_free(w);
}

static void names_of_urls_show_no_secrets(void **state)
{
	char name[64];

	(void)state;
	web_url_name("https://me:word@hooks.example.com:8443/services/T0/B0/secret?x=y", name,
		     sizeof(name));
	assert_string_equal(name, "https://hooks.example.com:8443");
	web_url_name("unix:/run/a.sock:/metrics", name, sizeof(name));
	assert_string_equal(name, "unix:/run/a.sock:/metrics");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_post_arrives_with_its_headers_and_token),
		cmocka_unit_test(a_unix_socket_is_asked_for_a_path),
		cmocka_unit_test(whoever_never_answers_or_drips_is_left_at_the_deadline),
		cmocka_unit_test(endless_answers_are_cut),
		cmocka_unit_test(failures_have_their_errors),
		cmocka_unit_test(redirects_are_told_and_not_followed),
		cmocka_unit_test(retry_after_is_seconds_or_a_date_within_a_day),
		cmocka_unit_test(many_wait_together),
		cmocka_unit_test(cancelled_calls_say_nothing),
		cmocka_unit_test(files_of_the_caller_end_the_wait),
		cmocka_unit_test(what_can_never_work_is_refused),
		cmocka_unit_test(names_of_urls_show_no_secrets),
	};
	struct error e;
	const struct web_curl *cu;

	if (web_curl_load(&cu, &e) < 0) {
		printf("skipped: %s\n", e.text);
		return 77;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
