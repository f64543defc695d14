import Foundation
import LarderJSON
import LarderClient
import Synchronization
import TestSupport
import Testing

extension Integration {
    @Suite("Restarts with socket activation")
    struct ActivatedRestartTests {
        @Test("across restarts, clients that resend unanswered requests lose none, and subscribers miss no snapshot")
        func restarts() throws {
            try AgentHome.with { home in
                let listener = try home.listener()
                var agent = try home.start(listener: listener)
                #expect(try agent.call("agent.info")["activated"] == true)

                let writers = (0..<3).map { RetryingClient(home.socket, $0, kind: .writer) }
                let readers = (3..<6).map { RetryingClient(home.socket, $0, kind: .reader) }
                let subscribers = (0..<3).map { RetryingClient(home.socket, $0, kind: .subscriber) }
                let follower = Follower(home.socket)
                let clients = writers + readers + subscribers
                for client in clients { client.start() }
                for _ in 0..<5 {
                    for client in clients { try client.waitForProgress(of: 20) }
                    #expect(try agent.stop() == .exit(0), "\(agent.log)")
                    agent = try home.start(listener: listener)
                }
                for client in clients { try client.waitForProgress(of: 20) }
                for client in writers + readers { client.stop() }
                let revision = try #require(agent.call("config.get")["revision"]?.int)
                for client in subscribers {
                    try client.waitForRevision(revision)
                    client.stop()
                }
                for client in clients { #expect(client.problems == []) }
                // The document has every acknowledged change.
                let value = try agent.call("config.get")["value"]
                for writer in writers { #expect(value?["n\(writer.number)"]?.int == writer.acknowledged) }
                try follower.wait(for: revision)
                #expect(follower.end() == [])
            }
        }

        @Test("clients that connect while no agent runs are served by the next agent")
        func connectionsWithoutAgent() throws {
            try AgentHome.with { home in
                let listener = try home.listener()
                #expect(try home.start(listener: listener).stop() == .exit(0))
                let clients = try (0..<20).map { _ in try LineClient(path: home.socket) }
                let requests = try clients.map { try $0.request("agent.ping") }
                _ = try home.start(listener: listener)
                for (client, request) in zip(clients, requests) {
                    #expect(try client.reply(to: request) == ["pong": true])
                }
            }
        }
    }
}

/// A client on a dedicated thread. It resends unanswered requests over a new connection.
private final class RetryingClient: Sendable {
    enum Kind {
        /// Sets one member, whose name is `n` and the number of the client, to 1, 2, 3 and so on.
        case writer
        /// Gets the document, whose revision must not decrease.
        case reader
        /// Subscribes to the document. On a new connection, resumes from the last revision that it received.
        case subscriber
    }

    private struct State {
        var isStopped = false
        var hasEnded = false
        var progress = 0
        /// The last acknowledged value of a writer.
        var acknowledged = 0
        var revision = 0
        var problems: [String] = []
    }

    let number: Int
    private let socket: String
    private let kind: Kind
    private let state = Mutex(State())

    init(_ socket: String, _ number: Int, kind: Kind) {
        (self.socket, self.number, self.kind) = (socket, number, kind)
    }

    var acknowledged: Int { state.withLock { $0.acknowledged } }
    var problems: [String] { state.withLock { $0.problems } }

    func start() {
        Thread.detachNewThread {
            do {
                switch self.kind {
                case .writer: try self.write()
                case .reader: try self.read()
                case .subscriber: try self.follow()
                }
            } catch {
                self.state.withLock { $0.problems.append("\(error)") }
            }
            self.state.withLock { $0.hasEnded = true }
        }
    }

    /// Stops the client and waits until its thread has ended.
    func stop() {
        state.withLock { $0.isStopped = true }
        try? wait("the end of a client") { $0.hasEnded }
    }

    func waitForProgress(of count: Int) throws {
        let target = state.withLock { $0.progress } + count
        try wait("progress of a client") { $0.progress >= target || $0.hasEnded }
    }

    func waitForRevision(_ revision: Int) throws {
        try wait("revision \(revision)") { $0.revision >= revision || $0.hasEnded }
    }

    private func wait(_ purpose: String, _ condition: (State) -> Bool) throws {
        let deadline = Deadline.usual
        while !state.withLock({ condition($0) }) {
            if deadline.hasPassed { throw HarnessError.timeout(purpose) }
            _ = poll(nil, 0, 5)
        }
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    private func write() throws {
        var client: LineClient?
        var value = 0
        while !isStopped {
            value += 1
            _ = try callWithRetry(&client, "config.set", ["path": .string("n\(number)"), "value": .int(value)])
            state.withLock {
                $0.acknowledged = value
                $0.progress += 1
            }
        }
    }

    private func read() throws {
        var client: LineClient?
        var (last, epoch) = (0, "")
        while !isStopped {
            let reply = try callWithRetry(&client, "config.get", [:])
            let revision = reply["revision"]?.int ?? -1
            if revision < last { throw HarnessError("revision \(revision) after \(last)") }
            if let known = reply["epoch"]?.string, known != epoch {
                if !epoch.isEmpty { throw HarnessError("the epoch changed") }
                epoch = known
            }
            last = revision
            state.withLock { $0.progress += 1 }
        }
    }

    /// Sends a request, and resends it over a new connection until it gets a reply. Throws if it cannot connect,
    /// because the socket accepts connections even while no agent runs.
    private func callWithRetry(_ client: inout LineClient?, _ method: String, _ params: JSONValue) throws -> JSONValue {
        while true {
            let current: LineClient
            if let client { current = client } else { current = try LineClient(path: socket, isRecorded: false) }
            client = current
            do {
                return try current.call(method, params)
            } catch let refusal as LineClient.Refusal {
                guard refusal.name == "shuttingDown" else { throw refusal }
            } catch let error as HarnessError {
                if error.isTimeout { throw error }
            }
            client?.close()
            client = nil
        }
    }

    private func follow() throws {
        var current: (revision: Int, epoch: String)?
        while !isStopped {
            let client = try LineClient(path: socket, isRecorded: false)
            defer { client.close() }
            do {
                let params: [(String, JSONValue)] =
                    current.map { [("since", .int($0.revision)), ("epoch", .string($0.epoch))] } ?? []
                let reply = try client.call("config.subscribe", .object(params))
                let epoch = reply["epoch"]?.string ?? ""
                if let current, current.epoch != epoch { throw UnexpectedEvent("the epoch changed") }
                var sequence = 0
                while !isStopped {
                    guard client.hasBufferedInput || isReadable(client.descriptor) else { continue }
                    let event = try client.event()
                    if event["kind"] == "end" { break }
                    let (revision, skipped) = (event["revision"]?.int ?? 0, event["skipped"]?.int ?? 0)
                    sequence += 1
                    if event["sequence"]?.int != sequence { throw UnexpectedEvent("a gap in the sequence: \(event)") }
                    let previous = current?.revision ?? 0
                    if revision <= previous { throw UnexpectedEvent("revision \(revision) after \(previous)") }
                    if sequence > 1, revision - previous != skipped + 1 {
                        throw UnexpectedEvent("\(event) after revision \(previous)")
                    }
                    current = (revision, epoch)
                    state.withLock {
                        $0.revision = revision
                        $0.progress += 1
                    }
                }
            } catch let error as HarnessError {
                if error.isTimeout { throw error }
            } catch let refusal as LineClient.Refusal {
                guard refusal.name == "shuttingDown" else { throw refusal }
            }
        }
    }

    private struct UnexpectedEvent: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// Waits at most 50 ms for input, so that the caller can check often whether it has to stop.
    private func isReadable(_ descriptor: CInt) -> Bool {
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&polled, 1, 50) > 0
    }
}

/// Runs tasks on a dedicated queue, because blocking tests can occupy all threads of the task pool.
private final class QueueExecutor: TaskExecutor {
    private let queue = DispatchQueue(label: "follower")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// Follows the document with the client library, across all restarts.
private final class Follower: Sendable {
    private struct State {
        var revision = 0
        var interruptions: [String] = []
        var problems: [String] = []
    }

    private let state: Mutex<State>
    private let task: Mutex<Task<Void, Never>?>

    init(_ socket: String) {
        state = Mutex(State())
        task = Mutex(nil)
        let follow = Task(executorPreference: QueueExecutor()) { [weak self] in
            do {
                let snapshots = LarderClient(socket: socket).config.snapshots().onInterruption {
                    [weak self] interruption in
                    self?.state.withLock {
                        $0.interruptions.append(
                            "after \($0.revision), next in \(interruption.delay): \(interruption.error)")
                    }
                }
                for try await snapshot in snapshots {
                    self?.state.withLock { state in
                        if snapshot.revision <= state.revision {
                            state.problems.append("revision \(snapshot.revision) after \(state.revision)")
                        }
                        state.revision = snapshot.revision
                    }
                }
            } catch {
                self?.state.withLock { $0.problems.append("\(error)") }
            }
        }
        task.withLock { $0 = follow }
    }

    func wait(for revision: Int) throws {
        let deadline = Deadline.usual
        while state.withLock({ $0.revision < revision && $0.problems.isEmpty }) {
            if deadline.hasPassed {
                let (current, interruptions) = state.withLock { ($0.revision, $0.interruptions) }
                throw HarnessError.timeout(
                    "revision \(revision); the last one is \(current), interruptions: \(interruptions)")
            }
            _ = poll(nil, 0, 5)
        }
    }

    /// Cancels the task and returns the problems that it found.
    func end() -> [String] {
        let follow = task.withLock { $0 }
        follow?.cancel()
        return state.withLock { $0.problems }
    }
}
