/* SPDX-License-Identifier: Apache-2.0 */
/* web_curl.h - libcurl's multi interface, by the functions that are needed, found at run time.
   The numbers are those of curl/curl.h, which keeps its ABI; tests/test_web.c compares them. */
#pragma once
#include "base/base.h"

enum {
	CU_WRITEDATA = 10001,
	CU_URL = 10002,
	CU_ERRORBUFFER = 10010,
	CU_POSTFIELDS = 10015,
	CU_USERAGENT = 10018,
	CU_HTTPHEADER = 10023,
	CU_HEADERDATA = 10029,
	CU_CAINFO = 10065,
	CU_PRIVATE = 10103,
	CU_UNIX_SOCKET_PATH = 10231,
	CU_WRITEFUNCTION = 20011,
	CU_HEADERFUNCTION = 20079,
	CU_POSTFIELDSIZE = 60,
	CU_FRESH_CONNECT = 74,
	CU_FORBID_REUSE = 75,
	CU_HTTP_VERSION = 84,
	CU_NOSIGNAL = 99,
	CU_TIMEOUT_MS = 155,
	CU_CONNECTTIMEOUT_MS = 156,
	CU_PROTOCOLS = 181,
	CU_QUICK_EXIT = 322, /* since 7.87 */
	CU_M_MAXCONNECTS = 6,
	CU_INFO_STATUS = 0x200002,
	CU_INFO_PRIVATE = 0x100015,
	CU_INFO_OS_ERRNO = 0x200019,
	CU_PROTOCOL_HTTP = 1,
	CU_PROTOCOL_HTTPS = 2,
	CU_HTTP_1_1 = 2,
	CU_GLOBAL_ALL = 3,
	CU_MESSAGE_DONE = 1,
};
/* Outcomes of a transfer. */
enum {
	CU_OK = 0,
	CU_NO_PROTOCOL = 1,
	CU_BAD_URL = 3,
	CU_NO_PROXY = 5,
	CU_NO_HOST = 6,
	CU_NO_CONNECTION = 7,
	CU_WRITE_FAILED = 23,
	CU_TIMED_OUT = 28,
	CU_TLS_FAILED = 35,
	CU_NOTHING_CAME = 52,
	CU_SEND_FAILED = 55,
	CU_RECEIVE_FAILED = 56,
	CU_BAD_CERTIFICATE = 60,
	CU_BAD_CA_FILE = 77,
};

struct cu_message { /* CURLMsg */
	int message;
	void *easy;
	union {
		void *any;
		int result;
	} data;
};
struct cu_list;

struct web_curl {
	int (*global_init)(long);
	void *(*easy_init)(void);
	int (*easy_setopt)(void *, int, ...);
	int (*easy_getinfo)(void *, int, ...);
	void (*easy_cleanup)(void *);
	const char *(*easy_strerror)(int);
	void *(*multi_init)(void);
	int (*multi_setopt)(void *, int, ...);
	int (*multi_add_handle)(void *, void *);
	int (*multi_remove_handle)(void *, void *);
	int (*multi_perform)(void *, int *);
	int (*multi_poll)(void *, void *, unsigned, int, int *);
	struct cu_message *(*multi_info_read)(void *, int *);
	int (*multi_cleanup)(void *);
	struct cu_list *(*slist_append)(struct cu_list *, const char *);
	void (*slist_free_all)(struct cu_list *);
	long (*getdate)(const char *, const void *); /* time_t */
};

/* Loads it the first time; -ENOTSUP with detail where it is not installed. */
int web_curl_load(const struct web_curl **ret, struct error *reterr);
