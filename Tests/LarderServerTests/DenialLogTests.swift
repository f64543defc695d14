import LarderWire
import Logging
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import LarderServer

@Suite("The log of refused requests")
struct DenialLogTests {
    private final class Lines: Sendable {
        private let kept = Mutex<[(message: String, metadata: Logger.Metadata)]>([])

        var taken: [(message: String, metadata: Logger.Metadata)] {
            kept.withLock { lines in
                defer { lines = [] }
                return lines
            }
        }

        var logger: Logger { Logger(label: "test") { _ in Handler(lines: self) } }

        private struct Handler: LogHandler {
            let lines: Lines
            var metadata: Logger.Metadata = [:]
            var logLevel = Logger.Level.info

            subscript(metadataKey key: String) -> Logger.Metadata.Value? {
                get { metadata[key] }
                set { metadata[key] = newValue }
            }

            func log(event: LogEvent) {
                lines.kept.withLock { $0.append(("\(event.level): \(event.message)", event.metadata ?? [:])) }
            }
        }
    }

    private static func denial(_ right: Right, in namespace: String?) -> WireError {
        WireError(lacking: right, in: namespace, "no")
    }

    private static func peer(_ user: Int) -> PeerCredentials {
        var peer = PeerCredentials.stranger
        (peer.uid, peer.pid, peer.knownCommand) = (user, 17, "sh")
        return peer
    }

    @Test("the first is told at once, the same of the same user once in a while with a number, in whatever namespace")
    func joined() {
        let (log, lines, loop) = (DenialLog(), Lines(), EmbeddedEventLoop())
        func add(_ user: Int, _ method: String, _ right: Right, _ namespace: String?) {
            log.add(Self.denial(right, in: namespace), to: method, of: Self.peer(user), on: loop, lines.logger)
        }
        for _ in 0..<500 { add(1, "config.set", .write, "a") }
        let first = lines.taken
        #expect(
            first.map(\.message) == [
                "notice: config.set was refused to user 1, process 17 (sh): it needs the right write in namespace a"
            ])
        #expect(
            first.first?.metadata == [
                "method": "config.set", "right": "write", "namespace": "a", "peer_uid": "1", "peer_pid": "17",
                "peer_command": "sh",
            ])
        add(2, "config.set", .write, "a")
        add(1, "config.push", .push, "a")
        add(1, "agent.clients", .administer, nil)
        #expect(lines.taken.count == 3)
        add(1, "config.set", .write, "b")
        loop.advanceTime(by: DenialLog.interval)
        let joined = lines.taken
        #expect(
            joined.map(\.message) == [
                "notice: config.set was refused to user 1, process 17 (sh) (500 times in 10 s): it needs the right write in "
                    + "namespaces a, b"
            ])
        #expect(joined.first?.metadata["refused"] == "500" && joined.first?.metadata["namespaces"] == "a, b")
        // Nothing for a while: the next is told at once.
        loop.advanceTime(by: DenialLog.interval)
        add(1, "config.set", .write, "a")
        #expect(lines.taken.count == 1)
    }

    @Test("a joined line names the namespaces of all that it stands for, as far as they are few")
    func namespaces() {
        let (log, lines, loop) = (DenialLog(), Lines(), EmbeddedEventLoop())
        func add(_ namespace: String) {
            log.add(
                Self.denial(.read, in: namespace), to: "config.get", of: Self.peer(1), on: loop, lines.logger)
        }
        add("first")
        for number in [1, 2, 2, 1] { add("n\(number)") }
        loop.advanceTime(by: DenialLog.interval)
        #expect(lines.taken.last?.message.hasSuffix("the right read in namespaces n1, n2") == true)
        for number in 1...9 { add("n\(number)") }
        loop.advanceTime(by: DenialLog.interval)
        #expect(
            lines.taken.last?.message.hasSuffix("in namespaces n1, n2, n3, n4, n5, n6, n7, n8 and others") == true)
    }

    @Test("what is joined and not told of yet is told of at the end, once")
    func flush() {
        let (log, lines, loop) = (DenialLog(), Lines(), EmbeddedEventLoop())
        for namespace in ["a", "b", "c"] {
            log.add(Self.denial(.read, in: namespace), to: "config.get", of: Self.peer(1), on: loop, lines.logger)
        }
        #expect(lines.taken.count == 1)
        log.flush(lines.logger)
        let untold = lines.taken
        #expect(untold.count == 1 && untold[0].message.hasSuffix("in namespaces b, c"))
        log.flush(lines.logger)
        loop.advanceTime(by: DenialLog.interval)
        #expect(lines.taken.isEmpty)
    }

    @Test("what is refused for another reason than a right is none of its")
    func otherReasons() {
        let (log, lines, loop) = (DenialLog(), Lines(), EmbeddedEventLoop())
        log.add(WireError(.unknownNamespace, "x"), to: "config.get", of: Self.peer(1), on: loop, lines.logger)
        #expect(lines.taken.isEmpty)
    }
}
