/// Files: opening below a directory without following what somebody planted there, and sealed memory files.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// openat2(2), the resolve member of struct open_how. Named here because Swift imports no macro whose text it has to
// find in the kernel's own headers.
enum {
    /// RESOLVE_NO_XDEV: no crossing of mount points.
    LARDER_RESOLVE_NO_XDEV = RESOLVE_NO_XDEV,
    /// RESOLVE_NO_MAGICLINKS: no /proc/PID/fd and the like.
    LARDER_RESOLVE_NO_MAGICLINKS = RESOLVE_NO_MAGICLINKS,
    /// RESOLVE_NO_SYMLINKS: no symbolic link anywhere on the way.
    LARDER_RESOLVE_NO_SYMLINKS = RESOLVE_NO_SYMLINKS,
    /// RESOLVE_BENEATH: the path may not leave the directory, by "..", an absolute path or a link.
    LARDER_RESOLVE_BENEATH = RESOLVE_BENEATH,
    /// RESOLVE_IN_ROOT: the directory is taken for the root.
    LARDER_RESOLVE_IN_ROOT = RESOLVE_IN_ROOT,
};

/// openat2(2), which glibc does not wrap. `flags` and `mode` as for openat(2) (`mode` must be 0 unless a file may be
/// created), `resolve` a sum of LARDER_RESOLVE_*. Returns a descriptor, or -1 with errno set: EXDEV or ELOOP when the
/// path went where `resolve` forbids, EAGAIN when a rename raced with the check (try again), ENOSYS before Linux 5.6.
static inline int larder_openat2(int directory, const char *path, uint64_t flags, uint64_t mode, uint64_t resolve) {
    struct open_how how;
    memset(&how, 0, sizeof(how));
    how.flags = flags;
    how.mode = mode;
    how.resolve = resolve;
    return (int)syscall(SYS_openat2, directory, path, &how, sizeof(how));
}

/// memfd_create(2): an anonymous file in memory, close-on-exec, that can be sealed and cannot be made executable.
/// `name` (at most 249 bytes) shows in /proc/PID/fd only. Returns a descriptor, or -1 with errno set.
static inline int larder_memfd_create(const char *name) {
    const unsigned int cloexec = 0x1, allow_sealing = 0x2, noexec_seal = 0x8;  // MFD_*, linux/memfd.h
    int fd = (int)syscall(SYS_memfd_create, name, cloexec | allow_sealing | noexec_seal);
    if (fd < 0 && errno == EINVAL) {
        // MFD_NOEXEC_SEAL came with Linux 6.3; from then on its absence is logged, or refused by vm.memfd_noexec.
        fd = (int)syscall(SYS_memfd_create, name, cloexec | allow_sealing);
    }
    return fd;
}

// fcntl(2), "File Sealing"; fcntl.h has these under _GNU_SOURCE only. The values are those of linux/fcntl.h.
enum {
    /// F_SEAL_SEAL: no further seals.
    LARDER_SEAL_SEAL = 0x0001,
    /// F_SEAL_SHRINK: the file cannot get shorter, so that a reader's mapping never faults.
    LARDER_SEAL_SHRINK = 0x0002,
    /// F_SEAL_GROW: the file cannot get longer.
    LARDER_SEAL_GROW = 0x0004,
    /// F_SEAL_WRITE: the bytes cannot change.
    LARDER_SEAL_WRITE = 0x0008,
    /// All four: the file is a constant from now on.
    LARDER_SEAL_ALL = 0x000f,
};

/// F_ADD_SEALS. `seals` is a sum of LARDER_SEAL_*. Returns 0, or -1 with errno set (EBUSY: a writable mapping exists).
static inline int larder_add_seals(int fd, int seals) {
    return fcntl(fd, 1033, seals);  // F_LINUX_SPECIFIC_BASE + 9
}

/// F_GET_SEALS: the seals on a file, as a sum of LARDER_SEAL_* and others of the kernel's, or -1 with errno set
/// (EINVAL: this file system has no seals).
static inline int larder_get_seals(int fd) {
    return fcntl(fd, 1034);  // F_LINUX_SPECIFIC_BASE + 10
}

enum {
    /// O_PATH: a place in the file system, which is not opened (open(2)); fcntl.h has it under _GNU_SOURCE only. The value
    /// is that of asm-generic/fcntl.h.
    LARDER_O_PATH = 010000000,
};

/// Whether a file or directory is the kernel's own telling (procfs, sysfs), and none that somebody stored: 1 or 0, or -1
/// with errno set. An O_PATH descriptor will do (fstatfs(2)).
int larder_is_kernel_file(int fd);

/// Whether a file or directory is in memory and gone when the machine restarts (tmpfs(5)): 1 or 0, or -1 with errno set.
int larder_is_memory_file(int fd);
