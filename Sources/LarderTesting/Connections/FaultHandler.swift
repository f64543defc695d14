public import LarderClientCore
import LarderJSON
import LarderProtocol
import NIOCore

/// Stands between the channel of a client and the client, and changes the messages of the agent as the faults demand.
/// Used on the event loop of the channel.
final class FaultHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private struct Held {
        let deadline: TestClock.Instant
        let messages: Int
        let bytes: ByteBuffer
        /// The timer that delivers the messages.
        let timer: Int
    }

    private let connector: Connector
    private var context: ChannelHandlerContext?
    /// The beginning of a message whose end has not arrived.
    private var incomplete = ByteBuffer()
    /// Messages that are held back, in order.
    private var held = CircularBuffer<Held>()

    init(_ connector: Connector) { self.connector = connector }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        connector.add(self, on: context.channel)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        connector.remove(self)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let input = unwrapInboundIn(data)
        let lengthBefore = incomplete.readableBytes
        incomplete.writeImmutableBuffer(input)
        guard let end = input.readableBytesView.lastIndex(of: UInt8(ascii: "\n")),
            let lines = incomplete.readSlice(length: lengthBefore + end + 1 - input.readerIndex)
        else { return }
        incomplete.discardReadBytes()
        let faults = connector.faults
        let bytes = faults.changesMessages ? changed(lines, faults) : lines
        if faults.delay <= .zero, held.isEmpty { return context.fireChannelRead(wrapInboundOut(bytes)) }
        hold(bytes, for: faults.delay, context)
    }

    func channelInactive(context: ChannelHandlerContext) {
        while !held.isEmpty { _ = removeFirst() }
        context.fireChannelInactive()
    }

    // MARK: Delay

    private func hold(_ bytes: ByteBuffer, for delay: Duration, _ context: ChannelHandlerContext) {
        let now = connector.clock.now.advanced(by: delay)
        let deadline = max(now, held.last?.deadline ?? now)
        let messages = bytes.readableBytesView.count { $0 == UInt8(ascii: "\n") }
        let (own, eventLoop) = (NIOLoopBound(self, eventLoop: context.eventLoop), context.eventLoop)
        let timer = connector.clock.schedule(at: deadline, for: connector) { isDue in
            if isDue { eventLoop.execute { own.value.deliverDue() } }
        }
        held.append(Held(deadline: deadline, messages: messages, bytes: bytes, timer: timer))
        connector.countHeld(messages)
    }

    private func deliverDue() {
        let now = connector.clock.now
        while let first = held.first, first.deadline <= now { deliverFirst() }
    }

    func faultsChanged() {
        if connector.faults.delay <= .zero { while !held.isEmpty { deliverFirst() } }
    }

    private func deliverFirst() {
        let first = removeFirst()
        context?.fireChannelRead(wrapInboundOut(first.bytes))
    }

    /// Removes the first messages. Their timer would otherwise retain the connection until its deadline.
    private func removeFirst() -> Held {
        let first = held.removeFirst()
        connector.clock.cancel(first.timer)
        connector.countHeld(-first.messages)
        return first
    }

    // MARK: Changes of messages

    private func changed(_ lines: ByteBuffer, _ faults: TestAgent.Faults) -> ByteBuffer {
        var result = ByteBuffer()
        for line in lines.readableBytesView.split(separator: UInt8(ascii: "\n")) {
            result.writeBytes(faults.sendsGarbage ? Array("garbage".utf8) : Self.outdated(Array(line)))
            result.writeInteger(UInt8(ascii: "\n"))
        }
        return result
    }

    /// Returns a message with the revision 1, the oldest one, in place of its revision. Messages without a revision
    /// stay as they are.
    private static func outdated(_ line: [UInt8]) -> [UInt8] {
        guard let message = try? JSONValue(parsing: line) else { return line }
        let part = message["method"]?.string == ConfigEvent.method ? "params" : "result"
        guard message[part]?["revision"]?.int != nil else { return line }
        let patch: JSONValue = part == "params" ? ["params": ["revision": 1]] : ["result": ["revision": 1]]
        var writer = JSONWriter()
        writer.value(MergePatch.apply(patch, to: message))
        return writer.bytes
    }
}

extension TestAgent {
    /// The faults between an agent and its clients, as ``TestAgent/faults`` has them. Each fault lasts until it is
    /// switched off; a new value without faults ends all of them.
    ///
    /// ```swift
    /// agent.faults.isUnreachable = true
    /// agent.faults.delay = .milliseconds(200)
    /// agent.faults = TestAgent.Faults()
    /// ```
    ///
    /// Mapped snapshots and images stored from a file use connections of their own. Of the faults, only
    /// ``isUnreachable`` and ``deniedRights`` affect those.
    public struct Faults: Sendable, Hashable {
        /// Whether attempts to connect fail with `ECONNREFUSED`. Existing connections stay open; see
        /// ``TestAgent/disconnect()``.
        public var isUnreachable = false
        /// The time on the clock of the agent by which each reply and each event arrives later. If it becomes zero,
        /// messages that are held back arrive at once.
        public var delay = Duration.zero
        /// The rights that clients lack. Calls that need them fail with `denied`. Streams that need them report `denied`
        /// at once, without an advance of the clock, and keep trying; with `failOnRefusal()` they end with the error.
        public var deniedRights: Set<LarderRight> = []
        /// Whether each reply and each event arrives as a line that is not JSON. A client that receives one fails its
        /// calls with `protocolViolation` and closes the connection.
        public var sendsGarbage = false
        /// Whether each reply and each event has the revision 1, the oldest one, whatever its content. A stream does
        /// not deliver such a snapshot if it has delivered a newer one.
        public var sendsOldRevisions = false

        /// Creates a value without faults.
        public init() {}

        var changesMessages: Bool { sendsGarbage || sendsOldRevisions }

        /// Applies the differences between two values, and keeps what else has changed.
        mutating func apply(from before: Self, to after: Self) {
            func take<Value: Equatable>(_ member: WritableKeyPath<Self, Value>) {
                if before[keyPath: member] != after[keyPath: member] { self[keyPath: member] = after[keyPath: member] }
            }
            take(\.isUnreachable)
            take(\.delay)
            take(\.sendsGarbage)
            take(\.sendsOldRevisions)
            deniedRights.subtract(before.deniedRights.subtracting(after.deniedRights))
            deniedRights.formUnion(after.deniedRights.subtracting(before.deniedRights))
        }
    }
}
