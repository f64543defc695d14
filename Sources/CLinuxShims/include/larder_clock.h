/// The kernel's clock, of which Swift's Glibc module leaves adjtimex(2) out.
#pragma once

#include <string.h>
#include <sys/timex.h>

/// Whether something keeps the clock right (adjtimex(2), which only asks here): 1 or 0, or -1 with errno set.
static inline int larder_clock_is_synchronized(void) {
    struct timex clock;
    memset(&clock, 0, sizeof(clock));
    int state = adjtimex(&clock);
    if (state < 0) return -1;
    return state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
}
