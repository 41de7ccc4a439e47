/* SPDX-License-Identifier: Apache-2.0 */
/* print_steps.c - the step records of .lks files, a line each, for tests in Python. */
#include "store/lks.h"

#include <stdio.h>

static int print(void *user, const struct rank_info *info, const struct step *s)
{
	const struct intern *names = user;

	printf("rank=%" PRId64 " step=%" PRIu64 " start=%" PRId64 " mark=%" PRId64 " wall=%" PRId64
	       " own=%" PRId64 " flags=%u tokens=%" PRIu64 " dropped=%" PRIu64,
	       info->rank, s->number, s->start_ns, s->mark_ns, s->wall_ns, s->own_ns, s->flags,
	       s->tokens, s->dropped);
	for (int i = 0; i < OWN_PARTS; i++)
		printf(" %s=%" PRId64, own_part_name((enum own_part)i), s->own[i]);
	printf(" comm=%" PRId64 " exposed=%" PRId64 " gc=%" PRId64 " datawait=%" PRId64, s->comm_ns,
	       s->comm_exposed_ns, s->gc_ns, s->data_wait_ns);
	for (uint32_t i = 0; i < s->n_colls; i++)
		printf(" coll=%s:%" PRId64 ":%" PRIu64 ":%" PRId64 ":%" PRId64,
		       comm_op_name(s->comms[s->colls[i].comm].op), s->colls[i].seq,
		       s->colls[i].bytes, s->colls[i].start_ns, s->colls[i].end_ns);
	for (uint32_t i = 0; i < s->n_phases; i++)
		printf("\tphase=%s:%u:%" PRId64 ":%" PRId64, intern_get(names, s->phases[i].name),
		       s->phases[i].count, s->phases[i].total_ns, s->phases[i].gpu_ns);
	for (uint32_t i = 0; i < s->n_kernels; i++)
		printf("\tkernel=%s:%u:%" PRId64, intern_get(names, s->kernels[i].name),
		       s->kernels[i].count, s->kernels[i].sum_ns);
	putchar('\n');
	return 0;
}

static int print_standing(void *user, const struct rank_info *info, const struct rank_standing *s)
{
	const struct intern *names = user;

	fprintf(stderr, "standing rank=%" PRId64 " time=%" PRId64 " state=%d step=%" PRId64,
		info->rank, s->time_ns, (int)s->state, s->step);
	for (uint32_t i = 0; i < s->n_open; i++)
		fprintf(stderr, " open=%s", intern_get(names, s->open[i].name));
	for (uint32_t i = 0; i < s->n_pending; i++)
		fprintf(stderr, " pending=%s:%s:%" PRId64, intern_get(names, s->pending[i].group),
			comm_op_name(s->pending[i].op), s->pending[i].seq);
	fputc('\n', stderr);
	return 0;
}

static int print_file(const char *path)
{
	static char bytes[1 << 16];
	struct intern names = { 0 };
	struct lks_client client = {
		.user = &names, .names = &names, .step = print, .standing = print_standing
	};
	struct lks_reader *r = lks_reader_new(&client);
	struct error error = { "" };
	FILE *f = fopen(path, "rb");
	uint64_t torn, bad;
	int status = 0;
	size_t n;

	while (f && status >= 0 && (n = fread(bytes, 1, sizeof(bytes), f)))
		status = lks_reader_feed(r, bytes, n, &error);
	if (f && status >= 0 && lks_reader_end(r, &torn, &bad, &error) >= 0)
		fprintf(stderr, "torn=%" PRIu64 " bad=%" PRIu64 "\n", torn, bad);
	if (f)
		fclose(f);
	lks_reader_free(r);
	intern_done(&names);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0;

	for (int i = 1; i < argc && status >= 0; i++)
		status = print_file(argv[i]);
	return status < 0;
}
