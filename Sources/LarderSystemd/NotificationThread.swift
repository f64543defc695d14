internal import CLinuxShims
internal import CSystemd
internal import Dispatch
import Glibc
import Synchronization

/// Sends messages to the service manager, in the order in which they were submitted.
///
/// sd_notify(3) blocks while the socket of the manager is full, for example if the manager hangs. A thread of its own
/// therefore calls it, and the messages that wait for the thread are limited.
final class NotificationThread: Sendable {
    /// The thread of this process. It starts with the first message, and ends with the process.
    static let shared = NotificationThread()

    /// The maximum number of waiting messages.
    static let capacity = 16

    private struct Message: Sendable {
        let text: String
        /// Called with the error number if the message cannot be sent.
        let onFailure: @Sendable (CInt) -> Void
    }

    private struct State {
        var waiting: [Message] = []
        var isStarted = false
    }

    private let state = Mutex(State())
    /// Counts the waiting messages. The thread sleeps while there are none, which a `Mutex` alone cannot express.
    private let count = DispatchSemaphore(value: 0)

    private init() {}

    /// Submits a message without blocking.
    ///
    /// - Parameters:
    ///   - isRepeated: whether the message has the same effect once as twice, so that it is dropped if an equal one
    ///     waits
    ///   - onFailure: called on the thread with the error number if the message cannot be sent
    /// - Returns: 0, or the error number; `EAGAIN` if too many messages wait or the thread cannot be started
    func submit(_ text: String, isRepeated: Bool, onFailure: @escaping @Sendable (CInt) -> Void) -> CInt {
        let (failure, isWaiting) = state.withLock { state in
            if !state.isStarted {
                let failure = start()
                guard failure == 0 else { return (failure, false) }
                state.isStarted = true
            }
            if isRepeated, state.waiting.contains(where: { $0.text.utf8.elementsEqual(text.utf8) }) {
                return (0, false)
            }
            guard state.waiting.count < Self.capacity else { return (EAGAIN, false) }
            state.waiting.append(Message(text: text, onFailure: onFailure))
            return (0, true)
        }
        if isWaiting { count.signal() }
        return failure
    }

    private func start() -> CInt {
        let own = Unmanaged.passRetained(self)
        let failure = larder_start_thread(
            "notify", 0,
            { argument in
                guard let argument else { return nil }
                Unmanaged<NotificationThread>.fromOpaque(argument).takeRetainedValue().run()
            }, own.toOpaque())
        if failure != 0 { own.release() }
        return failure
    }

    private func run() -> Never {
        while true {
            count.wait()
            guard let message = state.withLock({ $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }) else {
                continue
            }
            let result = sd_notify(0, message.text)
            if result < 0 { message.onFailure(-result) }
        }
    }
}
