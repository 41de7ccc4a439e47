/* SPDX-License-Identifier: Apache-2.0 */
/* agent_serve.c - the agent's page for Prometheus, and the wait in which it is asked for. */
#include "agent/agent_inside.h"
#include "base/clock.h"

#include <poll.h>

int serve_open(struct agent *a, struct error *reterr)
{
	const char *asked = a->options->listen;
	_cleanup_free_ char *own = xasprintf("%s/%s", a->options->out, AGENT_SOCKET);

	return answer_open(&a->answer, asked ? asked : own, reterr);
}

static void page_put(const void *user, struct buf *out)
{
	metrics_put(user, out);
}

/* Until somebody asks, a process is gone, or the time is over. */
void serve_wait(struct agent *a, int timeout_ms)
{
	struct pollfd *p = xcalloc(a->rings.n + 1, sizeof(*p));
	int64_t until = clock_ms() + timeout_ms, left;
	size_t n = 1;

	p[0] = (struct pollfd){ a->answer.fd, POLLIN, 0 };
	for (size_t i = 0; i < a->rings.n; i++)
		if (a->rings.v[i].pidfd >= 0)
			p[n++] = (struct pollfd){ a->rings.v[i].pidfd, POLLIN, 0 };
	while ((left = until - clock_ms()) > 0 && poll(p, n, (int)left) > 0) {
		bool gone = false;

		for (size_t i = 1; i < n; i++)
			gone |= p[i].revents != 0;
		if (gone)
			break;
		if (p[0].revents)
			answer_one(&a->answer, page_put, a);
	}
	free(p);
}

void serve_close(struct agent *a)
{
	answer_close(&a->answer);
}
