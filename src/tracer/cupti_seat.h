/* SPDX-License-Identifier: Apache-2.0 */
/* cupti_seat.h - is CUPTI ours at present? All but lockstep_profiler() by the draining thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define SEAT_SILENT_S	10  /* without a record while steps go on: lost */
#define SEAT_WAIT_S	300 /* until it is taken again if nobody says that the other is done */
#define SEAT_WAIT_MAX_S 3600

void cupti_seat_taken(void);
void cupti_seat_saw_records(void);
bool cupti_seat_is_ours(void);
/* Once a second. A result of CUPTI's: it could not be taken again, and never will. */
int cupti_seat_watch(void);

/* cupti.c */
int cupti_take_seat(bool again);
void cupti_leave_seat(void);
