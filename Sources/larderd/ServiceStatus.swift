import LarderConfig
import LarderPlatform
import LarderServer
import LarderSettings
import LarderUpstream
import ServiceLifecycle
import Synchronization
import LarderSystemd

/// What the service manager is told of the agent: that it is ready, and the line that `systemctl status` shows.
///
/// A message is not waited for. One that the manager does not take, because its socket is full, remains due.
final class ServiceStatus: Sendable {
    /// A message to the service manager. Both have the status line.
    enum Message: Equatable, Sendable {
        /// The start or a reload is complete.
        case ready(String)
        case status(String)
    }

    private struct State {
        var settingsProblem: String?
        /// The line that the manager has.
        var reported: String?
        var isReadyDue = false
        /// The last state of each namespace in which it was not being refreshed; `initializing` before the first.
        var settled: [String: Freshness] = [:]
        var publications: [String: ConfigPublication] = [:]
    }

    /// The number of clients.
    private let clients: @Sendable () -> Int
    private let send: @Sendable (Message) throws -> Void
    private let state = Mutex(State())
    /// Raised when the line may be another one.
    let (changes, wakeUps) = Signal.makeStream()

    init(clients: @escaping @Sendable () -> Int, send: @escaping @Sendable (Message) throws -> Void) {
        self.clients = clients
        self.send = send
    }

    convenience init(server: AgentServer) {
        self.init(clients: { server.connections }) { message in
            switch message {
            case .ready(let line): try ServiceNotifier().ready(status: line)
            case .status(let line): try ServiceNotifier().status(line)
            }
        }
    }

    /// Reports on these namespaces from now on, and on no others.
    func follow(_ namespaces: [ConfigNamespace]) {
        let publications = Dictionary(uniqueKeysWithValues: namespaces.map { ($0.name, $0.publication) })
        let new = state.withLock { state in
            defer { state.publications = publications }
            state.settled = publications.mapValues { state.settled[$0.namespace] ?? .initializing }
            return publications.filter { state.publications[$0.key] !== $0.value }
        }
        for (name, publication) in new {
            publication.observeFreshness { [weak self] in self?.note($0, of: name) }
        }
    }

    /// Takes note of a namespace's state.
    func note(_ freshness: Freshness, of namespace: String) {
        // A namespace that is being refreshed is as good as it was.
        if freshness == .refreshing { return }
        let isNew = state.withLock { $0.settled.updateValue(freshness, forKey: namespace) != freshness }
        if isNew { changes.raise() }
    }

    /// Takes note of why the settings of the last reload are not in force; nil if they are.
    func note(settingsProblem problem: String?) {
        state.withLock { $0.settingsProblem = problem }
        changes.raise()
    }

    /// Reports that the start or a reload is complete.
    func becomeReady() {
        state.withLock { $0.isReadyDue = true }
        if !report() { changes.raise() }
    }

    /// Sends what the manager was not told yet.
    /// - Returns: false if it does not take the message now
    func report() -> Bool {
        let clients = clients()
        return state.withLock { state in
            let line = Self.line(
                state.settled.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }, clients: clients,
                settingsProblem: state.settingsProblem)
            if !state.isReadyDue, line == state.reported { return true }
            do {
                try send(state.isReadyDue ? .ready(line) : .status(line))
            } catch {
                return false
            }
            (state.reported, state.isReadyDue) = (line, false)
            return true
        }
    }

    /// Puts the line together: how many namespaces there are and those in the worst state, how many clients, and what is
    /// wrong with the settings.
    static func line(
        _ namespaces: [(name: String, freshness: Freshness)], clients: Int, settingsProblem: String?
    ) -> String {
        var line = namespaces.count == 1 ? "1 namespace" : "\(namespaces.count) namespaces"
        let worst = namespaces.max { rank($0.freshness) < rank($1.freshness) }?.freshness ?? .fresh
        if rank(worst) == 0 {
            line += ", fresh"
        } else {
            let names = namespaces.filter { $0.freshness == worst }.map(\.name)
            let others = names.count > 3 ? " and \(names.count - 3) others" : ""
            line += ", \(worst.rawValue): \(names.prefix(3).joined(separator: ", "))\(others)"
        }
        line += clients == 1 ? "; 1 client" : "; \(clients) clients"
        if let settingsProblem {
            line += "; the new settings are wrong, so the previous ones still apply: \(settingsProblem)"
        }
        return line
    }

    /// How bad a state is.
    private static func rank(_ freshness: Freshness) -> Int {
        switch freshness {
        case .fresh, .refreshing: 0
        case .initializing: 1
        case .stale: 2
        case .failed: 3
        }
    }
}

/// Keeps the status line up to date: reports each change of a state, and the number of clients every ten seconds.
struct StatusService: AgentService {
    let status: ServiceStatus
    var clock: any Clock<Duration> = ContinuousClock()

    /// Changes within this time after a message go into one further message. A message that was not taken is repeated
    /// after this time.
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
