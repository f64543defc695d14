import Logging
import NIOCore
import NIOEmbedded
import Synchronization
import Testing

@testable import LarderServer

@Suite("The log of refused connections")
struct RefusalLogTests {
    /// Keeps the messages and the numbers of refused connections.
    private final class Lines: Sendable {
        private let kept = Mutex<[String]>([])

        var taken: [String] {
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
                lines.kept.withLock { $0.append("\(event.metadata?["refused"] ?? "?"): \(event.message)") }
            }
        }
    }

    private static let tooMany = "connections were refused: there are as many as limits.connections allows"

    @Test("the first is told at once, all that follow once in a while, and nothing when there are none")
    func seldom() {
        let (log, lines, loop) = (RefusalLog(), Lines(), EmbeddedEventLoop())
        for _ in 0..<500 { log.add(LimitSettings(), on: loop, lines.logger) }
        #expect(lines.taken == ["1: \(Self.tooMany)"])
        loop.advanceTime(by: RefusalLog.interval - .nanoseconds(1))
        #expect(lines.taken == [])
        loop.advanceTime(by: .nanoseconds(1))
        #expect(lines.taken == ["499: \(Self.tooMany)"])
        log.add(LimitSettings(), on: loop, lines.logger)
        #expect(lines.taken == [])
        loop.advanceTime(by: RefusalLog.interval)
        #expect(lines.taken == ["1: \(Self.tooMany)"])
        loop.advanceTime(by: RefusalLog.interval)
        #expect(lines.taken == [])
        log.add(LimitSettings(), on: loop, lines.logger)
        #expect(lines.taken == ["1: \(Self.tooMany)"])
    }

    @Test("where descriptors are the limit, they are named")
    func descriptors() {
        let (log, lines, loop) = (RefusalLog(), Lines(), EmbeddedEventLoop())
        var limits = LimitSettings()
        limits.isBoundByDescriptors = true
        log.add(limits, on: loop, lines.logger)
        #expect(lines.taken == ["1: connections were refused: the limit of open files allows no more"])
    }
}
