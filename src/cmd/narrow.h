/* SPDX-License-Identifier: Apache-2.0 */
/* narrow.h - --ranks for hangs and crashes: all is judged, some is shown. */
#pragma once
#include "base/options.h"
#include "model/finding.h"

/* Leaves in the report where these ranks stand, and the hangs and crashes that are of them. */
void narrow_report(struct report *report, const struct option_ranks *ranks);
