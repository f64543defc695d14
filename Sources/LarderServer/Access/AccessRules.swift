package import LarderProtocol

/// The rights that the settings grant. Users and groups are identified by their numeric ids.
package struct AccessRules: Sendable, Equatable {
    /// The rights that one `access` member of the settings grants.
    package struct Grants: Sendable, Equatable {
        /// The rights of users, by user id.
        package var users: [UInt32: Rights] = [:]
        /// The rights of groups, by group id.
        package var groups: [UInt32: Rights] = [:]
        /// The rights that every peer has.
        package var others: Rights = []

        package init(users: [UInt32: Rights] = [:], groups: [UInt32: Rights] = [:], others: Rights = []) {
            self.users = users
            self.groups = groups
            self.others = others
        }

        /// The rights of a peer: the union of ``others`` and the rights of the peer's user, group and supplementary
        /// groups.
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

    /// The rights for the agent as a whole, and in each namespace that is not a key of ``namespaces``.
    package var general = Grants()
    /// The rights in each namespace whose settings have an `access` member, by the name of the namespace. They replace
    /// ``general`` there.
    package var namespaces: [String: Grants] = [:]

    /// Whether root and the agent's own user have all rights regardless of the rules. False only in an agent inside a
    /// test, whose clients run as the same user.
    package var trustsOwner = true

    /// Rules that grant no rights. Root and the agent's own user have all rights regardless of the rules.
    package init() {}

    /// Returns these rules, plus the rules of `previous` for namespaces that only `previous` lists. Used during a
    /// reload, while namespaces of both the previous and the new settings exist.
    package func keepingNamespaces(of previous: AccessRules) -> AccessRules {
        var rules = self
        rules.namespaces.merge(previous.namespaces) { own, _ in own }
        return rules
    }

    /// The permission bits of a namespace's plain copy (``SnapshotExporter``). They are the bits in the settings,
    /// without the group bits if the group may not read the namespace, and without the bits for others unless every
    /// user may read the namespace.
    /// - Parameters:
    ///   - mode: the permission bits from the settings (`current.mode`)
    ///   - group: the group that owns the copy
    func copyMode(_ mode: UInt32, of namespace: String, group: UInt32) -> UInt32 {
        let grants = namespaces[namespace] ?? general
        let isForOthers = grants.others.contains(.read)
        let isForGroup = isForOthers || grants.groups[group]?.contains(.read) == true
        return mode & (0o700 | (isForGroup ? 0o070 : 0) | (isForOthers ? 0o007 : 0))
    }
}

/// A set of ``Right`` values, as bits.
package struct Rights: OptionSet, Sendable, Hashable {
    package let rawValue: UInt8

    package init(rawValue: UInt8) { self.rawValue = rawValue }

    private init(_ right: Right) {
        let place: UInt8 =
            switch right {
            case .read: 0
            case .write: 1
            case .push: 2
            case .administer: 3
            case .secrets: 4
            case .images: 5
            case .monitor: 6
            }
        self.init(rawValue: 1 << place)
    }

    package init(_ rights: some Sequence<Right>) {
        self = rights.reduce(into: []) { $0.formUnion(Rights($1)) }
    }

    package static let all = Rights(Right.allCases)
    /// The rights that the `access` member of a namespace may grant.
    package static let ofNamespaces = Rights([.read, .write, .push, .secrets])
    /// The rights that a peer can have in a namespace: those that its `access` member may grant, and `administer`,
    /// which only the general rules grant.
    static let inNamespaces = ofNamespaces.union(Rights(.administer))

    package func contains(_ right: Right) -> Bool { contains(Rights(right)) }

    /// The rights, in the order in which the protocol lists them.
    package var list: [Right] { Right.allCases.filter(contains) }
}
