/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c - `lockstep explain [CAUSE]`: the rules by which a cause is named, from one table. */
#include "cmd/cmd.h"
#include "model/cause.h"
#include "show/page.h"

static const struct option_row explain_options[] = {
	{ 0 },
};
const struct option_spec explain_spec = {
	.command = "explain",
	.operands = "[CAUSE...]",
	.purpose = "say when a cause is named, what looks like it, and what settles it",
	.rows = explain_options,
};

static void explain_one(const struct page *page, enum cause cause)
{
	const struct cause_info *info = cause_info(cause);

	fprintf(page->out, "%s\n", info->name);
	page_text(page, PAGE_PLAIN, "  When:          ", 17, info->when);
	page_text(page, PAGE_PLAIN, "  Looks like it: ", 17, info->confused_with);
	page_text(page, PAGE_PLAIN, "  Settled by:    ", 17, info->settles);
	page_text(page, PAGE_PLAIN, "  Then:          ", 17, info->then);
}

static void explain_list(const struct page *page)
{
	char lead[32];

	for (enum cause cause = 0; cause < CAUSES; cause++) {
		snprintf(lead, sizeof(lead), "%-20s ", cause_info(cause)->name);
		page_text(page, PAGE_PLAIN, lead, 21, cause_info(cause)->when);
	}
}

static int no_such_cause(const char *word)
{
	const char *names[CAUSES], *near;

	for (enum cause cause = 0; cause < CAUSES; cause++)
		names[cause] = cause_info(cause)->name;
	near = options_nearest(word, names, CAUSES);
	if (near)
		complain("explain: no cause \"%.60s\"; did you mean \"%s\"?", word, near);
	else
		complain("explain: no cause \"%.60s\"; lockstep explain lists them", word);
	return EXIT_USAGE;
}

int explain_main(int argc, char **argv)
{
	struct page page = { .out = stdout };
	int operands, status = command_line(&explain_spec, argc, argv, NULL, &operands);

	if (status >= 0)
		return status;
	if (operands == argc)
		explain_list(&page);
	for (int i = operands; i < argc; i++) {
		enum cause cause = cause_find(argv[i]);

		if (cause == CAUSE_UNKNOWN && strcmp(argv[i], cause_info(cause)->name))
			return no_such_cause(argv[i]);
		if (i > operands)
			putchar('\n');
		explain_one(&page, cause);
	}
	return fflush(stdout) ? EXIT_CANNOT_TELL : EXIT_HEALTHY;
}
