import LarderConfig
import LarderConfigModel
import LarderJSON
import LarderProtocol
import LarderUpstream

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
        mayHaveHiddenNamespaces =
            !general.contains(.monitor) && (defaultRights.isEmpty || own.values.contains { $0.isEmpty })
    }

    /// The rights in a namespace. The namespace need not exist.
    func rights(in namespace: String) -> Rights { own[namespace] ?? defaultRights }

    /// Whether the settings of the namespace have an `access` member.
    func hasOwnRights(in namespace: String) -> Bool { own[namespace] != nil }

    /// Whether a request is permitted because it only reads one namespace, and the peer may read every namespace.
    @inline(__always)
    func permitsEveryRead(_ requirement: Requirement) -> Bool {
        if readsEverything, case .inNamespace(.read, _) = requirement { true } else { false }
    }

    func mayRead(_ namespace: String) -> Bool { readsEverything || rights(in: namespace).contains(.read) }

    func hasAnywhere(_ right: Right) -> Bool { general.contains(right) || own.values.contains { $0.contains(right) } }

    /// Whether the peer may see the states and figures of all namespaces, and therefore their names.
    var monitors: Bool { general.contains(.monitor) }

    /// Whether the peer may know that the namespace exists: true if the peer has a right in the namespace, or the right
    /// `monitor`.
    func mayKnow(of namespace: String) -> Bool { monitors || !rights(in: namespace).isEmpty }

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

/// Which values of a namespace a peer may see.
struct ValueVisibility: Sendable {
    let mayRead: Bool
    /// The patterns of the paths whose values are masked.
    let secrets: SecretPatterns

    /// Returns the value as the peer may see it, and whether any part of it is masked.
    func shown(_ value: JSONValue, at path: JSONPath) -> (JSONValue, Bool) {
        mayRead ? secrets.masked(value, at: path) : (SecretPatterns.mask, true)
    }
}
