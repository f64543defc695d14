internal import CSystemd
import Glibc

/// A descriptor that the service manager opened before it started this process.
///
/// It belongs to the manager: close it at the end, but never unlink its path and never call `shutdown(2)` on it, or the
/// next start finds a dead socket.
package struct ActivatedSocket: Sendable, Equatable {
    /// The descriptor, close-on-exec.
    package let descriptor: CInt
    /// `FileDescriptorName=` of the socket unit (by default the unit's name); "unknown" when none was passed.
    package let name: String
    /// Whether it is a listening `AF_UNIX` stream socket (`sd_is_socket_unix(3)`).
    package let isStreamListener: Bool
}

/// Socket activation: taking over the sockets that systemd, or `systemd-socket-activate(1)`, listens on.
package enum SocketActivation {
    /// Takes over every descriptor that was passed to this process, in the order of the socket unit.
    ///
    /// Call it once, first thing in `main`: it removes `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` from the
    /// environment, which no other thread may read meanwhile, so that no child mistakes them for its own. A second call
    /// finds nothing. Empty when the process was started in another way.
    ///
    /// - Throws: ``SystemdError`` with `activationFailed` when the variables are malformed or a descriptor is closed.
    package static func take() throws(SystemdError) -> [ActivatedSocket] {
        var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        let count = sd_listen_fds_with_names(1, &names)
        defer { release(names) }
        guard count >= 0 else {
            throw SystemdError(
                .activationFailed,
                "the sockets passed by the service manager cannot be used; check LISTEN_FDS and LISTEN_FDNAMES, "
                    + "or unset LISTEN_PID to start without them",
                systemError: -count)
        }
        return (0..<Int(count)).map { index in
            let descriptor = SD_LISTEN_FDS_START + CInt(index)
            return ActivatedSocket(
                descriptor: descriptor,
                name: names?[index].map { String(cString: $0) } ?? "unknown",
                isStreamListener: sd_is_socket_unix(descriptor, CInt(SOCK_STREAM.rawValue), 1, nil, 0) > 0)
        }
    }

    /// Takes over every passed descriptor, as ``take()`` does, and insists that each is a listening Unix stream socket.
    ///
    /// - Throws: ``SystemdError`` with `activationFailed` as ``take()`` does, and `notAStreamListener` naming the first
    ///   descriptor that is something else.
    package static func takeStreamListeners() throws(SystemdError) -> [ActivatedSocket] {
        let sockets = try take()
        for socket in sockets where !socket.isStreamListener {
            throw SystemdError(
                .notAStreamListener,
                "descriptor \(socket.descriptor) (\"\(socket.name)\"), passed by the service manager, is not a "
                    + "listening Unix stream socket; use ListenStream= with an absolute path, and Accept=no")
        }
        return sockets
    }

    /// Frees the array of strings that `sd_listen_fds_with_names` allocated.
    private static func release(_ names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?) {
        guard let names else { return }
        var next = names
        while let name = next.pointee {
            free(name)
            next += 1
        }
        free(names)
    }
}
