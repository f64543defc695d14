/// Files: sealed files in memory, identities of files that survive a reboot, the exchange of two file names, and
/// extended attributes.
#pragma once

#include <stddef.h>

/// memfd_create(2): an anonymous file in memory, close-on-exec, that can be sealed and cannot be made executable.
/// `name` (at most 249 bytes) is visible only in /proc/PID/fd. Returns a descriptor, or -1 with errno set.
int larder_memfd_create(const char *name);

// fcntl(2), "File Sealing"; fcntl.h declares these only with _GNU_SOURCE. The values are those of linux/fcntl.h.
enum {
    /// F_SEAL_SEAL: no further seals can be added to the file.
    LARDER_SEAL_SEAL = 0x0001,
    /// F_SEAL_SHRINK: the file cannot become shorter. A reader that has mapped the whole file therefore never gets
    /// SIGBUS.
    LARDER_SEAL_SHRINK = 0x0002,
    /// F_SEAL_GROW: the file cannot become longer.
    LARDER_SEAL_GROW = 0x0004,
    /// F_SEAL_WRITE: the bytes cannot change.
    LARDER_SEAL_WRITE = 0x0008,
    /// All four seals together: the file can no longer change.
    LARDER_SEAL_ALL = 0x000f,
};

/// Adds seals to a file in memory (F_ADD_SEALS). `seals` is a sum of LARDER_SEAL_*. Returns 0, or -1 with errno set
/// (EBUSY: a writable mapping exists).
int larder_add_seals(int fd, int seals);

/// F_GET_SEALS: the seals on a file, as a sum of LARDER_SEAL_* and other seals of the kernel, or -1 with errno
/// set (EINVAL: the file system does not support seals).
int larder_get_seals(int fd);

enum {
    /// O_PATH: the descriptor refers to a file that is not opened (open(2)). fcntl.h declares it only with _GNU_SOURCE.
    /// The value is that of asm-generic/fcntl.h.
    LARDER_O_PATH = 010000000,
};

/// Reads an identity of a file that survives a reboot: its inode and birth time (statx(2)), without the device number,
/// which may change at a reboot. `born_seconds` is -1 if the file system has no birth times. A symbolic link at `path`
/// is followed. An empty path stands for the file `fd`. Returns 0, or -1 with errno set.
int larder_file_identity(
    int fd, const char *path, unsigned long long *inode, long long *born_seconds, unsigned int *born_nanoseconds);

/// Exchanges two names in one step (renameat2(2), RENAME_EXCHANGE). Returns 0, or -1 with errno set (EINVAL: not
/// supported by the file system).
int larder_exchange_names(const char *path, const char *other);

/// Lists the names of the extended attributes of a file (llistxattr(2)), each with a null at its end. Does not follow a
/// symbolic link. Returns the number of bytes, or -1 with errno set. With a `size` of 0, only returns that number.
long larder_attribute_names(const char *path, char *names, size_t size);

/// Reads an extended attribute of a file (lgetxattr(2)). Returns as larder_attribute_names does.
long larder_attribute(const char *path, const char *name, void *value, size_t size);

/// Reads an extended attribute of an open file (fgetxattr(2)). Returns as larder_attribute_names does.
long larder_open_attribute(int fd, const char *name, void *value, size_t size);

/// Creates or replaces an extended attribute of an open file (fsetxattr(2)). Returns 0, or -1 with errno set.
int larder_set_attribute(int fd, const char *name, const void *value, size_t size);

/// Removes an extended attribute of an open file (fremovexattr(2)). Returns 0, or -1 with errno set.
int larder_remove_attribute(int fd, const char *name);
