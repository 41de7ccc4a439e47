/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - the names of a step's parts. */
#include "model/step.h"

const char *own_part_name(enum own_part part)
{
	static const char *const names[OWN_PARTS] = {
		[OWN_COMPUTE] = "compute", [OWN_COPY] = "copy", [OWN_HOST] = "host",
		[OWN_DATA] = "data",	   [OWN_SAVE] = "save", [OWN_LAUNCH] = "launch",
	};

	return (unsigned)part < OWN_PARTS ? names[part] : "unknown";
}

const char *host_detail_name(enum host_detail detail)
{
	static const char *const names[HOST_DETAILS] = {
		[HOST_UNKNOWN] = "unknown", [HOST_COMPILE] = "compile", [HOST_GC] = "gc",
		[HOST_PYTHON] = "python",   [HOST_IO] = "io",		[HOST_SYNC] = "sync",
	};

	return (unsigned)detail < HOST_DETAILS ? names[detail] : "unknown";
}
