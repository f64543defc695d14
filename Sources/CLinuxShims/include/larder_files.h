/// Files: sealed memory files, what kind of file system a file is on, identities and exchanged names.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/// The identity of a file that survives a reboot: its inode and birth time (statx(2)). The device number may change at a reboot.
/// `born_seconds` is -1 if the file system has no birth times. `path` is followed if it is a symbolic link; with an empty path
/// the file is `fd`. Returns 0, or -1 with errno set.
int larder_file_identity(
    int fd, const char *path, uint64_t *inode, int64_t *born_seconds, uint32_t *born_nanoseconds);

/// Exchanges two names in one step (renameat2(2), RENAME_EXCHANGE). Returns 0, or -1 with errno set (EINVAL: the file system
/// cannot).
static inline int larder_exchange_names(const char *path, const char *other) {
    const int at_cwd = -100, exchange = 2;  // AT_FDCWD, RENAME_EXCHANGE
    return (int)syscall(SYS_renameat2, at_cwd, path, at_cwd, other, exchange);
}
