import LarderClientCore
import LarderJSON
import Logging

/// A namespace that the gateway serves: its newest snapshot, and the streams of its values. Used on the event loop.
final class ServedNamespace {
    let settings: GatewaySettings.Namespace
    /// Nil until the agent has sent a snapshot, and after it has refused to.
    private(set) var snapshot: ServedSnapshot?
    /// Whether the agent has sent or refused a snapshot.
    private(set) var hasAnswer = false
    /// Whether the agent is unreachable, so that the snapshot may be out of date.
    private(set) var isStale = true
    /// The connections that stream values of this namespace.
    var streams: [ObjectIdentifier: HTTPConnection] = [:]
    /// Values of the snapshot that were requested, so that a value with many streams is encoded once.
    private var lookups: [JSONPath: ServedSnapshot.Lookup] = [:]
    private static let maxLookups = 16

    init(_ settings: GatewaySettings.Namespace) { self.settings = settings }

    /// Adopts a snapshot, or nil if the agent refuses to send one, and notifies the streams.
    func update(_ snapshot: ServedSnapshot?) {
        (self.snapshot, isStale, lookups, hasAnswer) = (snapshot, snapshot == nil, [:], true)
        for stream in Array(streams.values) { stream.refreshStream() }
    }

    func setStale(_ isStale: Bool) { self.isStale = isStale }

    func value(at path: JSONPath) -> ServedSnapshot.Lookup {
        if let lookup = lookups[path] { return lookup }
        let lookup = snapshot?.value(at: path) ?? .missing
        if lookups.count >= Self.maxLookups { lookups = [:] }
        lookups[path] = lookup
        return lookup
    }

    /// Follows the namespace until the task is cancelled.
    static func follow(
        _ settings: GatewaySettings.Namespace, of client: LarderClient, logger: Logger,
        _ change: @escaping @Sendable (@escaping @Sendable (ServedNamespace) -> Void) -> Void
    ) async {
        let name = settings.name
        var last: LarderClientError?
        while !Task.isCancelled {
            let snapshots = client.config[name].mappedSnapshots().failOnRefusal()
                .onInterruption { interruption in
                    change { $0.setStale(true) }
                    if interruption.isRepeated { return }
                    logger.warning(
                        "cannot follow the namespace",
                        metadata: ["namespace": "\(name)", "error": "\(interruption.error)"])
                }
                .onResumption {
                    change { $0.setStale(false) }
                    logger.info("following the namespace again", metadata: ["namespace": "\(name)"])
                }
            do throws(LarderClientError) {
                for try await snapshot in snapshots {
                    last = nil
                    let served = ServedSnapshot(snapshot, flagsIn: settings.flags)
                    change { $0.update(served) }
                }
            } catch {
                // A namespace that the agent refuses to send must not be served any more. A stream that continues after the
                // refusal would not deliver the same snapshot again, so the next one starts from the beginning.
                let isDenied = error.isRefusal && error.remoteError != nil
                change { isDenied ? $0.update(nil) : $0.setStale(true) }
                if error != last {
                    logger.error(
                        "cannot follow the namespace", metadata: ["namespace": "\(name)", "error": "\(error)"])
                }
                last = error
                try? await Task.sleep(for: .seconds(1))
            }
        }
    }
}
