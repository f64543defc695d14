/// The kernel's clock, of which Swift's Glibc module leaves adjtimex(2) out.
#pragma once

/// Whether the clock is synchronized (adjtimex(2), which only reads here): 1 or 0, or -1 with errno set.
int larder_clock_is_synchronized(void);
