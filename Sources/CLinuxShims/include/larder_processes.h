/// Processes: functions that glibc declares only with _GNU_SOURCE.
#pragma once

#include <stdbool.h>

/// execvpe(3): like execve(2), but searches PATH for the program as execvp(3) does. Returns only on failure, with errno
/// set.
int larder_execvpe(const char *file, char *const *words, char *const *variables);

/// A program for larder_start.
typedef struct {
    /// The program and its arguments, and its environment, as for execvpe(3).
    char *const *words, *const *variables;
    /// Places in `variables` to which the child writes its process ID, each with room for 12 bytes; null at the end.
    char *const *process_ids;
    /// The signals that the program blocks, and those that get their default action: sigset_t.
    const void *blocked, *defaults;
    /// The descriptors for standard output and standard error; -1 for those of this process.
    int output, errors;
    /// Whether the program leads a new process group.
    bool leads_group;
    /// The terminal whose foreground the new process group gets; -1 for none.
    int terminal;
} larder_program;

/// Starts a program as a child. posix_spawn(3) cannot pass the process ID of the child in its environment. Returns the
/// process ID once the program runs. Returns -1 with errno set if the program cannot be run; then there is no child.
int larder_start(const larder_program *program);

/// Opens a descriptor of a child, which becomes readable when the child has ended: pidfd_open(2). Returns -1 with errno
/// set if it is not supported.
int larder_open_process(int process);

/// Makes this process the parent of orphaned descendants: prctl(2), PR_SET_CHILD_SUBREAPER. Returns 0, or -1 with errno
/// set.
int larder_adopt_orphans(void);

/// Makes posix_spawn(3) close all descriptors numbered `from` and higher (posix_spawn_file_actions_addclosefrom_np(3),
/// since glibc 2.34). `actions` is a posix_spawn_file_actions_t.
int larder_spawn_closes_from(void *actions, int from);

/// Creates a pipe whose ends no other program inherits, even if another thread starts a program at the same time:
/// pipe2(2) with O_CLOEXEC, and with O_NONBLOCK if `is_nonblocking`. Returns 0, or -1 with errno set.
int larder_pipe(int ends[2], bool is_nonblocking);

/// Names the calling thread for top(1) and perf(1): prctl(2), PR_SET_NAME. A longer name is cut off after 15 bytes.
void larder_name_thread(const char *name);
