/* SPDX-License-Identifier: Apache-2.0 */
/* agent_inside.h - what the files of the agent share. */
#pragma once
#include "base/answer.h"
#include "agent/agent.h"
#include "agent/process.h"
#include "agent/ring_rank.h"

#define AGENT_RINGS_MOST 4096u
#define AGENT_PHASES	 16u /* of the last step, shown in the metrics */

struct shown_phase {
	char name[64];
	int64_t ns;
};
/* What the metrics show of a rank: numbers of its last step. */
struct shown {
	uint64_t steps;
	uint64_t step;
	int64_t wall_ns, own_ns, comm_wait_ns, data_wait_ns, gc_ns;
	char longest[96]; /* the kernel, or phase, with most time */
	int64_t longest_ns;
	struct shown_phase phases[AGENT_PHASES];
	unsigned n_phases;
};

/* A ring that was found. */
struct followed {
	size_t place; /* of its folder */
	char *name;
	uint64_t device, inode;
	struct rank_live *live; /* NULL: it is left alone */
	pid_t pid;		/* in our namespace; 0: not looked for */
	int pidfd;		/* ready when it is gone; -1 */
	bool gone, said_off;
	struct recording *recording; /* NULL: no step yet */
	size_t who;
	int64_t last_step, last_end; /* that is in the file; last_step -1: none */
	int64_t next_step, next_end; /* .. once the file is flushed */
	bool done, told;
	int64_t gone_at;
	struct shown shown;
};

struct place {
	char *path; /* for people */
	int fd;
	uint64_t device, inode;
};

struct agent_recording {
	struct recording *r;
	int64_t gone_at; /* when its first process was gone in the middle of something; 0 */
	int64_t standings_at;
};

enum agent_trouble {
	TROUBLE_VERSION, /* rings of another major version */
	TROUBLE_RING,	 /* rings that contradict themselves */
	TROUBLE_FOREIGN, /* folders or rings whose owner is not to be trusted */
	TROUBLE_WRITE,	 /* records that could not be written */
	TROUBLES
};

struct remembered {
	char *name, *segment;
	uint32_t row;
	int64_t last_step;
	struct rank_count count;
	uint32_t n_cursors;
	uint64_t cursor[RING_READ_SLOTS];
};

struct agent {
	const struct agent_options *options;
	int out, lock, traces;
	VEC(struct place) places;
	VEC(struct followed) rings;
	VEC(struct agent_recording) recordings;
	struct fold_scratch *scratch;
	uint64_t trouble[TROUBLES];
	uint64_t steps, lost_of_gone;
	int64_t scanned, saved, started;
	struct answer answer;
	bool dirty;
	/* from the state of the one before */
	VEC(struct remembered) remembered;
};

/* agent.c */
void agent_recording_of(struct agent *a, struct followed *f);
/* agent_standing.c */
/* last: there is no later look. */
void standings_look(struct agent *a, int64_t now, bool last);
/* agent_find.c */
/* Rings that are new; folders: also folders that are new, which costs more. */
void agent_scan(struct agent *a, bool folders);
/* agent_state.c */
void state_load(struct agent *a);
void state_apply(struct agent *a, struct followed *f);
int state_save(struct agent *a, struct error *reterr);
/* agent_metrics.c */
void metrics_note(struct followed *f, const struct step *s, const struct intern *names);
void metrics_put(const struct agent *a, struct buf *out);
/* agent_serve.c */
int serve_open(struct agent *a, struct error *reterr);
void serve_wait(struct agent *a, int timeout_ms);
void serve_close(struct agent *a);
