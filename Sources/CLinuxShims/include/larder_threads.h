/// Threads, and the signals that stop the process.
#pragma once

#include <stddef.h>

/// Starts a detached thread with a name for top(1), of which at most 15 bytes are used. All threads that the process
/// starts itself are created by this function, because its result must be used: the limit of threads (RLIMIT_NPROC,
/// pids.max) may be reached at any time. `stack` is the size of the stack in bytes; 0 for the default. Returns 0, or the
/// error number of pthread_create(3); then `body` is not called.
int larder_start_thread(const char *name, size_t stack, void *(*body)(void *), void *argument)
    __attribute__((warn_unused_result));

/// Makes SIGTERM and SIGINT write to an eventfd(2) instead of ending the process. Returns the eventfd, or -1 with errno
/// set. May be called once.
int larder_catch_stop(void);
