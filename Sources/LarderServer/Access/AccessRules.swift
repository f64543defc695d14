import LarderProtocol

/// Who has which rights, as the settings say it, with accounts by their numbers.
public struct AccessRules: Sendable, Equatable {
    /// What one `access` of the settings gives.
    package struct Grants: Sendable, Equatable {
        /// The rights of users, by number.
        package var users: [UInt32: Rights] = [:]
        /// The rights of groups, by number.
        package var groups: [UInt32: Rights] = [:]
        /// For everybody, whoever it is.
        package var others: Rights = []

        package init(users: [UInt32: Rights] = [:], groups: [UInt32: Rights] = [:], others: Rights = []) {
            self.users = users
            self.groups = groups
            self.others = others
        }

        /// All that a peer has by them: by its user, by its group, by each of its other groups.
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

    /// What holds where a namespace says nothing else.
    package var general = Grants()
    /// What the namespaces say that have an access of their own. It stands in the place of ``general`` there.
    package var namespaces: [String: Grants] = [:]

    /// Rules that give nobody anything. Root and the user who runs the agent need none.
    public init() {}

    /// These rules, and beside them what others say of namespaces that these say nothing of: for the time in which the
    /// namespaces of both are there.
    public func keepingNamespaces(of former: AccessRules) -> AccessRules {
        var rules = self
        rules.namespaces.merge(former.namespaces) { own, _ in own }
        return rules
    }

    /// The permission bits of a namespace's plain copy: those of the settings, less those of a group and of others that may
    /// not read the namespace.
    /// - Parameters:
    ///   - mode: what the settings say.
    ///   - group: the group of the copy.
    func copyMode(_ mode: UInt32, of namespace: String, group: UInt32) -> UInt32 {
        let grants = namespaces[namespace] ?? general
        let isForOthers = grants.others.contains(.read)
        let isForGroup = isForOthers || grants.groups[group]?.contains(.read) == true
        return mode & (0o700 | (isForGroup ? 0o070 : 0) | (isForOthers ? 0o007 : 0))
    }
}
