import Glibc
import LarderConfigModel
import LarderConfigStorage
import LarderEncoding
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform

/// What the store knows of its sources, and tells of them.
extension ConfigStore {
    /// What proves to a source that its document is held; nil where another document is held, such as a pushed one.
    func validator(ofOrigin origin: String) -> Validator? {
        core.layers.validator(ofOrigin: origin)
    }

    /// Whether a document of the remote source or of a push is held.
    var hasRemoteDocument: Bool { core.layers.hasRemote }

    /// Whether experiments are left out of the document held, which its source may have corrected.
    var lacksExperiments: Bool { core.layers.experiment.problem != nil }

    /// The layers with what a rollback holds.
    var shownLayers: Layers { core.layers.shown }

    /// What the store has to do within a time, as ``ConfigNamespace/pendingWork(within:)``.
    func pendingWork(within time: Duration) -> String? {
        if changes.isAtWork { return "is being changed" }
        if storage.isAtWork { return "is being written to the disk" }
        let ends = core.layers.override.expiringEntries.compactMap(\.expiresAt)
        if let next = ends.min(), next - wallClock.now <= time.milliseconds {
            return "has an override that ends soon"
        }
        return nil
    }

    /// Returns when the actor has come to it: for a watchdog.
    package func probe() {}

    #if DEBUG
        /// Blocks the actor, and a thread, for ever: for a test of the watchdog.
        package func blockForEver() -> Never { while true { pause() } }
    #endif

    /// - Parameter isLongPoll: whether the source may take its time, which takes nothing from what is held.
    func refreshBegan(isLongPoll: Bool) { change { $0.refreshBegan(isLongPoll: isLongPoll, now: $1) } }

    /// The source said that what is held is current.
    func refreshConfirmed() { change { $0.remoteAnswered(changed: false, now: $1) } }

    func refreshFailed(_ error: ConfigError) {
        let heldSince = core.layers.remote?.updatedAt
        change { $0.failed(error, heldSince: heldSince, now: $1) }
    }

    /// An answer was refused because it is no configuration.
    func documentRefused(_ error: ConfigError) { change { $0.refused(nil, error, now: $1) } }

    func refreshCancelled() { change { status, _ in status.refreshCancelled() } }

    /// Takes note of a change that was accepted, for whoever made it.
    func note(_ change: LayerChange, changed: Bool) {
        switch change {
        case .remote(_, _, _, isPush: true): status.change { $0.remotePushed(now: wallClock.now) }
        case .remote: status.change { $0.remoteAnswered(changed: changed, now: wallClock.now) }
        case .files(let layer, _): status.change { $0.filesRead(layer, problem: nil, now: wallClock.now) }
        case .set, .unset, .expireOverrides, .rules, .dropRemote, .rollback, .release: break
        }
    }

    func nextAttempt(at time: Int?) { change { status, _ in status.nextAttemptAt = time } }

    func filesFailed(_ layer: FileLayer, _ message: String) {
        change { $0.filesRead(layer, problem: message, now: $1) }
    }

    /// Notes whether changes of a layer's files are watched.
    func watching(_ layer: ConfigLayer, problem: String?) {
        guard status.current.watchProblems[layer] != problem else { return }
        change { status, _ in status.watchProblems[layer] = problem }
    }

    /// Takes over what the settings now say of the namespace.
    func configure(_ limits: StoreLimits, history: HistoryLimits, status newStatus: NamespaceStatus) {
        self.limits = limits
        storage.configure(history)
        let layers = core.layers
        change { $0 = newStatus.continuing($0, layers: layers, now: $1) }
    }

    /// Changes the status and publishes it.
    /// - Parameter body: is passed the time in milliseconds since 1970
    func change(_ body: (inout NamespaceStatus, _ now: Int) -> Void) {
        let now = wallClock.now
        status.change { body(&$0, now) }
        report()
    }

    /// Publishes the status.
    func report() {
        publication.update(StatusRecord(status, holding: core.layers))
        // Who acts on a line in the log finds what it says.
        log.note(status, now: wallClock.now)
    }
}
