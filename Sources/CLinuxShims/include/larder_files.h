/// Files: sealed memory files, what kind of file system a file is on, identities and exchanged names.
#pragma once

/// memfd_create(2): an anonymous file in memory, close-on-exec, that can be sealed and cannot be made executable.
/// `name` (at most 249 bytes) shows in /proc/PID/fd only. Returns a descriptor, or -1 with errno set.
int larder_memfd_create(const char *name);

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
int larder_add_seals(int fd, int seals);

/// F_GET_SEALS: the seals on a file, as a sum of LARDER_SEAL_* and others of the kernel's, or -1 with errno set
/// (EINVAL: this file system has no seals).
int larder_get_seals(int fd);

enum {
    /// O_PATH: a place in the file system, which is not opened (open(2)); fcntl.h has it under _GNU_SOURCE only. The value
    /// is that of asm-generic/fcntl.h.
    LARDER_O_PATH = 010000000,
};

/// The identity of a file that survives a reboot: its inode and birth time (statx(2)). The device number may change at a reboot.
/// `born_seconds` is -1 if the file system has no birth times. `path` is followed if it is a symbolic link; with an empty path
/// the file is `fd`. Returns 0, or -1 with errno set.
int larder_file_identity(
    int fd, const char *path, unsigned long long *inode, long long *born_seconds, unsigned int *born_nanoseconds);

/// Exchanges two names in one step (renameat2(2), RENAME_EXCHANGE). Returns 0, or -1 with errno set (EINVAL: the file system
/// cannot).
int larder_exchange_names(const char *path, const char *other);
