public import LarderConfig
public import LarderWire
public import Logging
import Synchronization

/// What every connection and method may know: the namespaces, the limits in force, and who the agent is.
public final class ServerContext: Sendable {
    /// What the agent says of itself.
    public struct Identity: Sendable {
        /// The program's version.
        public var version: String
        public var socketPath: String
        /// Whether the socket was handed over.
        public var isActivated: Bool
        public var stateDirectory: String
        /// The settings file in force; nil for none.
        public var settingsPath: String?

        public init(
            version: String, socketPath: String, isActivated: Bool, stateDirectory: String, settingsPath: String?
        ) {
            self.version = version
            self.socketPath = socketPath
            self.isActivated = isActivated
            self.stateDirectory = stateDirectory
            self.settingsPath = settingsPath
        }
    }

    public let namespaces: ConfigNamespaces
    /// Who the agent is.
    public let identity: Identity
    /// The plain copies of the snapshots; nil if the settings want none or the socket is abstract.
    public let copies: CurrentCopies?
    /// The image cache; nil where the settings switch it off, or it cannot be used.
    public let images: ImageService?
    /// Why the image cache cannot be used; nil where it can, or is not wanted.
    let imageProblem: String?
    /// The current snapshots as files, for those who map them.
    let snapshotFiles = SnapshotFiles()
    let logger: Logger
    let refusals: RefusalLogs
    let startedAt: Timestamp
    let startedOnClock = ContinuousClock.now
    private let limitsInForce: Mutex<LimitSettings>
    private let settingsReading: Mutex<Timestamp>
    private let access: Mutex<AccessRules>
    private let accessVersion = Atomic<Int>(0)

    public init(
        namespaces: ConfigNamespaces, identity: Identity, settingsReadAt: Timestamp, limits: LimitSettings,
        access: AccessRules = AccessRules(), copies: CurrentCopies? = nil, images: ImageService? = nil,
        imageProblem: String? = nil, logger: Logger
    ) {
        self.namespaces = namespaces
        self.copies = copies
        self.images = images
        self.imageProblem = imageProblem
        self.identity = identity
        self.logger = logger
        refusals = RefusalLogs(logger)
        startedAt = Timestamp(milliseconds: WallClock.system.now)
        limitsInForce = Mutex(limits)
        settingsReading = Mutex(settingsReadAt)
        self.access = Mutex(access)
    }

    /// The limits for connections that are accepted from now on.
    public var limits: LimitSettings {
        get { limitsInForce.withLock { $0 } }
        set { limitsInForce.withLock { $0 = newValue } }
    }

    /// When the settings in force were read.
    public var settingsReadAt: Timestamp {
        get { settingsReading.withLock { $0 } }
        set { settingsReading.withLock { $0 = newValue } }
    }

    /// Who may do what.
    public var rules: AccessRules { access.withLock { $0 } }

    /// Grows with each change of the rules: rights that were worked out before count no more.
    var rulesVersion: Int { accessVersion.load(ordering: .acquiring) }

    func rights(of peer: PeerCredentials) -> PeerRights {
        // First the version: whatever changes meanwhile makes these rights too old, and not the next.
        let version = rulesVersion
        return PeerRights(of: peer, by: rules, version: version)
    }

    /// Takes other rules.
    /// - Returns: false where they say the same.
    func use(_ rules: AccessRules) -> Bool {
        let isChanged = access.withLock { access in
            defer { access = rules }
            return access != rules
        }
        if isChanged { accessVersion.add(1, ordering: .releasing) }
        return isChanged
    }

    /// Milliseconds since the start.
    var uptimeMilliseconds: Int {
        let (seconds, attoseconds) = (ContinuousClock.now - startedOnClock).components
        return Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
    }
}
