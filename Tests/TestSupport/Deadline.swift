import Glibc

/// A moment by which something must have happened. It is only there to end a test that would hang, so it is far away:
/// nothing is said about speed.
package struct Deadline: Sendable {
    private let moment: ContinuousClock.Instant

    /// Far enough for a busy machine.
    package static var usual: Deadline { .after(.seconds(180)) }

    package static func after(_ time: Duration) -> Deadline { Deadline(moment: .now + time) }

    package var hasPassed: Bool { .now >= moment }

    /// What is left, as poll(2) wants it: rounded up, so that a wait never ends just before its time.
    package var milliseconds: CInt {
        let (seconds, attoseconds) = max(.zero, moment - .now).components
        return CInt(clamping: seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }
}

/// What keeps a test from going on: not what the agent did wrong, but what it left the test without.
package struct HarnessError: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }

    /// A system call that failed.
    package static func system(_ call: String, _ number: CInt = errno) -> HarnessError {
        HarnessError("\(call): \(String(cString: strerror(number)))")
    }
}

/// Waits until a descriptor can be read (or, with `POLLOUT`, written), or its other end is gone.
package func wait(
    for events: CInt = POLLIN, on descriptor: CInt, until deadline: Deadline, _ purpose: @autoclosure () -> String
) throws {
    while true {
        var polled = pollfd(fd: descriptor, events: Int16(events), revents: 0)
        switch poll(&polled, 1, deadline.milliseconds) {
        case 1...: return
        case 0: throw HarnessError("waited in vain for \(purpose())")
        default: if errno != EINTR { throw HarnessError.system("poll") }
        }
    }
}
