import LarderConfig

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

    /// The peer as provenance remembers it.
    var provenance: Peer { Peer(pid: pid, uid: uid, command: command) }
}

extension RequestScope {
    /// What has to be masked in a namespace's values for the peer; nothing for one that may see secrets.
    func secrets(of namespace: ConfigNamespace) -> SecretPatterns {
        peer.maySeeSecrets ? .none : namespace.configuration.secrets
    }
}
