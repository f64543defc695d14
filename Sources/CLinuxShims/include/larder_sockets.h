/// Unix domain sockets: who is at the other end, writes that neither block nor raise SIGPIPE, passed descriptors.
#pragma once

#include <errno.h>
#include <linux/sockios.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/// The most descriptors that one message may carry here. The kernel allows 253 (unix(7), SCM_RIGHTS); nothing in the
/// protocol passes more than one.
#define LARDER_MAX_PASSED_DESCRIPTORS 16

/// Who connected (unix(7), SO_PEERCRED): the process, user and group at the time of its connect(2). Each pointer may be
/// NULL. Returns 0, or -1 with errno set; ENODATA when the kernel recorded nobody (the socket is not connected).
static inline int larder_peer_credentials(int fd, pid_t *pid, uid_t *uid, gid_t *gid) {
    // struct ucred, which sys/socket.h declares under _GNU_SOURCE only; the layout is the kernel's.
    struct {
        pid_t pid;
        uid_t uid;
        gid_t gid;
    } peer = {0, 0, 0};
    socklen_t length = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
        return -1;
    }
    // An unconnected socket answers with uid and gid -1 instead of failing.
    if (length != sizeof(peer) || peer.uid == (uid_t)-1) {
        errno = ENODATA;
        return -1;
    }
    if (pid) *pid = peer.pid;
    if (uid) *uid = peer.uid;
    if (gid) *gid = peer.gid;
    return 0;
}

/// The supplementary groups of who connected, at the time of its connect(2) (socket(7), SO_PEERGROUPS, since Linux 4.13;
/// its effective group need not be among them). Up to `capacity` are stored. Returns how many there are, which may be more
/// than `capacity`: then none is stored. -1 with errno set where the kernel does not tell.
static inline ssize_t larder_peer_groups(int fd, gid_t *groups, size_t capacity) {
    const int peer_groups = 59;  // SO_PEERGROUPS, asm-generic/socket.h
    socklen_t length = (socklen_t)(capacity * sizeof(gid_t));
    if (getsockopt(fd, SOL_SOCKET, peer_groups, groups, &length) == 0 || errno == ERANGE) {
        return (ssize_t)(length / sizeof(gid_t));
    }
    return -1;
}

/// Takes the next connection of a listening socket, close-on-exec and without blocking: accept4(2). Returns a descriptor,
/// or -1 with errno set.
int larder_accept(int fd);

/// send(2) that never blocks (MSG_DONTWAIT) and never raises SIGPIPE (MSG_NOSIGNAL), whatever the descriptor's own
/// flags. Returns the number of bytes taken, possibly fewer than `length`, or -1 with errno set (EAGAIN: none now).
static inline ssize_t larder_send_nosignal(int fd, const void *bytes, size_t length) {
    return send(fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// A message of some pieces, without address and ancillary data.
static inline struct msghdr larder_message(struct iovec *pieces, size_t count) {
    struct msghdr message;
    memset(&message, 0, sizeof(message));
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    return message;
}

/// The ancillary data of received bytes.
struct larder_passed {
    /// A descriptor, which belongs to the caller, or -1.
    int descriptor;
    /// Descriptors came that were not taken: there were several, none was wanted, or this process may open no more. The kernel
    /// closed them.
    bool is_cut;
};

/// Receives bytes without blocking. If `wants_descriptor`, one descriptor that comes with them is taken, close-on-exec from the
/// start; the kernel closes all others. It stops behind the bytes that descriptors came with (unix(7), SCM_RIGHTS), so that
/// there may be more to read however few bytes were received. Returns the number of bytes (0: end of stream), or -1 with errno
/// set (EAGAIN: none now).
static inline ssize_t larder_receive(
    int fd, void *bytes, size_t length, bool wants_descriptor, struct larder_passed *passed) {
    struct iovec piece = {.iov_base = bytes, .iov_len = length};
    struct msghdr message = larder_message(&piece, 1);
    // CMSG_SPACE pads to the room of two descriptors.
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

/// Closes a descriptor that a peer passed. Closing a socket may wait for its own peer (socket(7), SO_LINGER), for as long as
/// the process that passed it says; here it never does.
static inline void larder_close_passed(int fd) {
    struct linger none = {0, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(fd);
}

/// sendmsg(2) of two pieces, one after the other, in one call, with the flags of larder_send_nosignal. Either length
/// may be 0. Returns the number of bytes taken of both together, or -1 with errno set.
static inline ssize_t larder_send_two(
    int fd, const void *first, size_t first_length, const void *second, size_t second_length) {
    struct iovec pieces[2] = {
        {.iov_base = (void *)first, .iov_len = first_length},
        {.iov_base = (void *)second, .iov_len = second_length},
    };
    struct msghdr message = larder_message(pieces, 2);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// What the peer of a Unix stream socket has not read yet (unix(7), SIOCOUTQ), with the kernel's own overhead. The
/// kernel lets go of it piece by piece, of some 36 KiB where much is sent at once: it stays the same until a piece is
/// read to its end. Returns the number of bytes, or -1 with errno set.
static inline int larder_unread_by_peer(int fd) {
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? bytes : -1;
}

/// Room for the descriptors of a message, with the alignment of a header, as cmsg(3) asks.
union larder_descriptor_room {
    char bytes[CMSG_SPACE(sizeof(int) * LARDER_MAX_PASSED_DESCRIPTORS)];
    struct cmsghdr align;
};

/// Sends bytes together with descriptors (unix(7), SCM_RIGHTS; cmsg(3)), never blocking, never raising SIGPIPE. The
/// descriptors travel with the first byte: a short count means that they are on their way and only the rest of the
/// bytes must follow. `length` must be at least 1 (a stream socket carries no descriptor without data), `count` 0 to
/// LARDER_MAX_PASSED_DESCRIPTORS; otherwise EINVAL. Returns the number of bytes taken, or -1 with errno set.
static inline ssize_t larder_send_descriptors(
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

/// Receives bytes and the descriptors that came with them, close-on-exec from the start (recv(2), MSG_CMSG_CLOEXEC).
/// Blocks if the descriptor does. Up to `capacity` descriptors (at most LARDER_MAX_PASSED_DESCRIPTORS, otherwise
/// EINVAL) are stored and belong to the caller; `count` tells how many. When the peer passed more than that, or more
/// than this process may open, all of them are closed and the call fails with EMSGSIZE; the bytes are lost, so the
/// connection should be given up. Returns the number of bytes (0: end of stream), or -1 with errno set.
static inline ssize_t larder_receive_descriptors(
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
