/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nccl_loader.c - loads a profiler plugin and calls it as NCCL does.
 *
 *     nccl_loader PLUGIN VERSION THREADS EVENTS
 *
 * A communicator a thread, its events from that thread and their ends from another, an event beside
 * a failed init (context NULL), finalize, and dlclose with the last communicator.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/nccl_abi.h"

#define THREADS_MAX 64

static int version;
static const void *plugin;
static int events;

struct comm {
	void *context;
	uint64_t hash;
	pthread_t thread;
};

static int init(struct comm *c, int *mask)
{
	if (version < 4)
		return ((const struct nccl_plugin_3 *)plugin)->init(&c->context, mask);
	if (version == 4)
		return ((const struct nccl_plugin_4 *)plugin)
		    ->init(&c->context, mask, "world", c->hash, 1, 4, 0, NULL);
	return ((const struct nccl_plugin_5 *)plugin)
	    ->init(&c->context, c->hash, mask, "world", 1, 4, 0, NULL);
}

static void *start(const struct comm *c, int i, bool p2p)
{
	union {
		struct nccl_event_2 v2;
		struct nccl_event_3 v3;
		struct nccl_event_4 v4;
		struct nccl_event_5 v5;
	} e;
	const struct nccl_plugin_3 *p = plugin;
	const struct nccl_shape *s = &nccl_shapes[version];
	char *b = (char *)&e;
	const char *func = p2p ? "Send" : "AllReduce", *type = "ncclFloat32", *algo = "RING",
		   *name = "world";
	uint64_t count = 1024, seq = (uint64_t)i;
	void *handle = NULL;

	memset(&e, 0, sizeof(e));
	b[0] = p2p ? NCCL_EVENT_P2P : NCCL_EVENT_COLL;
	memcpy(b + (p2p ? s->p2p_func : s->coll_func), &func, 8);
	memcpy(b + (p2p ? s->p2p_count : s->coll_count), &count, 8);
	memcpy(b + (p2p ? s->p2p_type : s->coll_type), &type, 8);
	if (s->coll_name) {
		memcpy(b + (p2p ? s->p2p_name : s->coll_name), &name, 8);
		memcpy(b + (p2p ? s->p2p_hash : s->coll_hash), &c->hash, 8);
	}
	if (!p2p) {
		memcpy(b + s->coll_seq, &seq, 8);
		memcpy(b + s->coll_algo, &algo, 8);
	}
	if (p->start(c->context, &handle, &e) != NCCL_OK)
		exit(2);
	return handle;
}

static void *stop_there(void *handle)
{
	if (((const struct nccl_plugin_3 *)plugin)->stop(handle) != NCCL_OK)
		exit(3);
	return NULL;
}

static void *run(void *arg)
{
	const struct comm *c = arg;

	for (int i = 0; i < events; i++) {
		void *h = start(c, i, i % 2 == 1);
		pthread_t t;

		((const struct nccl_plugin_3 *)plugin)->state(h, 13, NULL);
		if (i % 50 == 0 && !pthread_create(&t, NULL, stop_there, h))
			pthread_join(t, NULL); /* as in a host callback of CUDA's */
		else
			stop_there(h);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct comm comms[THREADS_MAX] = { 0 }, failed = { 0 };
	int n = argc > 4 ? atoi(argv[3]) : 0, mask = 0;
	char symbol[32];
	void *library;

	if (n < 1 || n > THREADS_MAX)
		return 64;
	version = atoi(argv[2]);
	events = atoi(argv[4]);
	library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	snprintf(symbol, sizeof(symbol), "ncclProfiler_v%d", version);
	plugin = library ? dlsym(library, symbol) : NULL;
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	for (int i = 0; i < n; i++) {
		comms[i].hash = 0x1000 + (uint64_t)i;
		if (init(&comms[i], &mask) != NCCL_OK)
			return 4;
	}
	if (mask & (NCCL_EVENT_COLL | NCCL_EVENT_P2P)) {
		start(&failed, 0, false);
		for (int i = 0; i < n; i++)
			pthread_create(&comms[i].thread, NULL, run, &comms[i]);
		for (int i = 0; i < n; i++)
			pthread_join(comms[i].thread, NULL);
	}
	for (int i = 0; i < n; i++)
		((const struct nccl_plugin_3 *)plugin)->finalize(comms[i].context);
	dlclose(library);
	return 0;
}
