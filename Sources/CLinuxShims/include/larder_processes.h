/// Programs: what glibc declares under _GNU_SOURCE only.
#pragma once

#include <unistd.h>

/// execve(2) of a program that is looked for in PATH, as execvp(3), with an environment of its own. Returns only with
/// errno set.
static inline int larder_execvpe(const char *file, char *const *words, char *const *variables) {
    extern int execvpe(const char *, char *const[], char *const[]);
    return execvpe(file, words, variables);
}
