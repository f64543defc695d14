// The clock, the allocator, and the handling of fatal signals.
#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <malloc.h>
#include <signal.h>
#include <stddef.h>
#include <sys/timex.h>

int larder_clock_is_synchronized(void) {
    struct timex clock = {0};
    int state = adjtimex(&clock);
    if (state < 0) return -1;
    return state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0;
}

void larder_set_up_allocator(void) { mallopt(M_ARENA_MAX, 2); }

void larder_trim_memory(void) { malloc_trim(0); }

// The handlers of the Swift runtime, by signal number.
static struct sigaction reported[NSIG];

static void report_and_end(int number, siginfo_t *information, void *context) {
    // The runtime's handler reports the crash and resets the handlers of all signals to their defaults.
    reported[number].sa_sigaction(number, information, context);
    // A process sent the signal if si_code is 0 or less (sigaction(2)). The signal that raise(3) sends is blocked until
    // this function returns, and then ends the process.
    if (information->si_code <= 0) raise(number);
}

void larder_end_by_sent_signals(void) {
    static const int fatal[] = {SIGQUIT, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
    for (unsigned index = 0; index < sizeof(fatal) / sizeof(*fatal); index++) {
        struct sigaction action;
        if (sigaction(fatal[index], NULL, &action) != 0 || (action.sa_flags & SA_SIGINFO) == 0) continue;
        reported[fatal[index]] = action;
        action.sa_sigaction = report_and_end;
        sigaction(fatal[index], &action, NULL);
    }
}
