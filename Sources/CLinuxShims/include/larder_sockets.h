/// Unix domain sockets: credentials of the peer, writes that neither block nor raise SIGPIPE, and passed descriptors.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/// The maximum number of descriptors in one message. The kernel allows 253 (unix(7), SCM_RIGHTS). The protocol never
/// passes more than one.
#define LARDER_MAX_PASSED_DESCRIPTORS 16

/// Reads the credentials of the peer (unix(7), SO_PEERCRED): its process, user and group at the time of connect(2).
/// Each pointer may be NULL. Returns 0, or -1 with errno set; ENODATA if the kernel recorded none (the socket is not
/// connected).
int larder_peer_credentials(int fd, int *pid, unsigned int *uid, unsigned int *gid);

/// Reads the supplementary groups of the peer at the time of connect(2) (socket(7), SO_PEERGROUPS, since Linux 4.13).
/// The groups need not include the peer's effective group. Returns the number of groups. If the number exceeds
/// `capacity`, no group is stored. Returns -1 with errno set if the kernel does not report them.
ptrdiff_t larder_peer_groups(int fd, unsigned int *groups, size_t capacity);

/// Accepts the next connection of a listening socket, close-on-exec and nonblocking: accept4(2). Returns a descriptor,
/// or -1 with errno set.
int larder_accept(int fd);

/// send(2) that never blocks (MSG_DONTWAIT) and never raises SIGPIPE (MSG_NOSIGNAL), whatever the descriptor's own
/// flags. Returns the number of bytes sent, possibly fewer than `length`, or -1 with errno set (EAGAIN: no room now).
ptrdiff_t larder_send_nosignal(int fd, const void *bytes, size_t length);

/// The ancillary data of received bytes.
struct larder_passed {
    /// The received descriptor, which the caller must close; -1 if none was received.
    int descriptor;
    /// Whether the peer passed descriptors that this process did not receive, because the peer passed several, the
    /// caller requested none, or this process cannot open more. The kernel has closed them.
    bool is_cut;
};

/// Receives bytes without blocking. If `wants_descriptor`, one descriptor that arrives with the bytes is received,
/// close-on-exec from the start. The kernel closes all other descriptors. A read ends after the bytes that were sent
/// with descriptors (unix(7), SCM_RIGHTS), so more input may be available even if fewer than `length` bytes were
/// received. Returns the number of bytes (0: end of stream), or -1 with errno set (EAGAIN: none now).
ptrdiff_t larder_receive(
    int fd, void *bytes, size_t length, bool wants_descriptor, struct larder_passed *passed);

/// Closes a descriptor that a peer passed. If the descriptor is a socket, the call does not wait until the socket's own
/// peer has received all data, even if the process that passed the socket has set SO_LINGER (socket(7)).
void larder_close_passed(int fd);

/// Sends two pieces in order with one call of sendmsg(2), which neither blocks nor raises SIGPIPE, as in
/// larder_send_nosignal. Either length may be 0. Returns the total number of bytes sent, or -1 with errno set.
ptrdiff_t larder_send_two(
    int fd, const void *first, size_t first_length, const void *second, size_t second_length);

/// Returns the number of bytes that the peer of a Unix stream socket has not read yet (unix(7), SIOCOUTQ), including
/// the kernel's overhead; -1 with errno set on failure. The kernel frees whole pieces, of about 36 KiB for large sends.
/// The number therefore does not change until a piece has been read completely.
int larder_unread_by_peer(int fd);

/// Sends bytes together with descriptors (unix(7), SCM_RIGHTS; cmsg(3)). Never blocks and never raises SIGPIPE. The
/// descriptors are sent with the first byte: after a short count, only the remaining bytes must be sent. Fails with
/// EINVAL unless `length` is at least 1 (a stream socket passes no descriptor without data) and `count` is at most
/// LARDER_MAX_PASSED_DESCRIPTORS. Returns the number of bytes sent, or -1 with errno set.
ptrdiff_t larder_send_descriptors(
    int fd, const void *bytes, size_t length, const int *descriptors, size_t count);

/// Receives bytes and the descriptors that arrive with them, close-on-exec from the start (recv(2), MSG_CMSG_CLOEXEC).
/// Blocks unless the socket is nonblocking. Stores up to `capacity` descriptors, which the caller owns, and their
/// number in `count`. Fails with EINVAL if `capacity` exceeds LARDER_MAX_PASSED_DESCRIPTORS. If the peer passed more
/// descriptors than `capacity` or than this process can open, all of them are closed and the call fails with EMSGSIZE.
/// The bytes are then lost, and the caller should close the connection. Returns the number of bytes (0: end of stream),
/// or -1 with errno set.
ptrdiff_t larder_receive_descriptors(
    int fd, void *bytes, size_t length, int *descriptors, size_t capacity, size_t *count);
