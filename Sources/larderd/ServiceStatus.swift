import LarderConfig
import LarderPlatform
import LarderProtocol
import LarderServer
import LarderSettings
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
    }

    /// Changes since the last report.
    private struct News {
        /// The last state other than `refreshing`, by namespace.
        var settled: [String: Freshness] = [:]
        var rejectedSettings: RejectedSettings?
        var isReadyDue = false
        /// Whether the last message could not be sent.
        var isRepeatDue = false

        mutating func take() -> News {
            defer { self = News(rejectedSettings: rejectedSettings) }
            return self
        }
    }

    private struct State {
        /// The status line that was sent last; nil before the first.
        var reported: String?
        var isReadyDue = false
        /// For each namespace, its last state other than `refreshing`. Before the first one: `refreshing` if there is a
        /// document from before the start, otherwise `initializing`.
        var settled: [String: Freshness] = [:]
        var publications: [String: ConfigPublication] = [:]

        mutating func add(_ news: News) {
            settled.merge(news.settled) { $1 }
            if news.isReadyDue { isReadyDue = true }
            if news.isRepeatDue { reported = nil }
        }
    }

    /// Submits a message. Calls `failed`, on another thread, if the message cannot be sent afterwards.
    typealias Send = @Sendable (_ message: Message, _ failed: @escaping @Sendable () -> Void) throws -> Void

    private let clients: @Sendable () -> Int
    private let send: Send
    /// Publishing threads wait for this lock. It is therefore never held while all namespaces are visited.
    private let news = Mutex(News())
    /// Publishing threads do not take this lock.
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
    func follow(_ namespaces: [ConfigNamespace]) {
        let publications = Dictionary(uniqueKeysWithValues: namespaces.map { ($0.name, $0.publication) })
        let new = state.withLock { state in
            defer { state.publications = publications }
            state.add(news.withLock { $0.take() })
            state.settled = publications.mapValues {
                state.settled[$0.namespace] ?? ($0.current.awaitsSource ? .initializing : .refreshing)
            }
            return publications.filter { state.publications[$0.key] !== $0.value }
        }
        for (name, publication) in new {
            publication.observeFreshness { [weak self] in self?.note($0, of: name) }
        }
    }

    /// Records the state of a namespace. `refreshing` does not replace the previous state.
    func note(_ freshness: Freshness, of namespace: String) {
        if freshness == .refreshing { return }
        news.withLock { $0.settled[namespace] = freshness }
        changes.raise()
    }

    /// Records that the start or the last reload rejected the settings file; nil if its settings are in effect.
    func note(_ rejected: RejectedSettings?) {
        news.withLock { $0.rejectedSettings = rejected }
        changes.raise()
    }

    /// Reports that the start or a reload is complete, even if the reload rejected the settings.
    func becomeReady() {
        news.withLock { $0.isReadyDue = true }
        if !report() { changes.raise() }
    }

    /// Sends the status if it has changed.
    /// - Returns: false if the message could not be submitted now
    func report() -> Bool {
        let clients = clients()
        return state.withLock { state in
            let news = news.withLock { $0.take() }
            state.add(news)
            let records = state.publications.sorted { $0.key < $1.key }
                .map { (name: $0.key, record: $0.value.statusRecord) }
            let line = Self.line(
                state.settled.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, clients: clients,
                rejections: records.compactMap { name, record in record.refusal.map { (name, $0) } },
                unwritable: records.filter(\.record.isUnwritable).map(\.name),
                rejectedSettings: news.rejectedSettings)
            if !state.isReadyDue, line == state.reported { return true }
            let message = state.isReadyDue ? Message.ready(line) : .status(line)
            do {
                try send(message) { [weak self] in self?.repeatLater(message) }
            } catch {
                return false
            }
            (state.reported, state.isReadyDue) = (line, false)
            return true
        }
    }

    /// Records that a submitted message could not be sent.
    private func repeatLater(_ message: Message) {
        news.withLock { news in
            news.isRepeatDue = true
            if case .ready = message { news.isReadyDue = true }
        }
        changes.raise()
    }

    /// Formats the status line: the number of namespaces and those in the worst state, the number of clients, and
    /// problems.
    /// - Parameters:
    ///   - rejections: the namespaces of which new content was rejected, with a short reason: systemd ignores messages of
    ///     more than 4,096 bytes
    ///   - unwritable: the namespaces whose state cannot be written to disk
    static func line(
        _ namespaces: [(name: String, freshness: Freshness)], clients: Int,
        rejections: [(name: String, reason: String)] = [],
        unwritable: [String] = [],
        rejectedSettings: RejectedSettings?
    ) -> String {
        var line = namespaces.count == 1 ? "1 namespace" : "\(namespaces.count) namespaces"
        let worst = namespaces.max { rank($0.freshness) < rank($1.freshness) }?.freshness ?? .fresh
        if worst == .fresh {
            line += ", fresh"
        } else {
            line += ", \(worst.rawValue): \(list(namespaces.filter { $0.freshness == worst }.map(\.name)))"
        }
        line += clients == 1 ? "; 1 client" : "; \(clients) clients"
        if !unwritable.isEmpty { line += "; cannot write to disk: \(list(unwritable))" }
        if !rejections.isEmpty {
            line += "; rejected new content: \(list(rejections.map { "\($0.name) (\($0.reason))" }))"
        }
        if let rejectedSettings {
            line +=
                "; the settings file is rejected, so the settings of the last successful start or reload are in effect"
            line += " (read at \(rejectedSettings.readAt)): \(rejectedSettings.problem)"
        }
        return line
    }

    /// The first three names, and the number of the others.
    private static func list(_ names: [String]) -> String {
        names.prefix(3).joined(separator: ", ") + (names.count > 3 ? ", \(names.count - 3) more" : "")
    }

    /// The severity of a state.
    private static func rank(_ freshness: Freshness) -> Int {
        switch freshness {
        case .fresh: 0
        case .refreshing: 1
        case .initializing: 2
        case .stale: 3
        case .failed: 4
        }
    }
}

/// Keeps the status line up to date. Reports each change of a state, and checks the number of clients every ten
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
