import LarderProtocol

/// The rights that the settings give, with accounts by their ids.
package struct AccessRules: Sendable, Equatable {
    /// The rights that one `access` of the settings gives.
    package struct Grants: Sendable, Equatable {
        /// The rights of users by user id.
        package var users: [UInt32: Rights] = [:]
        /// The rights of groups by group id.
        package var groups: [UInt32: Rights] = [:]
        /// The rights of every peer.
        package var others: Rights = []

        package init(users: [UInt32: Rights] = [:], groups: [UInt32: Rights] = [:], others: Rights = []) {
            self.users = users
            self.groups = groups
            self.others = others
        }

        /// The rights of a peer: those of its user, its group, its supplementary groups, and others.
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

    /// The access for the whole agent, and for namespaces without one of their own.
    package var general = Grants()
    /// The access of namespaces that have one of their own. It replaces ``general`` there.
    package var namespaces: [String: Grants] = [:]

    /// Rules without rights. Root and the user who runs the agent have every right without rules.
    package init() {}

    /// These rules, with those of the previous rules for namespaces that these do not name. They are used while the namespaces
    /// of both exist.
    package func keepingNamespaces(of previous: AccessRules) -> AccessRules {
        var rules = self
        rules.namespaces.merge(previous.namespaces) { own, _ in own }
        return rules
    }

    /// The permission bits of a namespace's plain copy: those of the settings, without those of the group and of others if they
    /// may not read the namespace.
    /// - Parameters:
    ///   - mode: the permission bits of the settings.
    ///   - group: the group of the copy.
    func copyMode(_ mode: UInt32, of namespace: String, group: UInt32) -> UInt32 {
        let grants = namespaces[namespace] ?? general
        let isForOthers = grants.others.contains(.read)
        let isForGroup = isForOthers || grants.groups[group]?.contains(.read) == true
        return mode & (0o700 | (isForGroup ? 0o070 : 0) | (isForOthers ? 0o007 : 0))
    }
}
