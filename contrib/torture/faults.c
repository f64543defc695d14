// Makes one call of the C library fail. The library is loaded into the agent with LD_PRELOAD and configured by environment
// variables:
//
//   LARDER_FAULT_PATHS   directories, separated by colons; only calls on files in them are counted and can fail
//   LARDER_FAULT_CALL    the kind of call: open, read, write, fsync, rename, ...; see the kinds below
//   LARDER_FAULT_NUMBER  the number of the call that fails, from 1; 0 for none; "odd" for the first, third, fifth ... of
//                        all calls that a signal may interrupt
//   LARDER_FAULT_EXCEPT  a text; calls on paths that contain it are ignored
//   LARDER_FAULT_ERROR   the error number of the failure; 0 for a write of half of the data
//   LARDER_FAULT_LOG     a file to which each call is appended as a line: kind, path, and "failed" if it failed
//
// strace(1) can inject faults too, but it counts the calls of each thread separately, and any thread of a pool may make a
// call. With this library, the seventh fsync is the same call in each run. All calls of the agent and of SQLite go through
// the C library: syscalls.py compares the calls that this library counts with those that strace sees.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char paths[8][PATH_MAX];
static int pathCount;
static const char *wanted = "";
static const char *except;
static int number, failure, isOdd;
static int logFile = -1;
static atomic_int calls;

__attribute__((constructor)) static void prepare(void) {
    const char *list = getenv("LARDER_FAULT_PATHS");
    while (list && *list && pathCount < 8) {
        size_t length = strcspn(list, ":");
        if (length > 0 && length < PATH_MAX) memcpy(paths[pathCount++], list, length);
        list += length + (list[length] == ':');
    }
    if (getenv("LARDER_FAULT_CALL")) wanted = strdup(getenv("LARDER_FAULT_CALL"));
    if (getenv("LARDER_FAULT_EXCEPT")) except = strdup(getenv("LARDER_FAULT_EXCEPT"));
    const char *which = getenv("LARDER_FAULT_NUMBER");
    if (which) isOdd = strcmp(which, "odd") == 0, number = atoi(which);
    if (getenv("LARDER_FAULT_ERROR")) failure = atoi(getenv("LARDER_FAULT_ERROR"));
    const char *log = getenv("LARDER_FAULT_LOG");
    if (log) logFile = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int isSelected(const char *path) {
    if (except && strstr(path, except)) return 0;
    for (int index = 0; index < pathCount; index++) {
        size_t length = strlen(paths[index]);
        if (strncmp(path, paths[index], length) == 0 && (path[length] == '/' || path[length] == 0)) return 1;
    }
    return 0;
}

// Writes the path of a descriptor into `name`, or an empty string if the path is not known.
static void pathOf(int descriptor, char *name, size_t size) {
    char link[64];
    if (descriptor == AT_FDCWD)
        strcpy(link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, name, size - 1);
    name[length > 0 ? length : 0] = 0;
}

static int mayBeInterrupted(const char *kind) {
    return strcmp(kind, "close") != 0 && strcmp(kind, "list") != 0 && strcmp(kind, "stat") != 0;
}

// Counts and logs a call. Returns 1 if it must fail. May change errno.
static int failsAt(const char *kind, const char *path) {
    if (pathCount == 0 || !isSelected(path)) return 0;
    // With "odd", a call is interrupted and its repetition, which has an even number, succeeds. If another thread makes a call
    // between the two, the repetition may be interrupted again, and a later one succeeds.
    int fails = isOdd ? mayBeInterrupted(kind) && atomic_fetch_add(&calls, 1) % 2 == 0
                      : strcmp(kind, wanted) == 0 && atomic_fetch_add(&calls, 1) + 1 == number;
    if (logFile >= 0) {
        char line[PATH_MAX + 64];
        int length = snprintf(line, sizeof line, "%s %s%s\n", kind, path, fails ? " failed" : "");
        syscall(SYS_write, logFile, line, (size_t)length);
    }
    return fails;
}

// Like failsAt, for a descriptor. Preserves errno.
static int failsOn(const char *kind, int descriptor) {
    int saved = errno;
    char name[PATH_MAX];
    pathOf(descriptor, name, sizeof name);
    int result = failsAt(kind, name);
    errno = saved;
    return result;
}

// Like failsAt, for a path relative to a directory. Preserves errno.
static int failsIn(const char *kind, int directory, const char *path) {
    int saved = errno;
    char name[2 * PATH_MAX + 2];
    if (path[0] == '/') {
        snprintf(name, sizeof name, "%s", path);
    } else {
        pathOf(directory, name, PATH_MAX);
        size_t length = strlen(name);
        snprintf(name + length, sizeof name - length, "/%s", path);
    }
    int result = failsAt(kind, name);
    errno = saved;
    return result;
}

// On 64-bit machines, the functions with large offsets are the same as those without.
#define ALIAS(name, same) __asm__(".globl " #name "\n.set " #name ", " #same);
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL_IF(condition, result) \
    if (condition) {               \
        errno = failure;           \
        return result;             \
    }
#define MODE                                               \
    mode_t mode = 0;                                       \
    if (flags & (O_CREAT | O_TMPFILE)) {                   \
        va_list list;                                      \
        va_start(list, flags);                             \
        mode = va_arg(list, mode_t);                       \
        va_end(list);                                      \
    }

// MARK: open
int open(const char *path, int flags, ...) {
    MODE
    FAIL_IF(failsIn("open", AT_FDCWD, path), -1)
    return syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}
ALIAS(open64, open)
int openat(int directory, const char *path, int flags, ...) {
    MODE
    FAIL_IF(failsIn("open", directory, path), -1)
    return syscall(SYS_openat, directory, path, flags, mode);
}
ALIAS(openat64, openat)
DIR *opendir(const char *path) {
    FAIL_IF(failsIn("open", AT_FDCWD, path), NULL)
    return REAL(opendir)(path);
}

// MARK: read
ssize_t read(int file, void *buffer, size_t count) {
    FAIL_IF(failsOn("read", file), -1)
    return REAL(read)(file, buffer, count);
}
ssize_t pread(int file, void *buffer, size_t count, off_t offset) {
    FAIL_IF(failsOn("read", file), -1)
    return REAL(pread)(file, buffer, count, offset);
}
ALIAS(pread64, pread)
struct dirent *readdir(DIR *directory) {
    FAIL_IF(failsOn("list", dirfd(directory)), NULL)
    return REAL(readdir)(directory);
}
ALIAS(readdir64, readdir)
int fstat(int file, struct stat *status) {
    FAIL_IF(failsOn("stat", file), -1)
    return REAL(fstat)(file, status);
}
ALIAS(fstat64, fstat)

// MARK: write
static int isShort(int fails) { return fails && failure == 0; }
ssize_t write(int file, const void *buffer, size_t count) {
    int fails = failsOn("write", file);
    FAIL_IF(fails && !isShort(fails), -1)
    return REAL(write)(file, buffer, isShort(fails) ? (count + 1) / 2 : count);
}
ssize_t pwrite(int file, const void *buffer, size_t count, off_t offset) {
    int fails = failsOn("write", file);
    FAIL_IF(fails && !isShort(fails), -1)
    return REAL(pwrite)(file, buffer, isShort(fails) ? (count + 1) / 2 : count, offset);
}
ALIAS(pwrite64, pwrite)
ssize_t writev(int file, const struct iovec *vector, int count) {
    FAIL_IF(failsOn("write", file), -1)
    return REAL(writev)(file, vector, count);
}

// MARK: fsync
int fsync(int file) {
    FAIL_IF(failsOn("fsync", file), -1)
    return REAL(fsync)(file);
}
int fdatasync(int file) {
    FAIL_IF(failsOn("fsync", file), -1)
    return REAL(fdatasync)(file);
}

// MARK: size
int ftruncate(int file, off_t size) {
    FAIL_IF(failsOn("truncate", file), -1)
    return REAL(ftruncate)(file, size);
}
ALIAS(ftruncate64, ftruncate)
int posix_fallocate(int file, off_t offset, off_t size) {
    return failsOn("allocate", file) ? failure : REAL(posix_fallocate)(file, offset, size);
}
ALIAS(posix_fallocate64, posix_fallocate)
int fallocate(int file, int mode, off_t offset, off_t size) {
    FAIL_IF(failsOn("allocate", file), -1)
    return REAL(fallocate)(file, mode, offset, size);
}
ALIAS(fallocate64, fallocate)

// MARK: names
int rename(const char *path, const char *to) {
    FAIL_IF(failsIn("rename", AT_FDCWD, path), -1)
    return REAL(rename)(path, to);
}
int renameat(int directory, const char *path, int toDirectory, const char *to) {
    FAIL_IF(failsIn("rename", directory, path), -1)
    return REAL(renameat)(directory, path, toDirectory, to);
}
int renameat2(int directory, const char *path, int toDirectory, const char *to, unsigned flags) {
    FAIL_IF(failsIn("rename", directory, path), -1)
    return REAL(renameat2)(directory, path, toDirectory, to, flags);
}
int linkat(int directory, const char *path, int toDirectory, const char *to, int flags) {
    FAIL_IF(failsIn("link", directory, path), -1)
    return REAL(linkat)(directory, path, toDirectory, to, flags);
}
int unlink(const char *path) {
    FAIL_IF(failsIn("unlink", AT_FDCWD, path), -1)
    return REAL(unlink)(path);
}
int unlinkat(int directory, const char *path, int flags) {
    FAIL_IF(failsIn("unlink", directory, path), -1)
    return REAL(unlinkat)(directory, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    FAIL_IF(failsIn("mkdir", AT_FDCWD, path), -1)
    return REAL(mkdir)(path, mode);
}
int mkdirat(int directory, const char *path, mode_t mode) {
    FAIL_IF(failsIn("mkdir", directory, path), -1)
    return REAL(mkdirat)(directory, path, mode);
}
int fchmod(int file, mode_t mode) {
    FAIL_IF(failsOn("chmod", file), -1)
    return REAL(fchmod)(file, mode);
}

// MARK: close
int close(int file) {
    int fails = failsOn("close", file);
    // Linux closes the descriptor even if close(2) fails.
    int result = REAL(close)(file);
    FAIL_IF(fails, -1)
    return result;
}
