#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int larder_execvpe(const char *file, char *const *words, char *const *variables) {
    return execvpe(file, words, variables);
}

/// Writes a positive number in decimal digits, with async-signal-safe code only.
static void write_number(char *place, pid_t number) {
    char digits[12];
    int first = sizeof digits - 1;
    digits[first] = 0;
    for (; number > 0; number /= 10) digits[--first] = (char)('0' + number % 10);
    memcpy(place, digits + first, sizeof digits - (size_t)first);
}

/// Becomes the program. Runs in the child with all signals blocked. If the program cannot be run, writes the errno to
/// `report`.
_Noreturn static void become(const larder_program *program, int report) {
    // The report must not be replaced by the standard output or error of the program.
    int moved = fcntl(report, F_DUPFD_CLOEXEC, 3);
    if (moved >= 0) report = moved;
    if (program->leads_group) {
        setpgid(0, 0);
        if (program->terminal >= 0) tcsetpgrp(program->terminal, getpid());
    }
    for (char *const *place = program->process_ids; *place; place++) write_number(*place, getpid());
    if (program->output >= 0) dup2(program->output, STDOUT_FILENO);
    if (program->errors >= 0) dup2(program->errors, STDERR_FILENO);
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        if (sigismember(program->defaults, number) == 1) sigaction(number, &standard, NULL);
    }
    sigprocmask(SIG_SETMASK, program->blocked, NULL);
    execvpe(program->words[0], program->words, program->variables);
    int failure = errno;
    (void)!write(report, &failure, sizeof failure);
    _exit(127);
}

int larder_start(const larder_program *program) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    // A signal handler of this process must not run in the child.
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    // Unlike fork(2), _Fork(3) is async-signal-safe in a process with threads.
    pid_t child = _Fork();
    if (child == 0) become(program, ends[1]);
    int failure = child < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &previous, NULL);
    close(ends[1]);
    // The end of the pipe without a report means that execve(2) has closed it.
    while (child > 0 && read(ends[0], &failure, sizeof failure) < 0 && errno == EINTR) {}
    close(ends[0]);
    if (failure == 0) return child;
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
    errno = failure;
    return -1;
}

int larder_open_process(int process) { return (int)syscall(SYS_pidfd_open, process, 0); }

int larder_adopt_orphans(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

int larder_spawn_closes_from(void *actions, int from) {
    return posix_spawn_file_actions_addclosefrom_np(actions, from);
}

int larder_pipe(int ends[2], bool is_nonblocking) {
    return pipe2(ends, O_CLOEXEC | (is_nonblocking ? O_NONBLOCK : 0));
}

void larder_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
