/// Programs: what glibc declares under _GNU_SOURCE only.
#pragma once

#include <stdbool.h>

/// execve(2) of a program that is looked for in PATH, as execvp(3), with an environment of its own. Returns only with
/// errno set.
int larder_execvpe(const char *file, char *const *words, char *const *variables);

/// Has posix_spawn(3) close all descriptors from a number on (posix_spawn_file_actions_addclosefrom_np(3), since glibc
/// 2.34). `actions` is a posix_spawn_file_actions_t.
int larder_spawn_closes_from(void *actions, int from);

/// Makes a pipe whose ends no other program gets, not even one that another thread starts at this moment: pipe2(2) with
/// O_CLOEXEC, and with O_NONBLOCK where it is not to wait. Returns 0, or -1 with errno set.
int larder_pipe(int ends[2], bool is_nonblocking);

/// Names the calling thread, as top(1) and perf(1) show it: pthread_setname_np(3). A name over 15 bytes is cut off.
void larder_name_thread(const char *name);
