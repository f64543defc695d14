// Nearly everything is static inline in the headers.
#include "CLinuxShims.h"

#include <linux/magic.h>
#include <sys/vfs.h>

// Not in a header: what these declare is the C library's for Swift, and not this module's.
int larder_is_kernel_file(int fd) {
    struct statfs information;
    if (fstatfs(fd, &information) != 0) return -1;
    return information.f_type == PROC_SUPER_MAGIC || information.f_type == SYSFS_MAGIC;
}
