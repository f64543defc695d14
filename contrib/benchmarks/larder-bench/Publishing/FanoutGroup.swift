import Glibc

/// One server with a publisher and many subscribers.
final class FanoutGroup {
    /// The results of consecutive rounds, in microseconds since the publication.
    struct Block: Sendable {
        /// The time until the last subscriber had its event, for each round.
        var lastDelivery: [Double] = []
        /// The time until the publisher had its reply, for each round.
        var reply: [Double] = []
        var use = ProcessorUse()
    }

    /// The maximum size of an event that the kernel delivers as a unit, so that it arrives completely or not at all.
    private static let wholeArrivalBytes = 16 * 1024
    /// The path to publish; for Redis the channel and the key.
    private static let path = "bench.fanout"

    private let peer: Peer
    private let subscriberGroup: SubscriberGroup
    private let publisher: Connection
    private let subscribers: Int
    private let serverProcess: Int32?
    private var request: MarkedRequest
    private let expectedReplies: Int
    /// The distance of the marker from the end of the last event that was read. It varies less between events than the
    /// distance from the start.
    private var markerFromEnd = 0
    private var markerBytes: [UInt8] = []
    private var largestEvent = 0
    /// The number of subscribers whose event of this round has not been read.
    private var unread = 0
    /// The last round in which each subscriber received anything.
    private var roundArrived: [Int]
    /// The last round whose event was read, for each subscriber.
    private var roundRead: [Int]
    private var round = 0
    private var loop: EpollLoop { subscriberGroup.loop }

    /// Connects and subscribes, and checks that the server's settings suit the measurement.
    /// - Parameter bytes: the length of the published value
    init(
        _ peer: Peer, subscribers: Int, namespace: String, bytes: Int, isDurable: Bool
    ) throws(BenchError) {
        self.peer = peer
        self.subscribers = subscribers
        let control = try ControlConnection(to: peer)
        serverProcess = control.serverProcess
        try peer.checkDurability(control, namespace: namespace, durable: isDurable)

        var replies = 0
        request = MarkedRequest(valueBytes: bytes) { value in
            let publish = peer.publishRequest(
                path: Self.path, namespace: namespace, value: value, durable: isDurable)
            replies = publish.replies
            return publish.bytes
        }
        expectedReplies = replies
        roundArrived = Array(repeating: 0, count: subscribers)
        roundRead = roundArrived

        subscriberGroup = try SubscriberGroup(
            peer, count: subscribers,
            request: peer.subscribeRequest(path: Self.path, namespace: namespace))
        publisher = try Connection(to: peer, index: subscribers)
        try subscriberGroup.loop.add(publisher)
    }

    /// Publishes `rounds` times, after a warm-up round that is not counted.
    func block(rounds: Int) throws(BenchError) -> Block {
        let meter = ProcessorMeter(server: serverProcess)
        var checking = 0.0
        var block = Block()
        for position in 0...rounds {
            let times = try publish()
            let began = ProcessorMeter.clientSeconds()
            let complete = try checkEvents() ?? times.lastDelivery
            checking += ProcessorMeter.clientSeconds() - began
            guard position > 0 else { continue }
            block.lastDelivery.append(Double(complete &- times.started) / 1000)
            block.reply.append(Double(times.reply &- times.started) / 1000)
        }
        block.use = meter.use()
        block.use.client -= checking
        return block
    }

    /// Publishes, and waits until the publisher has its reply and every subscriber has received something.
    ///
    /// Small events, which arrive as a unit, are not read during the measurement. In production each subscriber is its
    /// own process. A single process that read all events would add its own work to the time of the last delivery.
    private func publish() throws(BenchError) -> (started: UInt64, lastDelivery: UInt64, reply: UInt64) {
        round += 1
        markerBytes = request.advance()
        unread = subscribers
        let readsAtOnce = largestEvent > Self.wholeArrivalBytes
        var waiting = subscribers
        var replies = 0
        var lastDelivery: UInt64 = 0
        var reply: UInt64 = 0
        let started = MonotonicClock.nanoseconds()
        try loop.send(request.buffer, on: publisher)
        while waiting > 0 || replies < expectedReplies {
            try loop.processEvents { (connection) throws(BenchError) in
                guard connection !== publisher else {
                    try connection.receive(into: loop.scratch) { (answer) throws(BenchError) in
                        if let failure = peer.failure(in: answer) { throw failure }
                        replies += 1
                    }
                    reply = MonotonicClock.nanoseconds()
                    return
                }
                if readsAtOnce {
                    try readEvents(connection)
                    waiting = unread
                } else if roundArrived[connection.index] != round {
                    roundArrived[connection.index] = round
                    waiting -= 1
                }
                if waiting == 0, lastDelivery == 0 { lastDelivery = MonotonicClock.nanoseconds() }
            }
        }
        return (started, lastDelivery, reply)
    }

    /// Checks that every subscriber has the complete event of this round.
    /// - Returns: nil if all events were complete already; otherwise the time at which the last one became complete.
    private func checkEvents() throws(BenchError) -> UInt64? {
        guard unread > 0 else { return nil }
        for connection in subscriberGroup.connections { try readEvents(connection) }
        guard unread > 0 else { return nil }
        while unread > 0 {
            try loop.processEvents { (connection) throws(BenchError) in try readEvents(connection) }
        }
        return MonotonicClock.nanoseconds()
    }

    /// Reads the available input of a subscriber and records whether it contains the event of this round.
    private func readEvents(_ connection: Connection) throws(BenchError) {
        try connection.receive(into: loop.scratch) { (event) throws(BenchError) in
            guard roundRead[connection.index] != round, carriesMarker(event, markerBytes) else { return }
            roundRead[connection.index] = round
            unread -= 1
            largestEvent = max(largestEvent, event.count)
        }
    }

    /// Whether an event contains the marker of this round. Checks first the position at which the previous event had
    /// its marker.
    private func carriesMarker(_ event: UnsafeRawBufferPointer, _ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { marker in
            guard let wanted = marker.baseAddress, let base = event.baseAddress else { return false }
            if markerFromEnd >= marker.count, markerFromEnd <= event.count,
                memcmp(base + (event.count - markerFromEnd), wanted, marker.count) == 0
            {
                return true
            }
            guard let offset = ReplyText.offset(of: marker, in: event) else { return false }
            markerFromEnd = event.count - offset
            return true
        }
    }
}
