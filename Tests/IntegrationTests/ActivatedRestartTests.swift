import Foundation
import LarderJSON
import LarderClient
import Synchronization
import TestSupport
import Testing

extension Integration {
    @Suite("Restarts behind a socket that somebody else holds")
    struct ActivatedRestartTests {
        /// The socket of a home, held by the test as systemd holds that of a socket unit.
        private func listener(_ home: AgentHome) throws -> Descriptor {
            let listener = try Descriptor.socket(AF_UNIX, SOCK_STREAM)
            guard try withUnixAddress(home.socket, { bind(listener.number, $0, $1) }) == 0,
                listen(listener.number, CInt.max) == 0
            else { throw HarnessError.system("listen on \(home.socket)") }
            return listener
        }

        @Test("no request of a client that repeats what was not answered is lost, and subscribers miss nothing")
        func restarts() throws {
            try AgentHome.with { home in
                let listener = try listener(home)
                var agent = try home.start(listener: listener)
                #expect(try agent.ask("agent.info")["activated"] == true)

                let writers = (0..<3).map { RepeatingClient(home.socket, $0, kind: .writer) }
                let readers = (3..<6).map { RepeatingClient(home.socket, $0, kind: .reader) }
                let subscribers = (0..<3).map { RepeatingClient(home.socket, $0, kind: .subscriber) }
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
                let revision = try #require(agent.ask("config.get")["revision"]?.int)
                for client in subscribers {
                    try client.waitForRevision(revision)
                    client.stop()
                }
                for client in clients { #expect(client.problems == []) }
                // What was acknowledged is there.
                let held = try agent.ask("config.get")["value"]
                for writer in writers { #expect(held?["n\(writer.number)"]?.int == writer.acknowledged) }
                try follower.wait(for: revision)
                #expect(follower.end() == [])
            }
        }

        @Test("who connects while no agent runs is served by the next one")
        func between() throws {
            try AgentHome.with { home in
                let listener = try listener(home)
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

/// A client on a thread of its own, that asks again over a new connection what was not answered.
private final class RepeatingClient: Sendable {
    enum Kind {
        /// Sets `nNUMBER` to 1, 2, 3 and so on.
        case writer
        /// Gets it, which must never go back.
        case reader
        /// Subscribes to everything, with what it holds already.
        case subscriber
    }

    private struct State {
        var isStopped = false
        var hasEnded = false
        var progress = 0
        /// The last value of which a writer was told that it is set.
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

    /// Has it stop, and waits until it has.
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
            if deadline.hasPassed { throw HarnessError("waited in vain for \(purpose)") }
            _ = poll(nil, 0, 5)
        }
    }

    private var isStopped: Bool { state.withLock { $0.isStopped } }

    private func write() throws {
        var client: LineClient?
        var value = 0
        while !isStopped {
            value += 1
            _ = try ask(&client, "config.set", ["path": .string("n\(number)"), "value": .int(value)])
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
            let reply = try ask(&client, "config.get", [:])
            let revision = reply["revision"]?.int ?? -1
            if revision < last { throw HarnessError("revision \(revision) after \(last)") }
            if let known = reply["epoch"]?.string, known != epoch {
                if !epoch.isEmpty { throw HarnessError("another epoch") }
                epoch = known
            }
            last = revision
            state.withLock { $0.progress += 1 }
        }
    }

    /// Asks until there is an answer. To connect must not fail.
    private func ask(_ client: inout LineClient?, _ method: String, _ params: JSONValue) throws -> JSONValue {
        while true {
            let current: LineClient
            if let client { current = client } else { current = try LineClient(path: socket, isRecorded: false) }
            client = current
            do {
                return try current.call(method, params)
            } catch let refusal as LineClient.Refusal {
                guard refusal.name == "shuttingDown" else { throw refusal }
            } catch let error as HarnessError {
                if error.description.contains("in vain") { throw error }
            }
            client?.close()
            client = nil
        }
    }

    private func follow() throws {
        var held: (revision: Int, epoch: String)?
        while !isStopped {
            let client = try LineClient(path: socket, isRecorded: false)
            defer { client.close() }
            do {
                let params: [(String, JSONValue)] =
                    held.map { [("since", .int($0.revision)), ("epoch", .string($0.epoch))] } ?? []
                let reply = try client.call("config.subscribe", .object(params))
                let epoch = reply["epoch"]?.string ?? ""
                if let held, held.epoch != epoch { throw Lost("another epoch") }
                var sequence = 0
                while !isStopped {
                    guard client.hasReceived || isReadable(client.descriptor) else { continue }
                    let event = try client.event()
                    if event["kind"] == "end" { break }
                    let (revision, skipped) = (event["revision"]?.int ?? 0, event["skipped"]?.int ?? 0)
                    sequence += 1
                    if event["sequence"]?.int != sequence { throw Lost("a hole in the sequence: \(event)") }
                    let former = held?.revision ?? 0
                    if revision <= former { throw Lost("revision \(revision) after \(former)") }
                    if sequence > 1, revision - former != skipped + 1 { throw Lost("\(event) after \(former)") }
                    held = (revision, epoch)
                    state.withLock {
                        $0.revision = revision
                        $0.progress += 1
                    }
                }
            } catch let error as HarnessError {
                if error.description.contains("in vain") { throw error }
            } catch let refusal as LineClient.Refusal {
                guard refusal.name == "shuttingDown" else { throw refusal }
            }
        }
    }

    private struct Lost: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// Waits a moment for something to read, so that a client which is to stop does.
    private func isReadable(_ descriptor: CInt) -> Bool {
        var polled = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&polled, 1, 50) > 0
    }
}

/// Runs a task on threads of its own: tests that wait hold those that tasks share.
private final class OwnQueue: TaskExecutor {
    private let queue = DispatchQueue(label: "follower")

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
    }
}

/// The client library, following everything over all restarts.
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
        let follow = Task(executorPreference: OwnQueue()) { [weak self] in
            do {
                let snapshots = LarderClient(socket: socket).config.snapshots { [weak self] interruption in
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
                let (held, interruptions) = state.withLock { ($0.revision, $0.interruptions) }
                throw HarnessError(
                    "waited in vain for revision \(revision) at \(held); interruptions: \(interruptions)")
            }
            _ = poll(nil, 0, 5)
        }
    }

    /// Ends it.
    /// - Returns: what went wrong.
    func end() -> [String] {
        let follow = task.withLock { $0 }
        follow?.cancel()
        return state.withLock { $0.problems }
    }
}
