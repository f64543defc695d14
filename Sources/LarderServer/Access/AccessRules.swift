import LarderProtocol

/// The rights that the settings grant. Accounts are identified by ids.
package struct AccessRules: Sendable, Equatable {
    /// The rights that one `access` member of the settings grants.
    package struct Grants: Sendable, Equatable {
        /// The rights of users, by user id.
        package var users: [UInt32: Rights] = [:]
        /// The rights of groups, by group id.
        package var groups: [UInt32: Rights] = [:]
        /// The rights of all peers.
        package var others: Rights = []

        package init(users: [UInt32: Rights] = [:], groups: [UInt32: Rights] = [:], others: Rights = []) {
            self.users = users
            self.groups = groups
            self.others = others
        }

        /// The rights of a peer: the union of those of its user, its group, its supplementary groups, and all peers.
        func rights(of peer: PeerCredentials) -> Rights {
            var rights = others
            if let own = users[UInt32(clamping: peer.uid)] { rights.formUnion(own) }
            if let own = groups[UInt32(clamping: peer.gid)] { rights.formUnion(own) }
            for group in peer.groups {
                if let own = groups[group] { rights.formUnion(own) }
            }
            return rights
        }
    }

    /// The access to the agent as a whole, and to namespaces without an access of their own.
    package var general = Grants()
    /// The access to namespaces that have an access of their own, which replaces ``general`` there.
    package var namespaces: [String: Grants] = [:]

    /// Rules that grant no rights. Root and the agent's own user have all rights regardless of the rules.
    package init() {}

    /// Returns these rules, with the previous rules for namespaces that are absent here. Used during a reload, while
    /// the namespaces of both settings exist.
    package func keepingNamespaces(of previous: AccessRules) -> AccessRules {
        var rules = self
        rules.namespaces.merge(previous.namespaces) { own, _ in own }
        return rules
    }

    /// The permission bits of a namespace's plain copy: those of the settings, without the bits for the group or for
    /// others if these may not read the namespace.
    /// - Parameters:
    ///   - mode: the permission bits in the settings
    ///   - group: the group of the copy
    func copyMode(_ mode: UInt32, of namespace: String, group: UInt32) -> UInt32 {
        let grants = namespaces[namespace] ?? general
        let isForOthers = grants.others.contains(.read)
        let isForGroup = isForOthers || grants.groups[group]?.contains(.read) == true
        return mode & (0o700 | (isForGroup ? 0o070 : 0) | (isForOthers ? 0o007 : 0))
    }
}
