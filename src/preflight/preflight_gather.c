/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_gather.c - one check of what several nodes or GPUs are at fault for in the same way:
 * the first few are in its words, all of their hosts are named.
 */
#include "preflight/preflight_inside.h"

#include <stdio.h>

#define PHRASES_SHOWN 3u

void gather(struct gathered *g, const struct preflight_node *node, char *phrase)
{
	if (g->n++ < PHRASES_SHOWN) {
		if (g->words.len)
			buf_put(&g->words, "; ", 2);
		buf_put(&g->words, node->host, strlen(node->host));
		buf_put(&g->words, ": ", 2);
		buf_put(&g->words, phrase, strlen(phrase));
	}
	free(phrase);
	if (!g->nodes.n || g->nodes.v[g->nodes.n - 1] != node)
		*vec_push(&g->nodes) = node;
}

void gathered_put(struct judging *j, struct gathered *g, enum invariant i, const char *name,
		  enum check_state state, char *well, const char *limit, const char *remedy)
{
	json_t *check;
	char more[48];

	if (!g->n) {
		if (well)
			check_put(j, i, name, CHECK_OK, well, limit, NULL);
		return;
	}
	free(well);
	if (g->n > PHRASES_SHOWN) {
		snprintf(more, sizeof(more), "; and %zu more", g->n - PHRASES_SHOWN);
		buf_put(&g->words, more, strlen(more));
	}
	buf_put(&g->words, "", 1);
	check = check_put(j, i, name, state, xstrdup((char *)g->words.data), limit, remedy);
	for (size_t k = 0; k < g->nodes.n; k++)
		check_host(check, g->nodes.v[k]);
	buf_done(&g->words);
	free(g->nodes.v);
	*g = (struct gathered){ 0 };
}
