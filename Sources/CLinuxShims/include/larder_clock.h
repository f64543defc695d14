/// The kernel's clock: adjtimex(2), which Swift's Glibc module does not export.
#pragma once

/// Returns 1 if the clock is synchronized and 0 if not (adjtimex(2)); -1 with errno set on failure. Changes nothing.
int larder_clock_is_synchronized(void);
