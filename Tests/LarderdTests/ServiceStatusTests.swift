import LarderConfig
import LarderProtocol
import Synchronization
import TestSupport
import Testing

@testable import larderd

@Suite("Status line for the service manager")
struct ServiceStatusTests {
    private func line(_ states: Freshness..., clients: Int = 2, problem: String? = nil) -> String {
        let namespaces = states.enumerated().map { ("n\($0.offset)", $0.element) }
        let rejected = problem.map {
            ServiceStatus.RejectedSettings(problem: $0, readAt: Timestamp(milliseconds: 1_700_000_000_000))
        }
        return ServiceStatus.line(namespaces, clients: clients, rejectedSettings: rejected)
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

    @Test(
        "the status line names the namespaces of which content was rejected, and those that cannot be written to disk")
    func rejections() {
        let line = ServiceStatus.line(
            [("a", .fresh), ("b", .fresh)], clients: 1,
            rejections: [("b", "layer host: search.limit: expected an integer"), ("c", "too old")],
            unwritable: ["a", "b"], rejectedSettings: nil)
        #expect(
            line
                == "2 namespaces, fresh; 1 client; cannot write to disk: a, b; rejected new content: "
                + "b (layer host: search.limit: expected an integer), c (too old)")
    }

    @Test("the status line says which settings are in effect, and the error, if the settings file was rejected")
    func settings() {
        let rejected = line(.fresh, problem: "line 3")
        #expect(
            rejected
                == "1 namespace, fresh; 2 clients; the settings file is rejected, so the settings of the last successful "
                + "start or reload are in effect (read at 2023-11-14T22:13:20.000Z): line 3"
        )
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
            status.note(.fresh, of: "shop")
            #expect(await manager.next() == .status("1 namespace, fresh; 0 clients"))
            await clock.waitForSleepers(2)
            clock.advance(by: StatusService.pause)
            status.note(.stale, of: "shop")
            #expect(await manager.next() == .status("1 namespace, stale: shop; 0 clients"))
            await clock.waitForSleepers(2)
            status.note(.refreshing, of: "shop")
            status.note(.failed, of: "shop")
            status.note(.refreshing, of: "shop")
            clock.advance(by: StatusService.pause)
            #expect(await manager.next() == .status("1 namespace, failed: shop; 0 clients"))
        }
    }

    @Test("a namespace can report its state while a message is sent, and the next message has that state")
    func changeDuringReport() {
        let sent = Mutex<[ServiceStatus.Message]>([])
        let current = Mutex<ServiceStatus?>(nil)
        let status = ServiceStatus(
            clients: { 0 },
            send: { message, _ in
                sent.withLock { $0.append(message) }
                current.withLock { $0 }?.note(.stale, of: "shop")
            })
        current.withLock { $0 = status }
        status.note(.fresh, of: "shop")
        #expect(status.report())
        #expect(status.report())
        #expect(status.report())
        let lines = ["1 namespace, fresh; 0 clients", "1 namespace, stale: shop; 0 clients"]
        #expect(sent.withLock { $0 } == lines.map(ServiceStatus.Message.status))
        current.withLock { $0 = nil }
    }

    @Test("a message that cannot be sent because the socket is full is retried")
    func fullSocket() async {
        await run { status, manager, clock in
            status.note(.fresh, of: "shop")
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
            status.note(.fresh, of: "shop")
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
