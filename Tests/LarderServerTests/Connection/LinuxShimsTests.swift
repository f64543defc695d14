import CLinuxShims
import Foundation
import Glibc
import TestSupport
import Testing

@testable import LarderServer

@Suite("System calls that Swift cannot call directly")
struct LinuxShimsTests {
    @Test("peer credentials are the process, user and group; an unconnected socket has no credentials")
    func peerCredentials() throws {
        try withSocketPair { left, _ in
            var process = pid_t()
            var user = uid_t()
            var group = gid_t()
            #expect(larder_peer_credentials(left, &process, &user, &group) == 0)
            #expect((process, user, group) == (getpid(), getuid(), getgid()))
            #expect(larder_peer_credentials(left, nil, nil, nil) == 0)
        }
        let alone = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue), 0)
        defer { close(alone) }
        #expect(larder_peer_credentials(alone, nil, nil, nil) == -1)
        #expect(errno == ENODATA)
    }

    @Test("the supplementary groups of a peer are returned, or only their number if the buffer is too small")
    func peerGroups() throws {
        var own = [gid_t](repeating: 0, count: 1 << 16)
        own.removeLast(own.count - max(0, Int(getgroups(CInt(own.count), &own))))
        try withSocketPair { left, _ in
            var groups = [gid_t](repeating: 0, count: own.count + 1)
            #expect(larder_peer_groups(left, &groups, groups.count) == own.count)
            #expect(Set(groups.prefix(own.count)) == Set(own))
            if !own.isEmpty { #expect(larder_peer_groups(left, &groups, own.count - 1) == own.count) }
            #expect(PeerCredentials(descriptor: left).groups.sorted() == own.sorted())
        }
        #expect(larder_peer_groups(-1, &own, 0) == -1)
    }

    @Test("two buffers are sent in order, and either of them can be empty")
    func sendTwo() throws {
        try withSocketPair { left, right in
            #expect(larder_send_two(left, "abc", 3, "de", 2) == 5)
            #expect(larder_send_two(left, "", 0, "f", 1) == 1)
            #expect(larder_send_two(left, "g", 1, nil, 0) == 1)
            #expect(larder_send_nosignal(left, "h", 1) == 1)
            #expect(receive(right) == "abcdefgh")
        }
    }

    @Test(
        "a send to a full blocking socket fails with EAGAIN; a send to a closed peer fails with EPIPE, without a signal"
    )
    func sendNeverBlocks() throws {
        try withSocketPair { left, right in
            let piece = [UInt8](repeating: 0, count: 65536)
            var sent = 1
            while sent > 0 { sent = larder_send_nosignal(left, piece, piece.count) }
            #expect(errno == EAGAIN)
            #expect(larder_send_two(left, piece, piece.count, piece, 1) == -1)
            #expect(errno == EAGAIN)
            shutdown(right, CInt(SHUT_RD))
            #expect(larder_send_nosignal(left, piece, 1) == -1)
            #expect(errno == EPIPE)
        }
    }

    @Test("a received descriptor refers to the same file, is close-on-exec, and arrives with its bytes")
    func passing() throws {
        try withSocketPair { left, right in
            let sent = larder_memfd_create("passed")
            defer { close(sent) }
            #expect(larder_send_descriptors(left, "line", 4, [sent], 1) == 4)
            let (text, descriptors, _) = receiveDescriptors(right, capacity: 1)
            #expect(text == "line")
            let received = try #require(descriptors.first)
            defer { close(received) }
            #expect(inode(received) == inode(sent))
            #expect(fcntl(received, F_GETFD) & FD_CLOEXEC != 0)

            #expect(larder_send_descriptors(left, "none", 4, nil, 0) == 4)
            #expect(receiveDescriptors(right, capacity: 1).0 == "none")
        }
    }

    @Test("if more descriptors arrive than the receiver has room for, all are closed and the call fails")
    func tooMany() throws {
        try withSocketPair { left, right in
            let (reading, writing) = try makePipe()
            #expect(larder_send_descriptors(left, "x", 1, [writing, writing, writing], 3) == 1)
            close(writing)
            let (text, descriptors, error) = receiveDescriptors(right, capacity: 2)
            #expect(text == nil)
            #expect(error == EMSGSIZE)
            #expect(descriptors.isEmpty)
            // The read returns end of file only if every copy of the writing end is closed.
            #expect(receive(reading) == "")
            close(reading)
        }
    }

    @Test("bytes are received with one descriptor if the caller requests one; all other descriptors are closed")
    func receiving() throws {
        try withSocketPair { left, right in
            let sent = larder_memfd_create("passed")
            defer { close(sent) }
            var passed = larder_passed()
            var bytes = [UInt8](repeating: 0, count: 16)
            for (count, isWanted) in [(0, true), (0, false), (1, true), (1, false), (2, true), (3, true)] {
                let descriptors = [CInt](repeating: sent, count: count)
                #expect(larder_send_descriptors(left, "line", 4, descriptors, count) == 4)
                #expect(larder_receive(right, &bytes, bytes.count, isWanted, &passed) == 4)
                #expect((passed.descriptor >= 0) == (isWanted && count > 0))
                #expect(passed.is_cut == (count > (isWanted ? 1 : 0)))
                guard passed.descriptor >= 0 else { continue }
                #expect(inode(passed.descriptor) == inode(sent))
                #expect(fcntl(passed.descriptor, F_GETFD) & FD_CLOEXEC != 0)
                larder_close_passed(passed.descriptor)
                #expect(fcntl(passed.descriptor, F_GETFD) == -1 || inode(passed.descriptor) != inode(sent))
            }
            #expect(OpenFile.count(of: sent) == 1)
            #expect(larder_receive(right, &bytes, bytes.count, true, &passed) == -1)
            #expect(errno == EAGAIN && passed.descriptor == -1 && !passed.is_cut)
        }
    }

    @Test("a send with an invalid number of bytes or descriptors fails and sends nothing")
    func passingRefused() throws {
        try withSocketPair { left, _ in
            #expect(larder_send_descriptors(left, "", 0, [0], 1) == -1)
            #expect(errno == EINVAL)
            let tooMany = [CInt](repeating: 0, count: Int(LARDER_MAX_PASSED_DESCRIPTORS) + 1)
            #expect(larder_send_descriptors(left, "x", 1, tooMany, tooMany.count) == -1)
            #expect(errno == EINVAL)
        }
    }

    @Test("a sealed memory file can be neither written nor resized")
    func sealing() {
        let file = larder_memfd_create("sealed")
        defer { close(file) }
        #expect(write(file, "abc", 3) == 3)
        #expect(larder_get_seals(file) & CInt(LARDER_SEAL_WRITE) == 0)
        #expect(larder_add_seals(file, CInt(LARDER_SEAL_ALL)) == 0)
        #expect(larder_get_seals(file) & CInt(LARDER_SEAL_ALL) == CInt(LARDER_SEAL_ALL))
        #expect(write(file, "d", 1) == -1)
        #expect(errno == EPERM)
        #expect(ftruncate(file, 1) == -1)
        #expect(fcntl(file, F_GETFD) & FD_CLOEXEC != 0)
    }

    @Test("a pipe is close-on-exec, and nonblocking if requested", arguments: [false, true])
    func pipes(isNonblocking: Bool) throws {
        var ends: [CInt] = [-1, -1]
        try #require(larder_pipe(&ends, isNonblocking) == 0)
        for end in ends {
            #expect(fcntl(end, F_GETFD) == FD_CLOEXEC)
            #expect((fcntl(end, F_GETFL) & O_NONBLOCK != 0) == isNonblocking)
            close(end)
        }
    }

    @Test("the inotify records of one read are returned in order, with their names")
    func inotifyRecords() throws {
        try withTemporaryDirectory { path in
            let watcher = inotify_init1(CInt(IN_NONBLOCK | IN_CLOEXEC))
            defer { close(watcher) }
            let watch = inotify_add_watch(watcher, path, UInt32(IN_CREATE | IN_DELETE_SELF))
            for name in ["a", String(repeating: "n", count: 40)] { close(creat("\(path)/\(name)", 0o600)) }
            for name in ["a", String(repeating: "n", count: 40)] { unlink("\(path)/\(name)") }
            rmdir(path)
            // The records start at offset 1 of the buffer, so a parser that relies on their alignment would fail.
            var buffer = [UInt8](repeating: 0, count: 4097)
            let count = buffer.withUnsafeMutableBytes { read(watcher, $0.baseAddress.map { $0 + 1 }, 4096) }
            try #require(count > 0)
            var seen: [String] = []
            buffer.withUnsafeBytes { bytes in
                var offset = 0
                var event = larder_inotify_event()
                while larder_inotify_next(bytes.baseAddress.map { $0 + 1 }, count, &offset, &event) {
                    #expect(event.watch == watch)
                    seen.append("\(event.mask) \(event.name.map { String(cString: $0) } ?? "-")")
                }
                #expect(offset == count)
                var cut = 0
                #expect(!larder_inotify_next(bytes.baseAddress, 15, &cut, &event))
            }
            #expect(
                seen == [
                    "\(IN_CREATE) a", "\(IN_CREATE) \(String(repeating: "n", count: 40))", "\(IN_DELETE_SELF) -",
                    "\(IN_IGNORED) -",
                ])
        }
    }
}

/// Reads once and returns the bytes as text.
private func receive(_ descriptor: CInt) -> String {
    var buffer = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &buffer, buffer.count)
    return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
}

private func receiveDescriptors(_ descriptor: CInt, capacity: Int) -> (String?, [CInt], CInt) {
    var buffer = [UInt8](repeating: 0, count: 64)
    var descriptors = [CInt](repeating: -1, count: capacity)
    var count = 0
    let received = larder_receive_descriptors(descriptor, &buffer, buffer.count, &descriptors, capacity, &count)
    guard received >= 0 else { return (nil, Array(descriptors.prefix(count)), errno) }
    return (String(decoding: buffer.prefix(received), as: UTF8.self), Array(descriptors.prefix(count)), 0)
}

private func inode(_ descriptor: CInt) -> UInt {
    var status = stat()
    fstat(descriptor, &status)
    return status.st_ino
}

private func makePipe() throws -> (CInt, CInt) {
    var ends: [CInt] = [-1, -1]
    try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    return (ends[0], ends[1])
}

private func withSocketPair(_ body: (CInt, CInt) throws -> Void) throws {
    var ends: [CInt] = [-1, -1]
    try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
    defer { ends.forEach { close($0) } }
    try body(ends[0], ends[1])
}
