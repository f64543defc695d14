// Nearly everything is static inline in the headers.
#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// What the Swift runtime has for each signal.
static struct sigaction reported[NSIG];

static void report_and_end(int number, siginfo_t *information, void *context) {
    // It sets all of them to their defaults.
    reported[number].sa_sigaction(number, information, context);
    // Blocked until this returns; then it ends the process (sigaction(2): up to 0 it was sent by a process).
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

#include <sys/prctl.h>

void larder_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

int larder_accept(int fd) { return accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }

int larder_pipe(int ends[2], bool is_nonblocking) {
    return pipe2(ends, O_CLOEXEC | (is_nonblocking ? O_NONBLOCK : 0));
}

// Here and not in a header: linux/stat.h would give Swift a second S_ISVTX, and struct stat another module.
int larder_file_identity(
    int fd, const char *path, uint64_t *inode, int64_t *born_seconds, uint32_t *born_nanoseconds) {
    struct statx information;
    const int flags = path[0] ? 0 : AT_EMPTY_PATH;
    if (statx(fd, path, flags, STATX_INO | STATX_BTIME, &information) != 0) return -1;
    *inode = information.stx_ino;
    *born_seconds = information.stx_mask & STATX_BTIME ? information.stx_btime.tv_sec : -1;
    *born_nanoseconds = information.stx_mask & STATX_BTIME ? information.stx_btime.tv_nsec : 0;
    return 0;
}
