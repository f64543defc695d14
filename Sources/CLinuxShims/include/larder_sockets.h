/// Unix domain sockets: who is at the other end, writes that neither block nor raise SIGPIPE, passed descriptors.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// The most descriptors that one message may carry here. The kernel allows 253 (unix(7), SCM_RIGHTS); nothing in the
/// protocol passes more than one.
#define LARDER_MAX_PASSED_DESCRIPTORS 16

/// Who connected (unix(7), SO_PEERCRED): the process, user and group at the time of its connect(2). Each pointer may be
/// NULL. Returns 0, or -1 with errno set; ENODATA when the kernel recorded nobody (the socket is not connected).
int larder_peer_credentials(int fd, int *pid, unsigned int *uid, unsigned int *gid);

/// The supplementary groups of who connected, at the time of its connect(2) (socket(7), SO_PEERGROUPS, since Linux 4.13;
/// its effective group need not be among them). Up to `capacity` are stored. Returns how many there are, which may be more
/// than `capacity`: then none is stored. -1 with errno set where the kernel does not tell.
ptrdiff_t larder_peer_groups(int fd, unsigned int *groups, size_t capacity);

/// Takes the next connection of a listening socket, close-on-exec and without blocking: accept4(2). Returns a descriptor,
/// or -1 with errno set.
int larder_accept(int fd);

/// send(2) that never blocks (MSG_DONTWAIT) and never raises SIGPIPE (MSG_NOSIGNAL), whatever the descriptor's own
/// flags. Returns the number of bytes taken, possibly fewer than `length`, or -1 with errno set (EAGAIN: none now).
ptrdiff_t larder_send_nosignal(int fd, const void *bytes, size_t length);

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
ptrdiff_t larder_receive(
    int fd, void *bytes, size_t length, bool wants_descriptor, struct larder_passed *passed);

/// Closes a descriptor that a peer passed. Closing a socket may wait for its own peer (socket(7), SO_LINGER), for as long as
/// the process that passed it says; here it never does.
void larder_close_passed(int fd);

/// sendmsg(2) of two pieces, one after the other, in one call, with the flags of larder_send_nosignal. Either length
/// may be 0. Returns the number of bytes taken of both together, or -1 with errno set.
ptrdiff_t larder_send_two(
    int fd, const void *first, size_t first_length, const void *second, size_t second_length);

/// What the peer of a Unix stream socket has not read yet (unix(7), SIOCOUTQ), with the kernel's own overhead. The
/// kernel lets go of it piece by piece, of some 36 KiB where much is sent at once: it stays the same until a piece is
/// read to its end. Returns the number of bytes, or -1 with errno set.
int larder_unread_by_peer(int fd);

/// Sends bytes together with descriptors (unix(7), SCM_RIGHTS; cmsg(3)), never blocking, never raising SIGPIPE. The
/// descriptors travel with the first byte: a short count means that they are on their way and only the rest of the
/// bytes must follow. `length` must be at least 1 (a stream socket carries no descriptor without data), `count` 0 to
/// LARDER_MAX_PASSED_DESCRIPTORS; otherwise EINVAL. Returns the number of bytes taken, or -1 with errno set.
ptrdiff_t larder_send_descriptors(
    int fd, const void *bytes, size_t length, const int *descriptors, size_t count);

/// Receives bytes and the descriptors that came with them, close-on-exec from the start (recv(2), MSG_CMSG_CLOEXEC).
/// Blocks if the descriptor does. Up to `capacity` descriptors (at most LARDER_MAX_PASSED_DESCRIPTORS, otherwise
/// EINVAL) are stored and belong to the caller; `count` tells how many. When the peer passed more than that, or more
/// than this process may open, all of them are closed and the call fails with EMSGSIZE; the bytes are lost, so the
/// connection should be given up. Returns the number of bytes (0: end of stream), or -1 with errno set.
ptrdiff_t larder_receive_descriptors(
    int fd, void *bytes, size_t length, int *descriptors, size_t capacity, size_t *count);
