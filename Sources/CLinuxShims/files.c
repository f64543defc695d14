#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

int larder_memfd_create(const char *name) {
    const unsigned int cloexec = 0x1, allow_sealing = 0x2, noexec_seal = 0x8;  // MFD_*, linux/memfd.h
    int fd = (int)syscall(SYS_memfd_create, name, cloexec | allow_sealing | noexec_seal);
    if (fd < 0 && errno == EINVAL) {
        // MFD_NOEXEC_SEAL requires Linux 6.3. From that version on, the kernel logs a call without the flag, or refuses
        // it if the sysctl vm.memfd_noexec demands the flag.
        fd = (int)syscall(SYS_memfd_create, name, cloexec | allow_sealing);
    }
    return fd;
}

int larder_add_seals(int fd, int seals) {
    return fcntl(fd, 1033, seals);  // F_LINUX_SPECIFIC_BASE + 9
}

int larder_get_seals(int fd) {
    return fcntl(fd, 1034);  // F_LINUX_SPECIFIC_BASE + 10
}

int larder_exchange_names(const char *path, const char *other) {
    const int at_cwd = -100, exchange = 2;  // AT_FDCWD, RENAME_EXCHANGE
    return (int)syscall(SYS_renameat2, at_cwd, path, at_cwd, other, exchange);
}

int larder_file_identity(
    int fd, const char *path, unsigned long long *inode, long long *born_seconds, unsigned int *born_nanoseconds) {
    struct statx information;
    const int flags = path[0] ? 0 : AT_EMPTY_PATH;
    if (statx(fd, path, flags, STATX_INO | STATX_BTIME, &information) != 0) return -1;
    *inode = information.stx_ino;
    *born_seconds = information.stx_mask & STATX_BTIME ? information.stx_btime.tv_sec : -1;
    *born_nanoseconds = information.stx_mask & STATX_BTIME ? information.stx_btime.tv_nsec : 0;
    return 0;
}

long larder_attribute_names(const char *path, char *names, size_t size) { return llistxattr(path, names, size); }

long larder_attribute(const char *path, const char *name, void *value, size_t size) {
    return lgetxattr(path, name, value, size);
}

long larder_open_attribute(int fd, const char *name, void *value, size_t size) {
    return fgetxattr(fd, name, value, size);
}

int larder_set_attribute(int fd, const char *name, const void *value, size_t size) {
    return fsetxattr(fd, name, value, size, 0);
}

int larder_remove_attribute(int fd, const char *name) { return fremovexattr(fd, name); }
