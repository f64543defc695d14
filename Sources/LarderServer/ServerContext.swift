package import LarderConfig
import LarderEncoding
import LarderImages
package import LarderPlatform
package import LarderProtocol
package import Logging
import Synchronization

/// The parts of the server that all connections share: namespaces, limits, access rules, images.
package final class ServerContext: Sendable {
    /// The identity of the agent, as `agent.info` reports it.
    package struct Identity: Sendable {
        package var version: String
        package var socketPath: String
        /// Whether systemd passed the socket.
        package var isActivated: Bool
        package var stateDirectory: String

        package init(version: String, socketPath: String, isActivated: Bool, stateDirectory: String) {
            self.version = version
            self.socketPath = socketPath
            self.isActivated = isActivated
            self.stateDirectory = stateDirectory
        }
    }

    /// Where the current settings come from: the file, and the time at which it was read; and why the file cannot be
    /// used now.
    package struct SettingsSource: Sendable {
        /// The settings file; nil if the agent runs with the defaults.
        package var path: String?
        package var readAt: Timestamp
        /// Why the start or the last reload refused the settings file, so that earlier settings are in effect; nil if
        /// it did not.
        package var problem: String?
        /// Why the settings could not be saved for a start at which the file is invalid; nil if they were.
        package var savingProblem: String?

        package init(path: String?, readAt: Timestamp, problem: String? = nil) {
            self.path = path
            self.readAt = readAt
            self.problem = problem
        }
    }

    package let namespaces: ConfigNamespaces
    package let identity: Identity
    /// Exports plain copies of the snapshots; nil if the settings do not request them or the socket is abstract.
    package let copies: SnapshotExporter?
    /// The image cache; nil if the settings switch it off, or if it cannot be used.
    package let images: ImageService?
    private let imageStartProblem: String?
    /// The current snapshots as files, for clients that map them.
    let snapshotFiles = SnapshotFiles()
    /// The compiled feature flags of the current snapshots.
    let flags = FlagCache()
    /// The time of day, for rules of feature flags.
    let wallClock: WallClock
    let authorizer: Authorizer
    let logger: Logger
    let refusals: RefusalLogs
    let startedAt: Timestamp
    let startedOnClock = ContinuousClock.now

    /// The state that a reload or an event outside the server changes.
    private struct State {
        var limits: ConnectionLimits
        var settings: SettingsSource
        var rules: AccessRules
        var threadProblem: String?
        var reportProblem: String?
    }

    /// All event loops read it, and a task that reloads the settings changes it.
    private let state: Mutex<State>
    private let accessVersion = Atomic<Int>(0)

    /// Why the image cache cannot be used; nil if it can be used, or if the settings switch it off.
    var imageProblem: String? { imageStartProblem ?? images?.view.problem?.description }

    package init(
        namespaces: ConfigNamespaces, identity: Identity, settings: SettingsSource, limits: ConnectionLimits,
        access: AccessRules = AccessRules(), copies: SnapshotExporter? = nil, images: ImageService? = nil,
        imageProblem: String? = nil, wallClock: WallClock = .system, logger: Logger
    ) {
        self.wallClock = wallClock
        self.namespaces = namespaces
        self.copies = copies
        self.images = images
        authorizer = Authorizer(namespaces: namespaces, images: images)
        imageStartProblem = imageProblem
        self.identity = identity
        self.logger = logger
        refusals = RefusalLogs(logger)
        startedAt = Timestamp(milliseconds: WallClock.system.now)
        state = Mutex(State(limits: limits, settings: settings, rules: access))
    }

    /// The limits for connections that are accepted from now on.
    package var limits: ConnectionLimits {
        get { state.withLock { $0.limits } }
        set { state.withLock { $0.limits = newValue } }
    }

    /// Why the agent cannot start threads; nil if it can.
    package var threadProblem: String? {
        get { state.withLock { $0.threadProblem } }
        set { state.withLock { $0.threadProblem = newValue } }
    }

    /// Why the last report was not accepted; nil if it was, or if the settings request none.
    var reportProblem: String? {
        get { state.withLock { $0.reportProblem } }
        set { state.withLock { $0.reportProblem = newValue } }
    }

    /// Where the current settings come from. Replaced by a reload.
    package var settings: SettingsSource {
        get { state.withLock { $0.settings } }
        set { state.withLock { $0.settings = newValue } }
    }

    /// Sets why a reload refused the settings file.
    package func note(settingsProblem: String) { state.withLock { $0.settings.problem = settingsProblem } }

    /// Sets why the settings could not be saved; nil if they were.
    package func note(savingProblem: String?) { state.withLock { $0.settings.savingProblem = savingProblem } }

    /// The current access rules.
    package var rules: AccessRules { state.withLock { $0.rules } }

    /// Increases with each change of the rules. Rights with an earlier version are invalid.
    var rulesVersion: Int { accessVersion.load(ordering: .acquiring) }

    func rights(of peer: PeerCredentials) -> PeerRights {
        // The version is read first. If the rules change in between, these rights count as outdated and are computed
        // again.
        let version = rulesVersion
        return PeerRights(of: peer, by: rules, version: version)
    }

    /// Replaces the access rules.
    /// - Returns: false if the new rules equal the current ones
    func use(_ rules: AccessRules) -> Bool {
        let isChanged = state.withLock { state in
            defer { state.rules = rules }
            return state.rules != rules
        }
        if isChanged { accessVersion.add(1, ordering: .releasing) }
        return isChanged
    }

    /// The image cache.
    /// - Throws: `unavailable` if the settings disable the image cache or it cannot be used
    func imageService() throws(WireError) -> ImageService {
        if let images { return images }
        if let imageProblem {
            throw WireError(
                .unavailable, "the image cache is unavailable: \(imageProblem); correct this, then restart the agent")
        }
        throw WireError(
            .unavailable, "the settings disable the image cache; set images.enabled to true and restart the agent")
    }

    /// Milliseconds since the agent started.
    var uptimeMilliseconds: Int { (ContinuousClock.now - startedOnClock).milliseconds }
}
