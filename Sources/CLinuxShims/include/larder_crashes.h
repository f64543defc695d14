/// Ends the process after the Swift runtime has reported a fatal signal.
#pragma once

/// Makes fatal signals that another process sends (the watchdog's SIGABRT, kill(1)) end this process after the Swift
/// runtime has printed its backtrace. The runtime relies on the faulting instruction to crash again. A signal that was
/// sent arrives only once, and without this call the process would continue. No effect if the runtime handles no
/// crashes. Must be called before other threads exist.
void larder_end_by_sent_signals(void);
