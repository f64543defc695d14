import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore
import Glibc

/// All subscriptions of one event loop to one path of one namespace. They share encoded event bodies.
final class Topic {
    let path: JSONPath
    /// A strong reference, so that the channel exists while the topic uses it: a write to a client may close its
    /// connection, which may remove the last subscription, the topic and the channel. The reference cycle ends when the
    /// channel removes the topic.
    let channel: SnapshotChannel
    /// The subscriptions, in no particular order.
    private(set) var subscriptions: [Subscription] = []
    /// The last revision in which the value at the path changed.
    private(set) var lastChanged: Int
    /// The snapshot that patches are relative to: the one before the change that is being delivered. Nil while no
    /// change is being delivered.
    private var base: Base?
    private var bodies: [BodyKey: ByteBuffer] = [:]
    /// The body that was used last. It is tried first, because most subscriptions need the same body.
    private var lastBody: (key: BodyKey, body: ByteBuffer)?
    /// The body of an ordinary change for subscriptions in the mode `snapshot`. This body is needed most often.
    private var changeBody: ByteBuffer?
    /// The version of the publication that the bodies were encoded from. The version changes also without a new
    /// snapshot, when the state of the namespace changes. The bodies include that state.
    private var bodiesVersion = 0
    /// The revision that the bodies were encoded from. Comparing the version is not enough: the publication gets the
    /// version of a new snapshot before the channel advances to that snapshot, and the channel advances before each
    /// topic drops its bodies.
    private var bodiesRevision = 0

    /// A snapshot, and the first revision whose value at the path is the same as in that snapshot.
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
        lastChanged = channel.revision
    }

    func add(_ subscription: Subscription) {
        subscription.place = subscriptions.count
        subscriptions.append(subscription)
    }

    /// Takes constant time, because ten thousand clients may disconnect at once.
    func remove(_ subscription: Subscription) {
        guard let last = subscriptions.popLast(), last !== subscription else { return }
        subscriptions[subscription.place] = last
        last.place = subscription.place
    }

    /// Advances to a new snapshot. If the value at the path has changed, the caller must offer the snapshot to all
    /// subscriptions and then call ``forgetBase()``.
    /// - Returns: whether the value has changed
    func advance(from old: ConfigSnapshot, to new: ConfigSnapshot) -> Bool {
        forgetBodies()
        guard old.revision == 0 || path.isRoot || !Self.isSame(value(in: old), value(in: new))
        else { return false }
        base = Base(snapshot: old, since: lastChanged)
        lastChanged = new.revision
        return true
    }

    /// Drops the snapshot that patches are relative to, once all subscriptions have been offered the change, so that an
    /// idle topic retains no document. Later patches require that the publication still retains that snapshot.
    func forgetBase() { base = nil }

    /// Compares the revision that a client has with the current one.
    /// - Parameters:
    ///   - since: the revision; nil if the client has none
    ///   - epoch: the epoch of that revision; nil for the current one
    func compare(_ since: Int?, _ epoch: String?, _ mode: ConfigSubscribe.Mode) -> SubscriptionState.ClientRevision {
        let (publication, current) = (channel.publication, channel.revision)
        guard current > 0, let since else { return .nothing }
        if epoch.map({ $0 != publication.epoch }) ?? false || since > current { return .foreign }
        if since == current || isUnchanged(since: since) { return .current }
        let isPatchable = mode == .patch && publication.recent(revision: since) != nil
        return .outdated(revision: since, isPatchable: isPatchable)
    }

    /// The part of an event that all subscriptions in the same mode share.
    func body(of event: SubscriptionState.Event, _ mode: ConfigSubscribe.Mode) -> ByteBuffer {
        let (version, revision) = (channel.publication.version, channel.revision)
        if version != bodiesVersion || revision != bodiesRevision {
            forgetBodies()
            (bodiesVersion, bodiesRevision) = (version, revision)
        }
        let reason = event.reason
        if reason == nil, mode == .snapshot {
            if let changeBody { return changeBody }
            let body = snapshotBody(.change)
            changeBody = body
            return body
        }
        if mode == .revision { return revisionBody(reason ?? .change) }
        if let reason { return snapshotBody(reason) }
        guard mode == .patch else { return snapshotBody(.change) }
        let from = event.base
        if let known = known(.patch(from: from)) { return known }
        guard let oldSnapshot = snapshot(withValueAt: from) else { return snapshotBody(.gap) }
        guard let old = value(in: oldSnapshot), let new = value(in: channel.snapshot),
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

    /// A snapshot whose value at the path equals the value in `revision`; nil if none is retained. The patch base
    /// (``base``) serves for all revisions with the same value.
    private func snapshot(withValueAt revision: Int) -> ConfigSnapshot? {
        if let base, base.since <= revision, revision <= base.snapshot.revision { return base.snapshot }
        return channel.publication.recent(revision: revision)
    }

    /// Whether the value at the path is the same as in `revision`; false if the snapshot of that revision is no longer
    /// retained. Always false for the root, whose value counts as changed in every revision.
    private func isUnchanged(since revision: Int) -> Bool {
        if path.isRoot { return false }
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
                revision: channel.revision,
                state: ConfigState(channel.publication.current.freshness), content: content))
    }

    private func value(in snapshot: ConfigSnapshot) -> JSONValue? {
        path.isRoot ? snapshot.value : snapshot.value.value(at: path)
    }

    /// Whether two values are equal. Values with texts of different lengths count as different.
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
    /// Converts the state of a namespace to the state with the same name in the protocol.
    init(_ freshness: Freshness) { self.init(rawValue: freshness.rawValue) }
}
