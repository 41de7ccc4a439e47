/* SPDX-License-Identifier: Apache-2.0 */
/*
 * line_shapes.h - shapes of lines that were met, and what is kept of each.
 *
 * The shape of a line is its bytes with every digit made a 0. The memory is bounded: when there is
 * no more room all is forgotten, and learnt anew.
 */
#pragma once
#include "base/base.h"

#define SHAPE_LEN_MAX ((size_t)2048)

struct line_shape {
	const char *text;
	void *kept;	  /* what its user keeps of it; NULL: nothing */
	uint32_t tag;	  /* of its hash */
	uint16_t len;	  /* 0: free */
	uint16_t next[2]; /* index of those of the lines behind it, the last first; 0: none yet */
	uint8_t kind;	  /* its user's */
	bool met_again;	  /* its user's */
};
struct line_shapes;

/* Never NULL; free gives NULL. */
struct line_shapes *line_shapes_new(void);
struct line_shapes *line_shapes_free(struct line_shapes *s);
/* NULL: it is not known. The line has 1 to SHAPE_LEN_MAX bytes here and below, and LOG_PAD more can
   be read. */
struct line_shape *line_shapes_find(struct line_shapes *s, const char *line, size_t len);
/*
 * The line's own from now on, with bytes kept for it, all 0; what was kept of it is gone. Where
 * there was no room all else is gone as well.
 */
struct line_shape *line_shapes_add(struct line_shapes *s, const char *line, size_t len,
				   size_t bytes);
/* The line at p, if it is of one of two shapes that stood behind the last one noted. */
struct line_shape *line_shapes_next(struct line_shapes *s, const char *p, const char *end);
/* It was met. */
void line_shapes_note(struct line_shapes *s, struct line_shape *shape);
