import LarderConfig
import LarderImages
import LarderWire

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

// Who may do what: the one place that decides it.

extension PeerCredentials {
    /// Whether the peer is shown secrets where others get a mask: root, and who runs the agent. Both can read the state
    /// directory anyway.
    var maySeeSecrets: Bool { uid == 0 || uid == Int(geteuid()) }

    /// Whether the peer may have what an origin gives for the credential of the settings: root, who runs the agent, and
    /// whom the settings name.
    func mayHaveImages(of origin: ImageOrigin) -> Bool {
        maySeeSecrets || origin.users.contains(UInt32(clamping: uid)) || origin.groups.contains(UInt32(clamping: gid))
            || groups.contains { origin.groups.contains($0) }
    }

    /// The peer as provenance remembers it.
    var provenance: Peer { Peer(pid: pid, uid: uid, command: command) }
}

extension RequestScope {
    /// What has to be masked in a namespace's values for the peer; nothing for one that may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        peer.maySeeSecrets ? .none : namespace.configuration.secrets
    }
}

extension ImageService {
    /// Whether a peer may have the images of a URL.
    func allows(_ peer: PeerCredentials, _ url: String) -> Bool {
        restriction(of: url).map(peer.mayHaveImages) ?? true
    }

    /// Refuses a peer that may not have the images of a URL.
    /// - Throws: `denied`
    func check(_ peer: PeerCredentials, _ url: String) throws(WireError) {
        if let origin = restriction(of: url), !peer.mayHaveImages(of: origin) { throw Self.denied(origin) }
    }

    /// What a peer is told that wants to remove what others pinned.
    static let pinsDenied = WireError(
        .denied,
        "only root and the user who runs the agent remove all pinned images at once; remove them one by one, or leave "
            + "includingPinned out")

    /// What a peer is told that may not have an origin's images.
    static func denied(_ origin: ImageOrigin) -> WireError {
        WireError(
            .denied,
            "the agent shows \(origin.name) a credential that is not meant for everybody; have your user or one of your "
                + "groups named in images.origins[\"\(origin.name)\"] of the settings")
    }
}
