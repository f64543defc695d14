#define _GNU_SOURCE
#include "CLinuxShims.h"

#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

int larder_peer_credentials(int fd, int *pid, unsigned int *uid, unsigned int *gid) {
    // struct ucred, which sys/socket.h declares only with _GNU_SOURCE. The layout is that of the kernel.
    struct {
        pid_t pid;
        uid_t uid;
        gid_t gid;
    } peer = {0, 0, 0};
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return -1;
    }
    // For an unconnected socket, the kernel returns uid and gid -1 instead of an error.
    if (length != sizeof(peer) || peer.uid == (uid_t)-1) {
        errno = ENODATA;
        return -1;
    }
    if (pid) *pid = peer.pid;
    if (uid) *uid = peer.uid;
    if (gid) *gid = peer.gid;
    return 0;
}

ptrdiff_t larder_peer_groups(int fd, unsigned int *groups, size_t capacity) {
    const int peer_groups = 59;  // SO_PEERGROUPS, asm-generic/socket.h
    socklen_t length = (socklen_t)(capacity * sizeof(gid_t));
    if (getsockopt(fd, SOL_SOCKET, peer_groups, groups, &length) == 0 || errno == ERANGE) {
        return (ssize_t)(length / sizeof(gid_t));
    }
    return -1;
}

ptrdiff_t larder_send_nosignal(int fd, const void *bytes, size_t length) {
    return send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// A message of several pieces, without address and ancillary data.
static inline struct msghdr larder_message(struct iovec *pieces, size_t count) {
    struct msghdr message;
    memset(&message, 0, sizeof(message));
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    return message;
}

ptrdiff_t larder_receive(
    int fd, void *bytes, size_t length, bool wants_descriptor, struct larder_passed *passed) {
    struct iovec piece = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = larder_message(&piece, 1);
    // The length of the control buffer is CMSG_LEN, because CMSG_SPACE adds padding into which the kernel could put a
    // second descriptor.
    union {
        char bytes[CMSG_LEN(sizeof(int))];
        struct cmsghdr align;
    } control;
    if (wants_descriptor) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_LEN(sizeof(int));
    }
    ssize_t received = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    passed->descriptor = -1;
    passed->is_cut = received > 0 && (message.msg_flags & MSG_CTRUNC) != 0;
    if (received < 0 || message.msg_controllen < CMSG_LEN(sizeof(int)) || !wants_descriptor) return received;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS
        && header->cmsg_len >= CMSG_LEN(sizeof(int))) {
        memcpy(&passed->descriptor, CMSG_DATA(header), sizeof(int));
    }
    return received;
}

void larder_close_passed(int fd) {
    struct linger none = {0, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(fd);
}

ptrdiff_t larder_send_two(
    int fd, const void *first, size_t first_length, const void *second, size_t second_length) {
    struct iovec pieces[2] = {
        {.iov_base = (void *)first, .iov_len = first_length},
        {.iov_base = (void *)second, .iov_len = second_length},
    };
    struct msghdr message = larder_message(pieces, 2);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int larder_unread_by_peer(int fd) {
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

/// Space for the descriptors of a message, aligned as cmsg(3) requires for the header of a control message.
union larder_descriptor_room {
    char bytes[CMSG_SPACE(sizeof(int) * LARDER_MAX_PASSED_DESCRIPTORS)];
    struct cmsghdr align;
};

ptrdiff_t larder_send_descriptors(
    int fd, const void *bytes, size_t length, const int *descriptors, size_t count) {
    if (length == 0 || count > LARDER_MAX_PASSED_DESCRIPTORS) {
        errno = EINVAL;
        return -1;
    }
    union larder_descriptor_room control;
    memset(&control, 0, sizeof(control));
    struct iovec piece = {.iov_base = (void *)bytes, .iov_len = length};
    struct msghdr message = larder_message(&piece, 1);
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), descriptors, sizeof(int) * count);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ptrdiff_t larder_receive_descriptors(
    int fd, void *bytes, size_t length, int *descriptors, size_t capacity, size_t *count) {
    *count = 0;
    if (capacity > LARDER_MAX_PASSED_DESCRIPTORS) {
        errno = EINVAL;
        return -1;
    }
    union larder_descriptor_room control;
    struct iovec piece = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = larder_message(&piece, 1);
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof(control.bytes);
    ssize_t received = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (received < 0) {
        return -1;
    }
    int refused = (message.msg_flags & MSG_CTRUNC) != 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        size_t passed = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < passed; i++) {
            int descriptor;
            memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
            if (*count < capacity) {
                descriptors[(*count)++] = descriptor;
            } else {
                close(descriptor);
                refused = 1;
            }
        }
    }
    if (refused) {
        while (*count > 0) close(descriptors[--(*count)]);
        errno = EMSGSIZE;
        return -1;
    }
    return received;
}

int larder_accept(int fd) { return accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK); }
