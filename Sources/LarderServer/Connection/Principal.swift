import LarderProtocol

/// The peer of a connection and its rights.
struct Principal {
    private(set) var credentials: PeerCredentials
    /// The rights under the rules with the version ``PeerRights/version``. The connection replaces them when the rules
    /// change.
    var rights: PeerRights
    private var hasReadLogin = false

    /// Whether the peer may store images and therefore pass descriptors. Descriptors from other peers are not received,
    /// so the kernel closes them. If the agent received and closed them, close(2) could block, because a program of the
    /// peer may serve the file (FUSE).
    var mayPassDescriptors: Bool { rights.general.contains(.push) && rights.general.contains(.images) }

    init(_ credentials: PeerCredentials, rights: PeerRights) {
        self.credentials = credentials
        self.rights = rights
    }

    /// Reads the name of the peer's process unless the name is known. Reading the name takes three system calls, so it
    /// is not read for cached replies.
    mutating func identify() {
        if credentials.knownCommand == nil {
            credentials.knownCommand = PeerCredentials.command(of: credentials.pid)
        }
    }

    /// Reads the user who logged in, unless that was done before. Only changes record it, so other requests do not take
    /// the system calls.
    mutating func identifyLogin() {
        if hasReadLogin { return }
        hasReadLogin = true
        credentials.loginUID = PeerCredentials.loginUser(of: credentials.pid)
    }
}
