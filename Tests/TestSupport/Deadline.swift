import Glibc

/// The time limit of a wait. It ends tests that would otherwise hang. It is long because it does not check performance.
package struct Deadline: Sendable {
    private let moment: ContinuousClock.Instant

    /// Three minutes, which is enough on a busy machine.
    package static var usual: Deadline { .after(.seconds(180)) }

    package static func after(_ time: Duration) -> Deadline { Deadline(moment: .now + time) }

    package var hasPassed: Bool { .now >= moment }

    /// The remaining time for poll(2), rounded up so that the wait does not end before the deadline.
    package var milliseconds: CInt {
        let (seconds, attoseconds) = max(.zero, moment - .now).components
        return CInt(clamping: seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}

/// An error that prevents a test from continuing, such as a failed system call or a timeout. Wrong results of the agent
/// are reported with `#expect` instead.
package struct HarnessError: Error, CustomStringConvertible {
    package let description: String
    /// Whether a deadline has passed.
    package let isTimeout: Bool

    package init(_ description: String, isTimeout: Bool = false) {
        self.description = description
        self.isTimeout = isTimeout
    }

    /// The error of a wait whose deadline has passed.
    package static func timeout(_ purpose: String) -> HarnessError {
        HarnessError("timed out waiting for \(purpose)", isTimeout: true)
    }

    /// The error of a failed system call.
    package static func system(_ call: String, _ number: CInt = errno) -> HarnessError {
        HarnessError("\(call): \(String(cString: strerror(number)))")
    }
}

/// Waits until a descriptor is readable (or writable, with `POLLOUT`), or the peer has closed the connection.
package func wait(
    for events: CInt = POLLIN, on descriptor: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String
) throws {
    while true {
        var polled = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        switch poll(&polled, 1, deadline.milliseconds) {
        case 1...: return
        case 0: throw HarnessError.timeout(purpose())
        default: if errno != EINTR { throw HarnessError.system("poll") }
        }
    }
}
