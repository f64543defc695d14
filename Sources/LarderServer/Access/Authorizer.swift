import LarderConfig
import LarderConfigModel
import LarderImages
import LarderProtocol

/// Why a peer does not get what it requests.
struct Denial {
    /// The error that the peer gets: `denied`, or `unknownNamespace`.
    let error: WireError

    /// Whether the peer lacks a right or is not a user of an origin. Otherwise the namespace does not exist.
    var isDenied: Bool { error.code == .denied }
}

/// Decides whether a peer has what a request requires. It is asked for each request that was parsed, for each one that is
/// answered from a cache, and after a change of the rules for whatever waits or is subscribed.
struct Authorizer: Sendable {
    let namespaces: ConfigNamespaces
    /// Nil if the agent runs without its image cache; a request for images then fails after this decision.
    let images: ImageService?

    /// Why a peer does not have what a request requires; nil if it has.
    @inline(__always)
    func decide(_ requirement: Requirement, _ rights: PeerRights) -> Denial? {
        // The common case of a cached reply.
        if rights.readsEverything, case .inNamespace(.read, _) = requirement { return nil }
        return decideAnyCase(requirement, rights)
    }

    private func decideAnyCase(_ requirement: Requirement, _ rights: PeerRights) -> Denial? {
        switch requirement {
        case .nothing: nil
        case .general(let right): rights.general.contains(right) ? nil : .lacking(right)
        case .anywhere(let right): rights.hasAnywhere(right) ? nil : .lacking(right)
        case .inNamespace(let right, let name): decide(right, in: name, rights)
        case .allInNamespace(let all, let name): all.lazy.compactMap { decide($0, in: name, rights) }.first
        case .image(let url, let right, let other):
            if !rights.general.contains(right) {
                .lacking(right)
            } else if let other, !rights.general.contains(other) {
                .lacking(other)
            } else {
                images?.denial(of: url, to: rights)
            }
        }
    }

    /// Decides about `image.get` for an image whose origin is known.
    /// - Parameter restriction: the origin, if only its users may have its images.
    func decide(imageOf restriction: ImageOrigin?, _ rights: PeerRights) -> Denial? {
        if !rights.general.contains(.images) { return .lacking(.images) }
        guard let restriction, !rights.mayHaveImages(of: restriction) else { return nil }
        return .notUser(of: restriction)
    }

    /// A peer that may not know every namespace gets the same denial for a hidden namespace and for one that does not exist.
    private func decide(_ right: Right, in name: String, _ rights: PeerRights) -> Denial? {
        let granted = rights.rights(in: name)
        if granted.contains(right), rights.hasOwnRights(in: name) || !rights.isKeptFromSome { return nil }
        let exists = namespaces[name] != nil
        if granted.contains(right), exists { return nil }
        // A denial would put an invalid name into the log, and an invalid name reveals nothing.
        if !exists, !rights.isKeptFromSome || !NamespaceConfiguration.isName(name) {
            return Denial(error: unknownNamespace(name, rights))
        }
        return .lacking(right, in: name, mayNotExist: granted.isEmpty || !exists)
    }

    /// The error for a namespace that does not exist. It names those that the peer may know.
    func unknownNamespace(_ name: String, _ rights: PeerRights) -> WireError {
        let known = namespaces.all.map(\.name).filter(rights.mayKnow)
        let others = known.isEmpty ? "" : "; declared are: \(known.joined(separator: ", "))"
        return WireError(.unknownNamespace, "\"\(name)\" is not declared in the settings\(others)")
    }
}

extension ImageService {
    /// Why a peer does not get the images of a URL; nil if it does. An origin to which the agent shows a credential has users
    /// of its own.
    func denial(of url: String, to rights: PeerRights) -> Denial? {
        guard let origin = restriction(of: url), !rights.mayHaveImages(of: origin) else { return nil }
        return .notUser(of: origin)
    }
}

extension Denial {
    fileprivate static func lacking(_ right: Right) -> Denial {
        Denial(
            error: WireError(
                lacking: right, in: nil,
                "needs the right \(right.rawValue); the settings give it by access, see larder.json(5)"))
    }

    fileprivate static func lacking(_ right: Right, in namespace: String, mayNotExist: Bool) -> Denial {
        Denial(
            error: WireError(
                lacking: right, in: namespace,
                "needs the right \(right.rawValue) in namespace \(namespace)\(mayNotExist ? ", if there is one" : ""); "
                    + "the settings give it by access, see larder.json(5)"))
    }

    fileprivate static func notUser(of origin: ImageOrigin) -> Denial {
        Denial(
            error: WireError(
                .denied,
                "the agent shows \(origin.name) a credential that is not meant for everybody; have your user or one of "
                    + "your groups named in images.origins[\"\(origin.name)\"] of the settings"))
    }
}
