public import LarderConfig
import LarderWire
public import Logging
import Synchronization

/// What every connection and method may know: the namespaces, the limits in force, and who the agent is.
public final class ServerContext: Sendable {
    /// What the agent says of itself.
    public struct Identity: Sendable {
        /// The program's version.
        public var version: String
        /// The path of the socket.
        public var socketPath: String
        /// Whether the socket was handed over.
        public var isActivated: Bool
        /// Where the state is.
        public var stateDirectory: String
        /// The settings file in force; nil for none.
        public var settingsPath: String?

        /// Makes it.
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

    /// All namespaces.
    public let namespaces: ConfigNamespaces
    /// Who the agent is.
    public let identity: Identity
    /// The plain copies of the snapshots; nil where the settings want none.
    public let copies: CurrentCopies?
    /// The image cache; nil where the settings switch it off.
    public let images: ImageService?
    let logger: Logger
    let startedAt: Timestamp
    let startedOnClock = ContinuousClock.now
    private let limitsInForce: Mutex<LimitSettings>

    /// Makes the context of a server.
    public init(
        namespaces: ConfigNamespaces, identity: Identity, limits: LimitSettings, copies: CurrentCopies? = nil,
        images: ImageService? = nil, logger: Logger
    ) {
        self.namespaces = namespaces
        self.copies = copies
        self.images = images
        self.identity = identity
        self.logger = logger
        startedAt = Timestamp(milliseconds: WallClock.system.now)
        limitsInForce = Mutex(limits)
    }

    /// The limits for connections that are accepted from now on.
    public var limits: LimitSettings {
        get { limitsInForce.withLock { $0 } }
        set { limitsInForce.withLock { $0 = newValue } }
    }

    /// Milliseconds since the start.
    var uptimeMilliseconds: Int {
        let (seconds, attoseconds) = (ContinuousClock.now - startedOnClock).components
        return Int(seconds) * 1000 + Int(attoseconds / 1_000_000_000_000_000)
    }

    /// The namespace of a request.
    /// - Throws: `unknownNamespace`, naming those that exist.
    func namespace(_ name: String) throws(WireError) -> ConfigNamespace {
        if let namespace = namespaces[name] { return namespace }
        let known = namespaces.all.map(\.name).joined(separator: ", ")
        throw WireError(
            .unknownNamespace, "\"\(name)\" is not declared in the settings; declared are: \(known)")
    }
}
