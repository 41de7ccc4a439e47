/* SPDX-License-Identifier: Apache-2.0 */
/* standing_witness.h - what the agent saw of where a rank stood, as the testimonies of a hang. */
#pragma once
#include "model/rank_standing.h"
#include "model/step.h"
#include "model/testimony.h"

/* As a dump of the rank: what it waits in, what it did last. Names are of *names. */
struct testimony *standing_dump(const struct rank_standing *s, const struct rank_info *info,
				const struct intern *names);
/* That its process is gone, and in what it was. */
struct testimony *standing_exit(const struct rank_standing *s, const struct rank_info *info,
				const struct intern *names);
