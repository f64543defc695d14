internal import CSystemd
import Glibc

/// A listening stream socket that the service manager opened before it started this process.
///
/// The manager keeps the socket open. Close the descriptor when it is no longer used, but do not unlink the socket's
/// path or call `shutdown(2)`, because the next process would then get an unusable socket.
package struct ActivatedSocket: Sendable, Equatable {
    /// The descriptor, close-on-exec.
    package let descriptor: CInt
    /// `FileDescriptorName=` of the socket unit, by default the name of the unit; "unknown" if no name was passed.
    package let name: String
}

/// Socket activation: adopts the sockets on which systemd, or `systemd-socket-activate(1)`, listens.
package enum SocketActivation {
    /// Adopts all descriptors that were passed to this process, in the order of the socket unit. Empty if no
    /// descriptors were passed.
    ///
    /// Call it once, at the beginning of `main`. It removes `LISTEN_PID`, `LISTEN_FDS` and `LISTEN_FDNAMES` from the
    /// environment, so that child processes do not adopt the sockets. No other thread may read the environment during
    /// the call. A second call returns an empty array.
    ///
    /// - Parameter allowsInternet: whether the sockets may be TCP sockets; if not, they must be Unix sockets
    /// - Throws: an error if the variables are malformed, a descriptor is closed, or one is not a listening stream socket
    ///   of an allowed kind (`sd_is_socket(3)`). In the last case, the error names the first such descriptor.
    package static func take(allowsInternet: Bool = false) throws(SystemdError) -> [ActivatedSocket] {
        var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        let count = sd_listen_fds_with_names(1, &names)
        defer { release(names) }
        guard count >= 0 else {
            throw SystemdError(
                "cannot use the sockets passed by the service manager; check LISTEN_FDS and LISTEN_FDNAMES, "
                    + "or unset LISTEN_PID to start without them",
                systemError: -count)
        }
        let sockets = (0..<Int(count)).map { index in
            ActivatedSocket(
                descriptor: SD_LISTEN_FDS_START + CInt(index),
                name: names?[index].map { String(cString: $0) } ?? "unknown")
        }
        let family = allowsInternet ? AF_UNSPEC : AF_UNIX
        for socket in sockets where sd_is_socket(socket.descriptor, family, CInt(SOCK_STREAM.rawValue), 1) <= 0 {
            let (kind, place) = allowsInternet ? ("", "a port or an absolute path") : ("Unix ", "an absolute path")
            throw SystemdError(
                "descriptor \(socket.descriptor) (\"\(socket.name)\"), passed by the service manager, is not a "
                    + "listening \(kind)stream socket; use ListenStream= with \(place), and Accept=no")
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

/// Why socket activation or a notification of the service manager failed.
package struct SystemdError: Error, Sendable, Equatable, CustomStringConvertible {
    /// One line: the failure and what to do.
    package let reason: String
    /// The error number (`errno(3)`) of a failed system call; otherwise nil.
    package let systemError: CInt?

    /// The reason, followed by the text of the error number if there is one.
    package var description: String {
        // glibc's strerror is thread-safe since 2.32: it uses thread-local storage.
        guard let systemError, let words = strerror(systemError) else { return reason }
        return "\(reason): \(String(cString: words))"
    }

    init(_ reason: String, systemError: CInt? = nil) {
        self.reason = reason
        self.systemError = systemError
    }
}
