/* SPDX-License-Identifier: Apache-2.0 */
/* small_files.h - what files and folders of /proc and /sys hold, as text, and as JSON. */
#pragma once
#include <jansson.h>

#include "base/base.h"

/* At most max bytes of it, without its last line ends; ret_len (NULL is fine) counts them too.
   NULL and errno. */
char *file_text(const char *path, size_t max, size_t *ret_len);
/* A regular file of at most max bytes as it is; NULL and errno (EFBIG, EINVAL). */
char *file_whole(const char *path, size_t max, size_t *ret_len);
/* Its names but hidden ones, at most that many, sorted, so that two readings are alike; owned. */
size_t names_in(const char *folder, char *names[], size_t most);
/* Bytes that are no UTF-8 become question marks; NULL becomes null. */
json_t *text_json(const char *s);
