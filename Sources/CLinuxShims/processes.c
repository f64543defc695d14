#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>

int larder_execvpe(const char *file, char *const *words, char *const *variables) {
    return execvpe(file, words, variables);
}

int larder_spawn_closes_from(void *actions, int from) {
    return posix_spawn_file_actions_addclosefrom_np(actions, from);
}

int larder_pipe(int ends[2], bool is_nonblocking) {
    return pipe2(ends, O_CLOEXEC | (is_nonblocking ? O_NONBLOCK : 0));
}

void larder_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }
