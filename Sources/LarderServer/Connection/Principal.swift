import LarderProtocol

/// The peer of a connection and its rights.
struct Principal {
    private(set) var credentials: PeerCredentials
    /// The rights under the rules of ``PeerRights/version``. The connection replaces them when the rules change.
    var rights: PeerRights

    /// Whether the peer may store images and therefore pass descriptors. The kernel closes descriptors of other peers.
    /// The agent does not, because close(2) can block if a program of the peer serves the file.
    var mayPassDescriptors: Bool { rights.general.contains(.push) && rights.general.contains(.images) }

    init(_ credentials: PeerCredentials, rights: PeerRights) {
        self.credentials = credentials
        self.rights = rights
    }

    /// Reads the name of the peer's process unless it is known. That takes three system calls, which cached replies
    /// avoid.
    mutating func identify() {
        if credentials.knownCommand == nil {
            credentials.knownCommand = PeerCredentials.command(of: credentials.pid)
        }
    }
}
