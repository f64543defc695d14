import CLinuxShims
import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore
import Glibc

/// All subscriptions of one event loop to one path of one namespace. What they are told is encoded once for all.
final class Topic {
    let path: JSONPath
    /// A strong reference: whoever is at work with a topic may find a client gone, and with it the last subscription,
    /// the topic and the channel. The cycle ends when the channel removes the topic.
    let channel: SnapshotChannel
    /// In no order.
    private(set) var subscriptions: [Subscription] = []
    /// The last revision in which the value at the path changed.
    private(set) var lastChanged: Int
    /// What the change began from that is being told.
    private var base: Base?
    private var bodies: [BodyKey: ByteBuffer] = [:]
    /// The one that was asked for last: mostly all subscriptions ask for the same.
    private var lastBody: (key: BodyKey, body: ByteBuffer)?
    /// The one of a plain change, which mostly all ask for.
    private var changeBody: ByteBuffer?
    /// What was current when they were encoded: a body tells the namespace's state, which changes without a snapshot.
    private var bodiesVersion = 0
    /// The snapshot that they are of. The channel goes on to a newer one before each of its topics takes note of it.
    private var bodiesRevision = 0

    /// A snapshot, and the first one with the same value at the path.
    private struct Base {
        let snapshot: ConfigSnapshot
        let since: Int
    }

    private enum BodyKey: Hashable {
        case snapshot(ConfigEvent.Reason)
        case patch(from: Int)
        case revision(ConfigEvent.Reason)
    }

    init(_ path: JSONPath, channel: SnapshotChannel) {
        self.path = path
        self.channel = channel
        lastChanged = channel.snapshot.revision
    }

    func add(_ subscription: Subscription) {
        subscription.place = subscriptions.count
        subscriptions.append(subscription)
    }

    /// Takes the same time however many there are: ten thousand clients may leave at once.
    func remove(_ subscription: Subscription) {
        guard let last = subscriptions.popLast(), last !== subscription else { return }
        subscriptions[subscription.place] = last
        last.place = subscription.place
    }

    /// Takes note of a new snapshot. If the value at the path changed, ``forgetBase()`` has to follow.
    /// - Returns: whether it did.
    func advance(from old: ConfigSnapshot, to new: ConfigSnapshot) -> Bool {
        forgetBodies()
        guard old.revision == 0 || path.segments.isEmpty || !Self.isSame(value(in: old), value(in: new))
        else { return false }
        base = Base(snapshot: old, since: lastChanged)
        lastChanged = new.revision
        return true
    }

    /// Every subscription was offered the change. Who could not take it has to hope that its snapshot is still known:
    /// a topic that may be silent for ever keeps no document of its own.
    func forgetBase() { base = nil }

    /// The shared part of the event that brings a client from the revision which it holds to the current one.
    func body(for subscription: Subscription) -> ByteBuffer {
        let (version, revision) = (channel.publication.version, channel.snapshot.revision)
        if version != bodiesVersion || revision != bodiesRevision {
            forgetBodies()
            (bodiesVersion, bodiesRevision) = (version, revision)
        }
        let reason = subscription.pendingReason
        if reason == nil, subscription.mode == .snapshot {
            if let changeBody { return changeBody }
            let body = snapshotBody(.change)
            changeBody = body
            return body
        }
        if subscription.mode == .revision { return revisionBody(reason ?? .change) }
        if let reason { return snapshotBody(reason) }
        guard subscription.mode == .patch else { return snapshotBody(.change) }
        let from = subscription.delivered
        if let known = known(.patch(from: from)) { return known }
        guard let held = snapshot(withValueAt: from) else { return snapshotBody(.gap) }
        guard let old = value(in: held), let new = value(in: channel.snapshot),
            let patch = MergePatch.difference(from: old, to: new)
        else { return snapshotBody(.inexpressible) }
        return note(encode(.patch(patch, from: from)), as: .patch(from: from))
    }

    private func known(_ key: BodyKey) -> ByteBuffer? {
        if let lastBody, lastBody.key == key { return lastBody.body }
        guard let body = bodies[key] else { return nil }
        lastBody = (key, body)
        return body
    }

    private func note(_ body: ByteBuffer, as key: BodyKey) -> ByteBuffer {
        bodies[key] = body
        lastBody = (key, body)
        return body
    }

    private func forgetBodies() {
        bodies.removeAll(keepingCapacity: true)
        lastBody = nil
        changeBody = nil
    }

    /// A snapshot with the value at the path that a revision had; nil where none is known. A value that was the same for
    /// long may be from a revision that is no longer held, but the snapshot before its change has it, too.
    private func snapshot(withValueAt revision: Int) -> ConfigSnapshot? {
        if let base, base.since <= revision, revision <= base.snapshot.revision { return base.snapshot }
        return channel.publication.recent(revision: revision)
    }

    /// Whether a client that holds a revision need not be told anything.
    func isUnchanged(since revision: Int) -> Bool {
        if path.segments.isEmpty { return false }
        guard let base = channel.publication.recent(revision: revision) else { return false }
        return Self.isSame(value(in: base), value(in: channel.snapshot))
    }

    private func snapshotBody(_ reason: ConfigEvent.Reason) -> ByteBuffer {
        known(.snapshot(reason))
            ?? note(encode(.snapshot(value(in: channel.snapshot), reason)), as: .snapshot(reason))
    }

    private func revisionBody(_ reason: ConfigEvent.Reason) -> ByteBuffer {
        known(.revision(reason)) ?? note(encode(.revision(reason)), as: .revision(reason))
    }

    func encode(_ content: ConfigEvent.Content) -> ByteBuffer {
        ByteBuffer(
            bytes: ConfigEvent.body(
                namespace: channel.publication.namespace, epoch: channel.publication.epoch,
                revision: channel.snapshot.revision,
                state: ConfigState(channel.publication.current.freshness), content: content))
    }

    private func value(in snapshot: ConfigSnapshot) -> JSONValue? {
        path.segments.isEmpty ? snapshot.value : snapshot.value.value(at: path)
    }

    /// Whether the value is the same, in whatever order its members stand. Texts of different lengths differ.
    private static func isSame(_ old: JSONValue?, _ new: JSONValue?) -> Bool {
        guard let old, let new else { return old == nil && new == nil }
        return old.withTextBytes { left in
            new.withTextBytes { right in
                guard left.count == right.count, let first = left.baseAddress, let second = right.baseAddress else {
                    return false
                }
                return memcmp(first, second, left.count) == 0 || old == new
            }
        }
    }
}

extension ConfigState {
    /// The state's name on the wire.
    init(_ freshness: Freshness) { self.init(rawValue: freshness.rawValue) }
}
