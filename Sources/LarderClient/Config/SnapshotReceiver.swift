import LarderJSON
import LarderProtocol

/// Turns the events of one subscription after another into snapshots, without any input or output of its own.
///
/// It keeps the promises of ``ConfigSnapshots``: never an older revision of the same epoch, never the same one twice,
/// and the newest only where the consumer is slow.
struct SnapshotReceiver {
    /// A revision and the epoch in which it counts.
    struct Position: Equatable {
        var revision: Int
        var epoch: String

        func isNewer(than other: Position?) -> Bool {
            guard let other, other.epoch == epoch else { return true }
            return revision > other.revision
        }
    }

    /// What the agent takes this side to hold: what the next patch applies to.
    private struct Base {
        var position: Position
        var value: JSONValue?
    }

    private let mode: ConfigSubscribe.Mode
    private var base: Base?
    /// The newest snapshot that was handed out or is about to be.
    private var newest: Position?
    private var undelivered: ConfigSnapshot?
    private var nextSequence = 1

    init(mode: ConfigSubscribe.Mode) {
        self.mode = mode
    }

    /// What to resume from: the `since` and `epoch` of the next `config.subscribe`; nil for a full snapshot.
    var resumption: Position? {
        mode == .patch ? base?.position : newest
    }

    /// A new subscription begins.
    mutating func begin() {
        nextSequence = 1
    }

    /// Whether a snapshot waits for the consumer.
    var hasSnapshot: Bool { undelivered != nil }

    /// Hands out the snapshot that waits for the consumer, if there is one.
    mutating func take() -> ConfigSnapshot? {
        defer { undelivered = nil }
        return undelivered
    }

    /// Takes an event.
    /// - Throws: `protocolViolation` where it does not continue the events before it. The next subscription then asks
    ///   for a full snapshot.
    mutating func receive(_ event: ConfigEvent) throws(LarderClientError) {
        guard event.sequence == nextSequence else {
            base = nil
            throw LarderClientError(
                .protocolViolation, "event \(nextSequence) of the subscription is missing (\(event.sequence) came)")
        }
        nextSequence += 1
        let position = Position(revision: event.revision, epoch: event.epoch)
        switch event.content {
        case .end: break
        case .snapshot(let value, _): offer(value, position, event)
        case .revision: offer(nil, position, event)
        case .patch(let patch, let from):
            guard let held = base, held.position == Position(revision: from, epoch: event.epoch) else {
                let held = base.map { "\($0.position.revision)" } ?? "nothing"
                base = nil
                throw LarderClientError(
                    .protocolViolation, "a patch applies to revision \(from), but \(held) is what is held")
            }
            offer(MergePatch.apply(patch, to: held.value), position, event)
        }
    }

    /// Puts a value in front of the consumer, unless it has it already. One that still waits there is passed over.
    private mutating func offer(_ value: JSONValue?, _ position: Position, _ event: ConfigEvent) {
        if mode == .patch { base = Base(position: position, value: value) }
        guard position.isNewer(than: newest) else { return }
        newest = position
        undelivered = ConfigSnapshot(
            value: value, revision: event.revision, epoch: event.epoch, state: event.state,
            skipped: event.skipped + (undelivered.map { $0.skipped + 1 } ?? 0), namespace: event.namespace)
    }
}
