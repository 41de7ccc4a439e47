/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_internal.h - what the parts of the log reader share: a line as its prefixes tell of it, the
 * anchors by which lines of interest are found, and small steps through a text.
 *
 * Lines are found by words: every part gives a table of anchors, log.c looks for all of them in one
 * pass, and only a line that holds one is parsed. No line is ever told by where in a library's
 * source it was printed.
 */
#pragma once
#include "model/testimony.h"
#include "read/input.h"

#define LOG_LINE_MAX	       ((size_t)64 << 10) /* longer lines are cut here, and counted */
#define LOG_WORD_MIN	       4u		  /* shortest anchor */
#define LOG_TRACEBACKS_MAX     64u		  /* open at a time */
#define LOG_TRACEBACK_LINES    400u		  /* one that is longer is no longer waited for */
#define LOG_BARS_MAX	       64u		  /* bars of data work told apart */
#define LOG_DESYNC_REPORTS_MAX 16u		  /* taken whole; of further ones only who lags */
#define LOG_PREFIXES_MAX       12u		  /* of one line */
#define LOG_PARTIAL_MAX	       ((size_t)4096)	  /* of a known text that breaks off */
#define LOG_PARTIAL_LINES      3u		  /* in which it must be complete */
#define LOG_STEPS_APART	       3		  /* ranks in one log */
#define LOG_PAD		       ((size_t)128)	  /* readable bytes behind a text: line ends */
#define LOG_STAMPS_MAX	       4u		  /* of one line, where it may be said again */
#define LOG_TIMEOUTS_MAX       65536u		  /* waiting for the line that names their group */

/* --- steps through a text --- */

struct scan {
	const char *p, *end;
};

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}
static inline bool is_alpha(char c)
{
	char low = (char)(c | 0x20);

	return low >= 'a' && low <= 'z';
}
static inline size_t scan_left(const struct scan *s)
{
	return (size_t)(s->end - s->p);
}
/* Never negative: a word may end in the blanks that were taken off the line's end. */
static inline struct scan scan_of(const char *p, const char *end)
{
	return (struct scan){ p < end ? p : end, end };
}
static inline char to_lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}
/* Does it go on with word? Inline, so that the length of a word in the source is no work. */
static inline __attribute__((always_inline)) bool scan_at(const struct scan *s, const char *word)
{
	size_t n = strlen(word);

	return scan_left(s) >= n && !memcmp(s->p, word, n);
}
/* Steps over word if it does. */
static inline __attribute__((always_inline)) bool scan_eat(struct scan *s, const char *word)
{
	if (!scan_at(s, word))
		return false;
	s->p += strlen(word);
	return true;
}
/* The same in any case of letters; word is in lower case. */
static inline bool scan_eat_any(struct scan *s, const char *word)
{
	const char *p = s->p;

	for (; *word; p++, word++)
		if (p >= s->end || to_lower(*p) != *word)
			return false;
	s->p = p;
	return true;
}
static inline void scan_blanks(struct scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\t'))
		s->p++;
}
/* Plain digits, at most 18 of them. */
static inline bool scan_digits(struct scan *s, int64_t *ret)
{
	const char *p = s->p;
	int64_t v = 0;

	for (; p < s->end && is_digit(*p) && p - s->p < 18; p++)
		v = 10 * v + (*p - '0');
	if (p == s->p || (p < s->end && is_digit(*p)))
		return false;
	s->p = p;
	*ret = v;
	return true;
}
bool scan_to(struct scan *s, const char *word);	    /* behind the next word; else unmoved */
bool scan_to_any(struct scan *s, const char *word); /* the same in any case; word in lower case */
bool scan_int(struct scan *s, int64_t *ret);	    /* with a sign; beyond 64 bits: -1 */
bool scan_double(struct scan *s, double *ret);	    /* 1,234.5e-6, nan, inf */
/* The ranks of "[0, 1, 5-7]" or "0, 1": how many, at most max in ret. */
size_t scan_ranks(struct scan *s, int64_t *ret, size_t max);
bool text_has(const char *p, const char *end, const char *word);     /* as written */
bool text_has_any(const char *p, const char *end, const char *word); /* in any case */
/* A copy of a terminal may have its lines joined, each filled with blanks up to its width. */
bool log_joins_lines(const char *p, const char *end);

/* --- a line --- */

struct log_line {
	const char *start, *end; /* without its end and without colours */
	const char *eol;	 /* where it ends in the text */
	const char *text;	 /* behind the prefixes */
	uint64_t number;
	int64_t rank;	    /* by a prefix that is sure: [rank3]: */
	int64_t local_rank; /* [default3]: */
	int64_t pid, gpu;
	struct scan task;	       /* "3" of srun --label; p == NULL: none */
	struct scan host;	       /* p == NULL: none */
	struct scan rank_at, stamp_at; /* where rank and time_ns stand, if in digits of their own */
	int64_t time_ns;	       /* -1: none; below: see log_yearless */
	char level;		       /* 'I', 'W', 'E', 'F', 0: none said */
	bool folded;		       /* Ray's "[repeated 46x across cluster]" */
	bool ranked;		       /* [rank3]: stands in this line */
	bool told;		       /* a word of it did something already */
	bool by_value;		       /* what it is was told by more than where its digits stand */
};

/* A traceback that is under way: identified by who prints it. */
struct log_traceback {
	int64_t rank, local_rank, pid;
	uint64_t host_hash;
	enum { TB_FREE, TB_FRAMES, TB_AFTER } state;
	unsigned lines;	   /* since it began, or since its exception */
	unsigned more;	   /* tracebacks begun meanwhile by others whom no prefix tells apart */
	unsigned indent;   /* of its lines that are no frames */
	bool foreign;	   /* a tool's own, not the job's */
	bool last_error;   /* the next line is NCCL's last error */
	struct saying say; /* TB_AFTER: what will be said; its rank is the speaker's */
	char text[SAYING_TEXT_MAX];
	size_t n_text;
};

struct log_bar {
	uint64_t key; /* of its title and speaker */
	int64_t rank, done, total;
	uint64_t line, last_line, count;
	int64_t time_ns;
	uint32_t text; /* of the last */
};

struct log_timeout { /* a time-out whose group is not known yet */
	int64_t rank, local_rank, seq;
	uint32_t signature, row;
};

struct log_stamp_at {
	const char *p, *end;
	bool level; /* "E1206 18:44:12.71" */
};

/* Where progress of a kind of line is kept until it is known which kind the file is best told by.
 */
enum progress_source { FROM_LINES, FROM_BARS, FROM_ENGINE, PROGRESS_SOURCES };

struct log {
	struct testimony *t;
	struct read_stats *stats;
	struct log_words *words; /* the anchors of all parts; see log.c */
	uint64_t number;	 /* of the current line */
	bool each;		 /* no line is taken for being like another */
	struct log_line line;	 /* the one begun last, raw from here: */
	const char *line_start, *line_end;
	bool line_plain;	 /* all words of it so far were LOG_PLAIN */
	unsigned n_said;	 /* in it so far .. */
	uint32_t said;		 /* .. and the row of the last; NO_ID: it is not kept */
	bool saw_ranked;	 /* some line says [rankN]: */
	int64_t labels[2];	 /* the first of these, and one that differs; -1 */
	int64_t spawned;	 /* the process of which torch.multiprocessing.spawn .. */
	uint64_t spawned_line;	 /* .. will tell behind this line; 0 */
	int64_t step;		 /* the highest since the steps went back last; -1 */
	int64_t year;		 /* of the latest full stamp; -1 */
	int64_t day_key, day_ns; /* the date converted last */
	struct log_stamp_at stamps[LOG_STAMPS_MAX]; /* of the line whose prefixes were read last */
	unsigned n_stamps;			    /* LOG_STAMPS_MAX + 1: there are more */
	struct log_again {
		uint32_t saying; /* row of the one that was said again; NO_ID: none */
		bool counted;	 /* as an event, with its time */
		struct scan ran; /* "600012": digits that no longer matter; p == NULL: none */
	} again;
	/* c10d */
	struct {
		int64_t rank, seq;
		unsigned reports;
		uint8_t finished;
	} desync;
	struct log_timeout *timeouts; /* by hash, LOG_TIMEOUTS_MAX slots once used */
	uint32_t n_timeouts;
	struct log_missing *stall; /* NULL: none */
	/* crash */
	struct log_traceback tracebacks[LOG_TRACEBACKS_MAX];
	unsigned open;		 /* of tracebacks */
	uint64_t exception_line; /* the latest that ended one */
	struct {
		int64_t rank, local_rank, time_ns;
		uint32_t host;
		bool root;
		bool inside;
	} elastic;
	struct {
		int64_t rank, pid;
		uint32_t host;
		bool inside;
	} mpich; /* whose end is being told */
	struct log_actor {
		uint64_t line; /* where it begins; 0: none */
		int64_t pid;
		uint32_t host;
	} actor;	      /* Ray's, that died */
	uint32_t thrown;      /* type in "terminate called after throwing .." */
	bool worker_failed;   /* the launcher said that a process of its own did */
	bool step_terminated; /* srun said that it ends the step */
	/* train */
	uint8_t keys[26]; /* the first of the words beside a step, by letter, + 1; 0: none */
	struct testimony *progress[PROGRESS_SOURCES]; /* [FROM_LINES] is t */
	struct log_alike *alike; /* NULL: nothing is known yet, or the log is small */
	size_t alike_bytes;
	unsigned alike_wait; /* lines that are not looked up, since those before were not known */
	char day[11];	     /* "2026-11-29 " of the stamp read again last */
	int64_t day_year, day_at_ns;
	struct { /* a line of progress that was taken but for its rate and loss */
		const struct log_progress_shape *shape; /* NULL: none */
		const char *line;
		int64_t rank; /* if it stands in the line */
	} late;
	struct log_bar bars[LOG_BARS_MAX];
	unsigned n_bars;
	int64_t bar_total;	 /* of the first bar of steps without a title */
	struct log_inner *inner; /* NULL: no stack or table yet; raw, see log_inner.c */
	/* a known text that breaks off at a line's end */
	char *partial;
	size_t n_partial;
	uint64_t partial_number;
	unsigned partial_tries;
	bool holds;
	/* a copy of a terminal, this wide; 0: none */
	size_t wrap_width, n_joined;
	char *joined;
	uint64_t joined_number;
	bool joined_open, joined_edge; /* it goes on; it ends in one blank that may be its own */
	char *scratch;		       /* LOG_LINE_MAX and a bit: a line without its colours */
};

enum log_took {
	LOG_GO_ON, /* look at the rest of the line */
	LOG_PLAIN, /* the same; it did no more than to say what the line by itself tells */
	LOG_TOOK,  /* the line is done */
	LOG_SAID,  /* the same, and no more than LOG_PLAIN */
	LOG_AGAIN, /* the same, and all it did is to count g->again once more */
};

struct log_anchor {
	const char *word; /* found in any case, at the start of a word */
	/* l->text is known; at: where the word stands in the line. */
	enum log_took (*fn)(struct log *g, struct log_line *l, const char *at,
			    const struct log_anchor *a);
	/* What the handlers that serve several words need to know of this one. */
	enum saying_kind kind;
	const char *what;
	int64_t value;
};
extern const struct log_anchor log_c10d_anchors[], log_nccl_anchors[], log_crash_anchors[],
    log_host_anchors[], log_train_anchors[], log_save_anchors[], log_inner_anchors[],
    log_launch_anchors[], log_stall_anchors[];

/* --- log_prefix.c --- */

void log_prefix(struct log *g, struct log_line *l);
/* From the nearest [rankN]:, [E .. behind start and in front of at; text may begin mid-line. */
void log_prefix_before(struct log *g, struct log_line *l, const char *at);

/* --- log_stamp.c --- */

/* "2026-11-29 21:31:49,123", "2026-11-29_21:31:50" and their like; -1. */
bool log_stamp(struct log *g, struct scan *s, int64_t *ret_ns);
/* E1206 18:44:12.715298746, E514 07:12:09.34: the month has no leading zero in torch's. */
bool log_level_stamp(struct scan *s, char *level, int64_t *ret_ns);
/* 06-03 14:00:11 */
bool log_day_stamp(struct scan *s, int64_t *ret_ns);
/* The stamp from p to end, as one of g->stamps was read. */
bool log_stamp_again(struct log *g, const char *p, const char *end, bool level, int64_t *ret_ns);
static inline bool log_is_level(char c)
{
	return c == 'I' || c == 'W' || c == 'E' || c == 'F';
}

/* --- log_year.c --- */

#define LOG_NS_PER_DAY (86400ll * 1000000000)

/* A stamp without a year, as it is kept until the year is known: below -1. */
int64_t log_yearless(int64_t month, int64_t day, int64_t clock_ns);
/* Such a stamp in a year; -1: no year. Others stay. */
int64_t log_in_year(int64_t ns, int64_t year);

/* --- log.c --- */

/* Fills what the line's prefixes say and what is unknown in s, and says it. */
struct saying *log_say(struct log *g, const struct log_line *l, struct saying *s);
/* Does a job say this while it runs? */
bool log_goes_on(enum saying_kind k);
/* Only the filling: who, where and when. */
void log_fill(struct log *g, const struct log_line *l, struct saying *s);
/* The words from p to end as names: control characters gone, cut at SAYING_TEXT_MAX. */
uint32_t log_text(struct log *g, const char *p, const char *end);
uint32_t log_name(struct log *g, const char *s);

/* --- log_wrap.c --- */

typedef void (*log_line_fn)(struct log *g, const char *start, const char *end);
/* The width at which the lines at a file's beginning are cut; 0: they are not. */
size_t log_wrap_width(const char *buf, size_t len);
/* A line of such a copy; whole ones are given to line. */
void log_wrap_line(struct log *g, const char *p, const char *end, log_line_fn line);
void log_wrap_flush(struct log *g, log_line_fn line);
/* Keeps a line whose text breaks off for the next; false: it is no longer waited for. */
bool log_hold(struct log *g, const struct log_line *l);
bool log_hold_continues(struct log *g, const struct log_line *l, log_line_fn line);
void log_hold_done(struct log *g, log_line_fn line); /* what is held is all there is */

/* --- log_c10d.c --- */

void log_c10d_done(struct log *g);
/* "PG ID 0 PG GUID 0(default_pg) Rank 3": the last such tag in front of at. */
bool log_c10d_tag(struct log *g, const char *start, const char *at, uint32_t *group,
		  int64_t *local_rank);

/* The same as who speaks in s: the number in the default group is that in the job. */
void log_c10d_speaker(struct log *g, const char *start, const char *at, struct saying *s);

/* --- log_nccl.c --- */

void log_nccl_done(struct log *g);

/* --- log_stall.c --- */

/* Is a line of a stall's table waited for, and is this one? */
bool log_stall_waits(const struct log *g);
bool log_stall_continues(struct log *g, const struct log_line *l);
void log_stall_done(struct log *g);

/* --- log_crash.c --- */

/* Is the line part of a traceback that is open? */
bool log_crash_continues(struct log *g, struct log_line *l);
void log_crash_done(struct log *g);

/* --- log_host.c --- */

/* Words that say it all: a row's kind, what and value. */
enum log_took log_on_words(struct log *g, struct log_line *l, const char *at,
			   const struct log_anchor *a);

/* --- log_inner.c --- */

/* Is a stack or a table being read? */
bool log_inner_open(const struct log *g);
/* Is the line of what is open? */
bool log_inner_continues(struct log *g, const struct log_line *l);
/* The job goes on: what stands inside so far was not its end. g->inner is there. */
void log_inner_outdated(struct log *g);
void log_inner_done(struct log *g); /* the file's rank is known */

/* --- log_meaning.c --- */

/* What a message means: sets kind, what, value; false: nothing known. */
bool log_classify(struct log *g, const char *p, const char *end, struct saying *s);

/* --- log_rank.c --- */

/* Sets the file's rank, and with it that of all lines that name none. */
void log_rank_of_file(struct log *g, const char *path);

/* --- log_train.c --- */

void log_train_begin(struct log *g);
void log_train_done(struct log *g);
void log_progress_say(struct log *g, enum progress_source source, const struct progress_line *p);
/* What the line that was said last for this rank also says. */
void log_progress_more(struct log *g, enum progress_source source, int64_t rank,
		       double tokens_per_s, double loss);

/* Its step, from an epoch that is set and the done of total steps in it; false: beyond all count.
 */
bool progress_in_epoch(struct progress_line *p, int64_t done, int64_t total);

/* --- log_shape.c --- */

/* A line of progress and where its numbers stand; p == NULL: not there. */
struct progress_found {
	struct progress_line p;
	enum progress_source source;
	struct scan step, ms, tokens, loss; /* step: with what stands around it and the total */
	struct scan epoch;		    /* of a bar that counts the steps of one */
	double ms_scale;
	bool ms_is_rate; /* it counts steps a second */
};
struct log_place {
	uint16_t at, len; /* len 0: not there */
	uint8_t point;	  /* where its point stands, len if it has none */
	bool digits;	  /* few, and nothing but these and the point */
};

/* Where the numbers of such lines stand. */
struct log_progress_shape {
	enum progress_source source;
	struct log_place rank, stamp, step, ms, tokens, loss, epoch;
	struct log_place first, second; /* whole numbers in step; not there: it has commas */
	double ms_scale;
	bool ms_is_rate;
	bool totals; /* "10/ 500": the last number in step */
	int64_t fixed_rank;
	int64_t bar_total; /* bars of another are of something else; -1: no bar */
};
/* Can lines of this one's shape be taken by where their numbers stand? */
bool log_progress_shape(const struct log *g, const struct log_line *l,
			const struct progress_found *f, struct log_progress_shape *ret);
/* Takes such a line; what the next one would overwrite is not read before it is settled. */
bool log_progress_take(struct log *g, const struct log_progress_shape *s, const char *line,
		       uint64_t number);
void log_progress_settle(struct log *g);

/* --- log_alike.c --- */

/* So many bytes more are there to read: what is learnt in them must be less work. */
void log_alike_more(struct log *g, size_t bytes);
struct log_alike *log_alike_free(struct log_alike *a);
/* The line is known from now on: as progress, as one that says g->again once more, as an idle one
   that says nothing though it holds words. */
void log_alike_progress(struct log *g, const struct log_line *l, const struct progress_found *f);
void log_alike_again(struct log *g, const struct log_line *l);
void log_alike_idle(struct log *g, const struct log_line *l);
/* Takes a line that differs from a known one in digits only, if these are not new. */
bool log_alike_take(struct log *g, const char *start, const char *end, uint64_t number);
/* Takes lines from the one at p on. Gives the end of the last and its number; NULL: none. */
const char *log_alike_run(struct log *g, const char *p, const char *end, uint64_t *number);
/* The same from the line behind the end of one. */
const char *log_alike_behind(struct log *g, const char *eol, const char *end, uint64_t *number);
