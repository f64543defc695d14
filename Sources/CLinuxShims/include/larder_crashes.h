/// Crashes: ending by the signal that the Swift runtime reported.
#pragma once

/// Has this process end by a fatal signal that another process sent (the watchdog's SIGABRT, kill(1)), once the Swift runtime
/// has printed its backtrace. The runtime relies on the instruction that crashed to crash again; what was sent comes but
/// once, and the process would go on. Without effect where the runtime handles no crashes. Call it before there are threads.
void larder_end_by_sent_signals(void);
