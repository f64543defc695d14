import LarderConfig
import LarderProtocol

/// What one peer may do, worked out from the rules once: connections of the same peer share it.
final class PeerRights: Sendable {
    /// The version of the rules that it was worked out from.
    let version: Int
    /// Those for the whole agent.
    let general: Rights
    /// Whether it may read every namespace, so that nobody has to ask which one is meant.
    let readsEverything: Bool
    /// In the namespaces that have an access of their own.
    private let own: [String: Rights]
    /// In all others.
    private let usual: Rights
    /// Whether there may be a namespace that the peer is not to know of.
    private let mayBeKeptFromSome: Bool

    init(of peer: PeerCredentials, by rules: AccessRules, version: Int) {
        self.version = version
        general = peer.isTrusted ? .all : rules.general.rights(of: peer)
        usual = general.intersection(.inNamespaces)
        // A namespace cannot give the right to roll back, but it decides whether a peer is let in at all.
        let administer = general.intersection(Rights([.administer]))
        own = rules.namespaces.mapValues { grants in
            if peer.isTrusted { return .inNamespaces }
            let given = grants.rights(of: peer)
            return given.isEmpty ? [] : given.union(administer)
        }
        readsEverything = general.contains(.read) && own.values.allSatisfy { $0.contains(.read) }
        mayBeKeptFromSome = usual.isEmpty || own.values.contains { $0.isEmpty }
    }

    /// The rights in a namespace, whether or not there is one of that name.
    func rights(in namespace: String) -> Rights { own[namespace] ?? usual }

    /// Whether the peer may read a namespace.
    func mayRead(_ namespace: String) -> Bool { readsEverything || rights(in: namespace).contains(.read) }

    func hasAnywhere(_ right: Right) -> Bool { general.contains(right) || own.values.contains { $0.contains(right) } }

    /// Whether it may know that there is a namespace of this name: it has some right in it.
    func mayKnow(of namespace: String) -> Bool { !rights(in: namespace).isEmpty }

    /// What it may do in the namespaces with an access of their own, of those in which it may do anything.
    func inPrivateNamespaces(of namespaces: [ConfigNamespace]) -> [String: [Right]] {
        var rights: [String: [Right]] = [:]
        for namespace in namespaces {
            guard let own = own[namespace.name], !own.isEmpty else { continue }
            rights[namespace.name] = own.list
        }
        return rights
    }

    /// Why the peer may not do what needs something; nil where it may. To a peer that is not to know of some namespace, one
    /// that is not there looks like that one.
    func refusal(of need: Need, _ namespaces: ConfigNamespaces) -> WireError? {
        switch need {
        case .nothing: return nil
        case .general(let right): return general.contains(right) ? nil : Self.lacking(right)
        case .both(let first, let second):
            if !general.contains(first) { return Self.lacking(first) }
            return general.contains(second) ? nil : Self.lacking(second)
        case .anywhere(let right): return hasAnywhere(right) ? nil : Self.lacking(right)
        case .allInNamespace(let needed, let name):
            return needed.lazy.compactMap { self.refusal(of: .inNamespace($0, name), namespaces) }.first
        case .inNamespace(let right, let name):
            let rights = rights(in: name)
            if rights.contains(right), own[name] != nil || !mayBeKeptFromSome { return nil }
            let isThere = namespaces[name] != nil
            if rights.contains(right), isThere { return nil }
            // A name that none can have tells nothing, and is nothing for the log.
            if !isThere, !mayBeKeptFromSome || !NamespaceConfiguration.isName(name) {
                return unknownNamespace(name, namespaces)
            }
            return Self.lacking(right, in: name, mayNotExist: rights.isEmpty || !isThere)
        }
    }

    /// What the peer is told of a namespace that is not there: which others are, of those that it may know of.
    func unknownNamespace(_ name: String, _ namespaces: ConfigNamespaces) -> WireError {
        let known = namespaces.all.map(\.name).filter(mayKnow)
        let others = known.isEmpty ? "" : "; declared are: \(known.joined(separator: ", "))"
        return WireError(.unknownNamespace, "\"\(name)\" is not declared in the settings\(others)")
    }

    private static func lacking(_ right: Right) -> WireError {
        WireError(
            lacking: right, in: nil,
            "needs the right \(right.rawValue); the settings give it by access, see larder.json(5)")
    }

    private static func lacking(_ right: Right, in namespace: String, mayNotExist: Bool) -> WireError {
        WireError(
            lacking: right, in: namespace,
            "needs the right \(right.rawValue) in namespace \(namespace)\(mayNotExist ? ", if there is one" : ""); "
                + "the settings give it by access, see larder.json(5)")
    }
}
