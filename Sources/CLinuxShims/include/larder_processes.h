/// Processes: functions that glibc declares only with _GNU_SOURCE.
#pragma once

#include <stdbool.h>

/// execvpe(3): like execve(2), but searches PATH for the program as execvp(3) does. Returns only on failure, with errno
/// set.
int larder_execvpe(const char *file, char *const *words, char *const *variables);

/// Makes posix_spawn(3) close all descriptors numbered `from` and higher (posix_spawn_file_actions_addclosefrom_np(3),
/// since glibc 2.34). `actions` is a posix_spawn_file_actions_t.
int larder_spawn_closes_from(void *actions, int from);

/// Creates a pipe whose ends no other program inherits, even if another thread starts a program at the same time:
/// pipe2(2) with O_CLOEXEC, and with O_NONBLOCK if `is_nonblocking`. Returns 0, or -1 with errno set.
int larder_pipe(int ends[2], bool is_nonblocking);

/// Names the calling thread for top(1) and perf(1): prctl(2), PR_SET_NAME. A longer name is cut off after 15 bytes.
void larder_name_thread(const char *name);
