/// The rights of peers that are or were recently connected to one event loop. Peers with the same user and groups share
/// one entry.
struct RightsCache {
    /// The accounts of a peer, which determine its rights.
    private struct Accounts: Hashable {
        let (user, group): (Int, Int)
        let groups: [UInt32]
    }

    private static let maxEntries = 256

    private var rights: [Accounts: PeerRights] = [:]

    /// The rights of a peer under the current rules.
    mutating func rights(of peer: PeerCredentials, by server: ServerContext) -> PeerRights {
        let accounts = Accounts(user: peer.uid, group: peer.gid, groups: peer.groups)
        if let known = rights[accounts], known.version == server.rulesVersion { return known }
        if rights.count >= Self.maxEntries { rights.removeAll() }
        let new = server.rights(of: peer)
        rights[accounts] = new
        return new
    }
}
