import LarderConfig
import LarderImages
import LarderProtocol

/// The rights of a peer, computed once from the rules. Connections of peers with the same user and groups share one
/// instance.
final class PeerRights: Sendable {
    /// The version of the rules that the rights were computed from.
    let version: Int
    /// The rights for the whole agent.
    let general: Rights
    /// Whether the peer may read every namespace.
    let readsEverything: Bool
    /// Whether there may be namespaces in which the peer has no right, and whose existence is therefore hidden from it.
    let mayHaveHiddenNamespaces: Bool
    /// The rights in namespaces whose settings have an `access` member.
    private let own: [String: Rights]
    /// The rights in namespaces whose settings have no `access` member.
    private let defaultRights: Rights
    private let isTrusted: Bool
    let user: UInt32
    private let groups: Set<UInt32>

    init(of peer: PeerCredentials, by rules: AccessRules, version: Int) {
        self.version = version
        let isTrusted = rules.trustsOwner && peer.isTrusted
        self.isTrusted = isTrusted
        user = UInt32(clamping: peer.uid)
        groups = Set(peer.groups + [UInt32(clamping: peer.gid)])
        general = isTrusted ? .all : rules.general.rights(of: peer)
        defaultRights = general.intersection(.inNamespaces)
        // The `access` member of a namespace cannot grant the right `administer`. A peer that has `administer` for the
        // whole agent also has it in each such namespace that grants the peer any other right.
        let administer = general.intersection(Rights([.administer]))
        own = rules.namespaces.mapValues { grants in
            if isTrusted { return .inNamespaces }
            let given = grants.rights(of: peer)
            return given.isEmpty ? [] : given.union(administer)
        }
        readsEverything = general.contains(.read) && own.values.allSatisfy { $0.contains(.read) }
        mayHaveHiddenNamespaces = defaultRights.isEmpty || own.values.contains { $0.isEmpty }
    }

    /// The rights in a namespace. The namespace need not exist.
    func rights(in namespace: String) -> Rights { own[namespace] ?? defaultRights }

    /// Whether the settings of the namespace have an `access` member.
    func hasOwnRights(in namespace: String) -> Bool { own[namespace] != nil }

    func mayRead(_ namespace: String) -> Bool { readsEverything || rights(in: namespace).contains(.read) }

    func hasAnywhere(_ right: Right) -> Bool { general.contains(right) || own.values.contains { $0.contains(right) } }

    /// Whether the peer may know that the namespace exists: true if the peer has a right in the namespace.
    func mayKnow(of namespace: String) -> Bool { !rights(in: namespace).isEmpty }

    /// The peer's rights in those of `namespaces` whose settings have an `access` member. Omits namespaces in which the
    /// peer has no right.
    func inPrivateNamespaces(of namespaces: [ConfigNamespace]) -> [String: [Right]] {
        var rights: [String: [Right]] = [:]
        for namespace in namespaces {
            guard let own = own[namespace.name], !own.isEmpty else { continue }
            rights[namespace.name] = own.list
        }
        return rights
    }

    /// Whether the peer may have images of an origin to which the agent sends a credential: the peer is root, the
    /// agent's own user, or an account that the settings list for the origin.
    func mayHaveImages(of origin: ImageOrigin) -> Bool {
        isTrusted || origin.users.contains(user) || !origin.groups.isDisjoint(with: groups)
    }
}
