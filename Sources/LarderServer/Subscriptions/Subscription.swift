import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore

/// A client's standing request for one path of one namespace.
final class Subscription {
    /// Bodies up to this size are copied behind their head; for larger ones the system call takes two pieces.
    private static let smallBodyBytes = 4096

    let id: Int
    let topic: Topic
    let mode: ConfigSubscribe.Mode
    /// A strong reference, because a weak one would make every use of the connection slower. The connection forgets the
    /// subscription at its end.
    private let connection: Connection
    /// Bytes of its path that count towards the user's limit, 0 for a short path.
    private let heldBytes: Int
    /// Its index among the topic's subscriptions.
    var place = 0
    // A release build does not check accesses at run time, which would add 126 instructions to each event. The state performs no
    // I/O and calls nothing.
    #if !DEBUG
        @exclusivity(unchecked)
    #endif
    private var state: State

    /// - Parameters:
    ///   - since: the revision that the client holds; nil for none.
    ///   - epoch: the epoch of that revision; nil for the current one.
    init(
        id: Int, connection: Connection, topic: Topic, mode: ConfigSubscribe.Mode, since: Int? = nil,
        epoch: String? = nil, heldBytes: Int = 0
    ) {
        self.id = id
        self.connection = connection
        self.topic = topic
        self.mode = mode
        self.heldBytes = heldBytes
        state = State(
            holding: topic.compare(since, epoch, mode), current: topic.channel.snapshot.revision,
            lastChanged: topic.lastChanged)
    }

    // MARK: Events

    /// Whether an event can be written at once.
    private var canWrite: Bool { !connection.state.outbound.isPending }

    /// Begins to send events, now that the reply is written.
    /// - Parameter revision: the revision that the reply names.
    func replyWritten(at revision: Int) {
        perform(
            state.replyWritten(
                revision: revision, current: topic.channel.snapshot.revision, lastChanged: topic.lastChanged,
                canWrite: canWrite))
    }

    /// Sends the current snapshot, at once or when the pending output is written.
    /// - Parameter previous: the last revision that every subscription of the loop was offered.
    func offer(after previous: Int) {
        perform(state.offer(current: topic.channel.snapshot.revision, previous: previous, canWrite: canWrite))
    }

    /// Sends the snapshot that was missed while output was pending, unless output is pending again.
    func catchUp() {
        perform(
            state.outputDrained(
                current: topic.channel.snapshot.revision, lastChanged: topic.lastChanged, canWrite: canWrite))
    }

    private func perform(_ action: State.Action) {
        switch action {
        case .none: break
        case .send(let event): send(event)
        case .postpone: connection.state.subscriptions.addLagging(self)
        case .sendEnd(let reason, let sequence):
            write(topic.encode(.end(reason)), sequence: sequence, skipped: 0)
            remove()
            connection.closeIfDone()
        }
    }

    private func send(_ event: State.Event) {
        let body = topic.body(of: event, mode)
        connection.loop.traffic.eventsSent += 1
        connection.loop.traffic.eventsSkipped += event.skipped
        write(body, sequence: event.sequence, skipped: event.skipped)
    }

    private func write(_ body: ByteBuffer, sequence: Int, skipped: Int) {
        let isSmall = body.readableBytes <= Self.smallBodyBytes
        body.withUnsafeReadableBytes { bytes in
            ConfigEvent.append(
                subscription: id, sequence: sequence, skipped: skipped,
                body: isSmall ? bytes : UnsafeRawBufferPointer(start: nil, count: 0), to: &connection.loop.output.writer
            )
        }
        if isSmall {
            connection.output.flush()
        } else {
            connection.output.flush(then: body)
        }
    }

    // MARK: End

    /// Ends the subscription from the agent's side, with an event.
    func end(_ reason: ConfigEvent.Reason) { perform(state.end(reason)) }

    /// Ends the subscription without an event.
    func remove() {
        guard connection.state.subscriptions.remove(self) else { return }
        state.close()
        connection.loop.traffic.subscriptionsOpen -= 1
        connection.state.usage.removeSubscription(heldBytes: heldBytes)
        connection.loop.hub.remove(self)
    }
}
