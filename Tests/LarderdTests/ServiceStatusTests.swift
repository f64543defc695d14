import LarderJSON
import LarderProtocol
import Synchronization
import TestSupport
import Testing

@testable import LarderConfig
@testable import LarderConfigModel
@testable import larderd

@Suite("Status line for the service manager")
struct ServiceStatusTests {
    /// A status with a freshness.
    private static func status(_ freshness: Freshness) -> NamespaceStatus {
        let error = ConfigError(.upstreamFailed, "refused")
        var status = NamespaceStatus(source: .init("http", at: "http://origin/a"))
        switch freshness {
        case .initializing: break
        case .refreshing: status.refreshBegan(isLongPoll: false, now: 1)
        case .fresh: status.remoteAnswered(changed: true, now: 1)
        case .stale: status.failed(error, documentSince: 1, now: 1)
        case .failed: status.failed(error, documentSince: nil, now: 1)
        }
        return status
    }

    /// Layers with a document of the remote source.
    private static let layers = Layers(
        remote: RemoteDocument(document: .emptyObject, origin: "http://origin/a", updatedAt: 1))

    private static func published(_ freshness: Freshness) -> PublishedStatus {
        PublishedStatus(status(freshness), holding: layers)
    }

    private func line(_ states: Freshness..., clients: Int = 2) -> String {
        var line = StatusLine()
        // The order of the changes does not matter.
        for (index, state) in states.enumerated().reversed() { _ = line.note(Self.published(state), of: "n\(index)") }
        return line.text(clients: clients)
    }

    @Test("the status line counts namespaces and clients, and names the namespaces in the worst state")
    func lines() {
        #expect(line(.fresh) == "1 namespace, fresh; 2 clients")
        #expect(line(.fresh, .refreshing, clients: 1) == "2 namespaces, refreshing: n1; 1 client")
        #expect(line(.refreshing, .initializing) == "2 namespaces, initializing: n1; 2 clients")
        #expect(line(.fresh, .stale, .initializing, clients: 0) == "3 namespaces, stale: n1; 0 clients")
        #expect(line(.stale, .failed, .failed) == "3 namespaces, failed: n1, n2; 2 clients")
        let many = line(.stale, .stale, .stale, .stale, .stale)
        #expect(many == "5 namespaces, stale: n0, n1, n2, 2 more; 2 clients")
    }

    @Test("a namespace keeps its state in the status line while it is refreshed; its first state is initializing")
    func refreshing() {
        var line = StatusLine()
        func note(_ status: PublishedStatus) -> Bool { line.note(status, of: "a") }
        let awaiting = PublishedStatus(Self.status(.refreshing), holding: Layers())
        #expect(note(awaiting))
        #expect(line.text(clients: 1) == "1 namespace, initializing: a; 1 client")
        #expect(note(Self.published(.stale)))
        #expect(!note(Self.published(.refreshing)))
        #expect(line.text(clients: 1) == "1 namespace, stale: a; 1 client")
        #expect(note(Self.published(.fresh)))
        #expect(line.text(clients: 1) == "1 namespace, fresh; 1 client")
    }

    @Test(
        "the status line names the namespaces of which content was rejected, and those that cannot be written to disk")
    func rejections() {
        var line = StatusLine()
        func change(_ namespace: String, _ body: (inout NamespaceStatus) -> Void) -> Bool {
            var status = Self.status(.fresh)
            body(&status)
            return line.note(PublishedStatus(status, holding: Self.layers), of: namespace)
        }
        let noSpace = ConfigError(.storageFailed, "no space")
        #expect(change("c") { $0.rejected(nil, ConfigError(.rejected, "too old"), now: 1) })
        #expect(change("a") { $0.storageFailed(.commit, noSpace, now: 1) })
        #expect(
            change("b") {
                $0.storageFailed(.commit, noSpace, now: 1)
                $0.rejected(nil, ConfigError(.rejected, "no object"), now: 1)
            })
        #expect(
            line.text(clients: 1)
                == "3 namespaces, fresh; 1 client; cannot write to disk: a, b; rejected new content: b (no object), "
                + "c (too old)")
        #expect(change("c") { $0.rejected(nil, ConfigError(.rejected, "too large"), now: 1) })
        #expect(!change("c") { $0.rejected(nil, ConfigError(.rejected, "too large"), now: 2) })
        line.remove("b")
        #expect(
            line.text(clients: 1)
                == "2 namespaces, fresh; 1 client; cannot write to disk: a; rejected new content: c (too large)")
        #expect(change("a") { _ in } && change("c") { _ in })
        #expect(line.text(clients: 1) == "2 namespaces, fresh; 1 client")
    }

    // MARK: Reports

    /// A service manager that accepts messages unless its socket is full.
    private final class Manager: Sendable {
        struct SocketFull: Error {}
        private let (messages, continuation) = AsyncStream.makeStream(of: ServiceStatus.Message.self)
        let isFull = Mutex(false)
        /// Whether accepted messages are lost.
        let isGone = Mutex(false)

        /// Waits for the next accepted message. Nil if the task is cancelled.
        func next() async -> ServiceStatus.Message? {
            for await message in messages { return message }
            return nil
        }

        func take(_ message: ServiceStatus.Message, failed: @escaping @Sendable () -> Void) throws {
            if isFull.withLock({ $0 }) { throw SocketFull() }
            // A failure is reported after the message was accepted.
            if isGone.withLock({ $0 }) { Task { failed() } } else { continuation.yield(message) }
        }
    }

    /// Creates the publication of a namespace.
    private static func publication(_ name: String, _ freshness: Freshness) -> ConfigPublication {
        ConfigPublication(
            namespace: name, epoch: "e",
            snapshot: ConfigSnapshot(value: .emptyObject, revision: 0, publishedAt: 0), status: published(freshness))
    }

    private func run(
        _ body: (ServiceStatus, Manager, ManualClock) async -> Void
    ) async {
        let (manager, clock) = (Manager(), ManualClock())
        let status = ServiceStatus(clients: { 0 }, send: { try manager.take($0, failed: $1) })
        let service = Task { await StatusService(status: status, clock: clock).run() }
        // Waits until the service has started: its timer that checks the number of clients sleeps.
        await clock.waitForSleepers(1)
        await body(status, manager, clock)
        service.cancel()
        await service.value
    }

    @Test("a change of a namespace's state is reported, unless the new state is `refreshing`")
    func changes() async {
        await run { status, manager, clock in
            let shop = Self.publication("shop", .fresh)
            status.follow([shop])
            #expect(await manager.next() == .status("1 namespace, fresh; 0 clients"))
            await clock.waitForSleepers(2)
            clock.advance(by: StatusService.pause)
            shop.update(Self.published(.stale))
            #expect(await manager.next() == .status("1 namespace, stale: shop; 0 clients"))
            await clock.waitForSleepers(2)
            shop.update(Self.published(.refreshing))
            shop.update(Self.published(.failed))
            shop.update(Self.published(.refreshing))
            clock.advance(by: StatusService.pause)
            #expect(await manager.next() == .status("1 namespace, failed: shop; 0 clients"))
        }
    }

    @Test("rejected content and a disk that cannot be written are reported at once, although the state stays the same")
    func problems() async {
        await run { status, manager, clock in
            let shop = Self.publication("shop", .fresh)
            status.follow([shop])
            #expect(await manager.next() == .status("1 namespace, fresh; 0 clients"))
            await clock.waitForSleepers(2)
            clock.advance(by: StatusService.pause)
            var problems = Self.status(.fresh)
            problems.rejected(nil, ConfigError(.rejected, "too old"), now: 1)
            shop.update(PublishedStatus(problems, holding: Self.layers))
            let rejected = "1 namespace, fresh; 0 clients; rejected new content: shop (too old)"
            #expect(await manager.next() == .status(rejected))
            await clock.waitForSleepers(2)
            clock.advance(by: StatusService.pause)
            problems.storageFailed(.commit, ConfigError(.storageFailed, "no space"), now: 1)
            shop.update(PublishedStatus(problems, holding: Self.layers))
            let unwritable =
                "1 namespace, fresh; 0 clients; cannot write to disk: shop; rejected new content: shop (too old)"
            #expect(await manager.next() == .status(unwritable))
        }
    }

    @Test("a removed namespace is not in the status line, even if its state is reported afterwards")
    func removed() {
        let (status, sent) = recorder()
        let (shop, search) = (Self.publication("shop", .stale), Self.publication("search", .fresh))
        status.follow([shop, search])
        #expect(status.report())
        status.follow([search])
        shop.update(Self.published(.failed))
        #expect(status.report())
        search.update(Self.published(.stale))
        #expect(status.report())
        #expect(
            sent() == [
                .status("2 namespaces, stale: shop; 0 clients"), .status("1 namespace, fresh; 0 clients"),
                .status("1 namespace, stale: search; 0 clients"),
            ])
    }

    @Test("the status line says which settings are in effect, and the error, if the settings file was rejected")
    func settings() {
        let (status, sent) = recorder()
        let shop = Self.publication("shop", .fresh)
        status.follow([shop])
        status.note(.init(problem: "line 3", readAt: Timestamp(milliseconds: 1_700_000_000_000)))
        #expect(status.report())
        status.note(nil)
        #expect(status.report())
        let line = "1 namespace, fresh; 0 clients"
        #expect(
            sent() == [
                .status(
                    line
                        + "; the settings file is rejected, so the settings of the last successful start or reload are "
                        + "in effect (read at 2023-11-14T22:13:20.000Z): line 3"), .status(line),
            ])
    }

    /// Creates a service status without namespaces and clients, and a function that returns the messages it has sent.
    private func recorder() -> (ServiceStatus, () -> [ServiceStatus.Message]) {
        final class Messages: Sendable {
            let sent = Mutex<[ServiceStatus.Message]>([])
        }
        let messages = Messages()
        let status = ServiceStatus(
            clients: { 0 }, send: { message, _ in messages.sent.withLock { $0.append(message) } })
        return (status, { messages.sent.withLock { $0 } })
    }

    @Test("a namespace can report its state while a message is sent, and the next message has that state")
    func changeDuringReport() {
        let sent = Mutex<[ServiceStatus.Message]>([])
        let shop = Self.publication("shop", .fresh)
        let status = ServiceStatus(
            clients: { 0 },
            send: { message, _ in
                sent.withLock { $0.append(message) }
                shop.update(Self.published(.stale))
            })
        status.follow([shop])
        #expect(status.report())
        #expect(status.report())
        #expect(status.report())
        let lines = ["1 namespace, fresh; 0 clients", "1 namespace, stale: shop; 0 clients"]
        #expect(sent.withLock { $0 } == lines.map(ServiceStatus.Message.status))
    }

    @Test("a report that is made while a message is sent follows that message, and a repeated one sends nothing")
    func reportDuringReport() {
        let sent = Mutex<[ServiceStatus.Message]>([])
        let nested = Mutex<[@Sendable () -> Void]>([])
        let status = ServiceStatus(
            clients: { 0 },
            send: { message, _ in
                sent.withLock { $0.append(message) }
                nested.withLock { $0.popLast() }?()
            })
        status.follow([Self.publication("shop", .fresh)])
        nested.withLock { $0 = [{ #expect(status.report()) }, { status.becomeReady() }] }
        #expect(status.report())
        #expect(status.report())
        let line = "1 namespace, fresh; 0 clients"
        #expect(sent.withLock { $0 } == [.status(line), .ready(line)])
    }

    @Test("a message that cannot be sent because the socket is full is retried")
    func fullSocket() async {
        await run { status, manager, clock in
            let shop = Self.publication("shop", .fresh)
            status.follow([shop])
            #expect(await manager.next() == .status("1 namespace, fresh; 0 clients"))
            await clock.waitForSleepers(2)
            manager.isFull.withLock { $0 = true }
            status.becomeReady()
            clock.advance(by: StatusService.pause)
            // The service has retried the message, and the retry has failed.
            await clock.waitForSleepers(2)
            manager.isFull.withLock { $0 = false }
            clock.advance(by: StatusService.pause)
            #expect(await manager.next() == .ready("1 namespace, fresh; 0 clients"))
        }
    }

    @Test("a message that was accepted but could not be sent is sent again")
    func lostMessage() async {
        await run { status, manager, clock in
            manager.isGone.withLock { $0 = true }
            let shop = Self.publication("shop", .fresh)
            status.follow([shop])
            status.becomeReady()
            // The service pauses after its message, which may already be a retry.
            await clock.waitForSleepers(2)
            manager.isGone.withLock { $0 = false }
            let advance = Task {
                while !Task.isCancelled {
                    clock.advance(by: StatusService.pause)
                    await Task.yield()
                }
            }
            #expect(await manager.next() == .ready("1 namespace, fresh; 0 clients"))
            advance.cancel()
            await advance.value
        }
    }
}
