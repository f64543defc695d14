/// Ends the process after the Swift runtime has reported a fatal signal.
#pragma once

/// Makes fatal signals that another process sends (the watchdog's SIGABRT, kill(1)) end this process after the Swift
/// runtime has printed its backtrace. After the backtrace, the runtime returns and relies on the faulting instruction
/// to crash again. A signal that another process sent arrives only once, so without this call the process would
/// continue. No effect if the runtime does not handle crashes. Must be called before other threads exist.
void larder_end_by_sent_signals(void);
