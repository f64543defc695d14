import LarderConfig
import LarderPlatform
import LarderProtocol
import LarderServer
import LarderUpstream
import ServiceLifecycle
import Synchronization
import LarderSystemd

/// The state of the agent for the service manager: whether it is ready, and the line that `systemctl status` shows.
///
/// Sending never blocks. A message that cannot be submitted, because the notification socket is full, or that cannot be
/// sent is sent later.
final class ServiceStatus: Sendable {
    /// A message to the service manager. Both kinds contain the status line.
    enum Message: Equatable, Sendable {
        /// The start or a reload is complete.
        case ready(String)
        case status(String)
    }

    /// The settings file was rejected, so that earlier settings are in effect.
    struct RejectedSettings: Equatable, Sendable {
        var problem: String
        /// When the agent read the settings in effect, which are those of the last successful start or reload.
        var readAt: Timestamp

        /// The end of the status line.
        fileprivate var text: String {
            "; the settings file is rejected, so the settings of the last successful start or reload are in effect"
                + " (read at \(readAt)): \(problem)"
        }
    }

    private struct State {
        var line = StatusLine()
        var rejectedSettings: RejectedSettings?
        var isReadyDue = false
        /// The status line that was submitted last; nil before the first, or if it could not be sent.
        var reported: String?
        /// The namespaces on which the status reports, by name.
        var publications: [String: ConfigPublication] = [:]
        /// Whether a call of ``ServiceStatus/report()`` is sending messages.
        var isSending = false
        /// Whether ``ServiceStatus/report()`` was called since the last message was formatted.
        var isReportDue = false

        /// The next message for the call that is sending. Records the message as submitted. Nil if no report is due or
        /// the service manager has the current status; the call must end then.
        mutating func nextMessage(clients: Int) -> Message? {
            let text = line.text(clients: clients) + (rejectedSettings?.text ?? "")
            isSending = isReportDue && (isReadyDue || text != reported)
            isReportDue = false
            if !isSending { return nil }
            defer { (reported, isReadyDue) = (text, false) }
            return isReadyDue ? .ready(text) : .status(text)
        }

        /// Records that a message was not sent, so that the current status is sent again.
        mutating func sendAgain(_ message: Message) {
            reported = nil
            if case .ready = message { isReadyDue = true }
        }
    }

    /// Submits a message. Calls `failed`, on another thread, if the message cannot be sent afterwards.
    typealias Send = @Sendable (_ message: Message, _ failed: @escaping @Sendable () -> Void) throws -> Void

    private let clients: @Sendable () -> Int
    private let send: Send
    /// Publishing threads wait for this lock. It is therefore never held while a message is sent.
    private let state = Mutex(State())
    /// Signaled when the status line may have changed.
    let (changes, wakeUps) = Signal.makeStream()

    init(clients: @escaping @Sendable () -> Int, send: @escaping Send) {
        self.clients = clients
        self.send = send
    }

    convenience init(server: AgentServer) {
        self.init(clients: { server.connections }) { message, failed in
            let notifier = ServiceNotifier { _ in failed() }
            switch message {
            case .ready(let line): try notifier.ready(status: line)
            case .status(let line): try notifier.status(line)
            }
        }
    }

    /// Replaces the namespaces on which the status reports.
    func follow(_ publications: [ConfigPublication]) {
        let new = state.withLock { state in
            let followed = Dictionary(uniqueKeysWithValues: publications.map { ($0.namespace, $0) })
            for name in state.publications.keys where followed[name] == nil { state.line.remove(name) }
            defer { state.publications = followed }
            return publications.filter { state.publications[$0.namespace] !== $0 }
        }
        for publication in new {
            let name = publication.namespace
            publication.observeStatus { [weak self] in self?.note($0, of: name) }
        }
    }

    private func note(_ status: PublishedStatus, of namespace: String) {
        let isNew = state.withLock { state in
            // A publishing thread may report the status of a namespace after the namespace was removed.
            state.publications[namespace] != nil && state.line.note(status, of: namespace)
        }
        if isNew { changes.raise() }
    }

    /// Records that the start or the last reload rejected the settings file; nil if its settings are in effect.
    func note(_ rejected: RejectedSettings?) {
        state.withLock { $0.rejectedSettings = rejected }
        changes.raise()
    }

    /// Reports that the start or a reload is complete, even if the reload rejected the settings.
    func becomeReady() {
        state.withLock { $0.isReadyDue = true }
        if !report() { changes.raise() }
    }

    /// Sends the status if it has changed. If another thread is sending a message, that thread also sends this one, so
    /// that messages are sent in the order in which they are formatted.
    /// - Returns: false if a message of this thread could not be submitted now
    func report() -> Bool {
        let isSending = state.withLock { state in
            defer { (state.isSending, state.isReportDue) = (true, true) }
            return state.isSending
        }
        if isSending { return true }
        while let message = state.withLock({ [clients = clients()] in $0.nextMessage(clients: clients) }) {
            do {
                try send(message) { [weak self] in self?.repeatLater(message) }
            } catch {
                state.withLock { state in
                    state.sendAgain(message)
                    state.isSending = false
                }
                return false
            }
        }
        return true
    }

    /// Records that a submitted message could not be sent.
    private func repeatLater(_ message: Message) {
        state.withLock { $0.sendAgain(message) }
        changes.raise()
    }
}

/// Keeps the status line up to date. Reports each change of a namespace, and checks the number of clients every ten
/// seconds.
struct StatusService: AgentService {
    let status: ServiceStatus
    var clock: any Clock<Duration> = ContinuousClock()

    /// The minimum time between two messages. Changes within this time after a message are reported together in the
    /// next message. A message that could not be sent is sent again after this time.
    static let pause = Duration.seconds(1)
    static let interval = Duration.seconds(10)

    func run() async {
        await cancelWhenGracefulShutdown {
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    while (try? await clock.sleep(for: Self.interval)) != nil { status.changes.raise() }
                }
                for await _ in status.wakeUps {
                    status.changes.take()
                    let isReported = status.report()
                    if (try? await clock.sleep(for: Self.pause)) == nil { break }
                    if !isReported { status.changes.raise() }
                }
                group.cancelAll()
            }
        }
    }
}
