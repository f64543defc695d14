import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderProtocol
import LarderUpstream

/// Why a peer is denied a request.
struct Denial {
    /// The error for the peer: `denied` or `unknownNamespace`.
    let error: WireError

    /// Whether ``error`` is `denied`: the peer lacks a right, or may not have images of the requested origin.
    var isDenied: Bool { error.code == .denied }
}

/// Decides whether a peer has the rights that a request requires. It decides on each parsed request and each cached
/// reply. After a change of the rules, it decides again on pending requests and subscriptions.
struct Authorizer: Sendable {
    let namespaces: ConfigNamespaces
    /// The image cache; nil if the agent runs without one. Requests for images are then permitted here, and fail later.
    let images: ImageService?

    /// Returns the reason to deny a request; nil if the request is permitted.
    @inline(__always)
    func decide(_ requirement: Requirement, _ rights: PeerRights) -> Denial? {
        // A shortcut for most cached replies.
        if rights.permitsEveryRead(requirement) { return nil }
        return decideAnyCase(requirement, rights)
    }

    private func decideAnyCase(_ requirement: Requirement, _ rights: PeerRights) -> Denial? {
        switch requirement {
        case .nothing: nil
        case .general(let right): rights.general.contains(right) ? nil : .lacking(right)
        case .anywhere(let right): rights.hasAnywhere(right) ? nil : .lacking(right)
        case .inNamespace(let right, let name): decide(right, in: name, rights)
        case .allInNamespace(let all, let name): all.lazy.compactMap { decide($0, in: name, rights) }.first
        case .monitoring(let name): decideMonitoring(name, rights)
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

    /// Decides about an `image.get` of an image whose origin is known.
    /// - Parameter restriction: the origin of the image if it has its own list of permitted users; otherwise nil
    func decide(imageOf restriction: ImageOrigin?, _ rights: PeerRights) -> Denial? {
        if !rights.general.contains(.images) { return .lacking(.images) }
        guard let restriction, !rights.mayHaveImages(of: restriction) else { return nil }
        return .notUser(of: restriction)
    }

    /// A peer from which namespaces may be hidden gets the same denial for a hidden namespace as for one that does not
    /// exist.
    private func decide(_ right: Right, in name: String, _ rights: PeerRights) -> Denial? {
        let granted = rights.rights(in: name)
        if granted.contains(right), rights.hasOwnRights(in: name) || !rights.mayHaveHiddenNamespaces { return nil }
        let exists = namespaces[name] != nil
        if granted.contains(right), exists { return nil }
        // For an invalid name the reply is `unknownNamespace`, even if namespaces may be hidden: a denial would be
        // logged with that name. No namespace can have such a name, so the reply reveals nothing.
        if !exists, !rights.mayHaveHiddenNamespaces || !NamespaceName.isValid(name) {
            return Denial(error: unknownNamespace(name, rights))
        }
        return .lacking(right, in: name, mayNotExist: !rights.mayKnow(of: name) || !exists)
    }

    /// Decides about the status of one namespace, or of all if `name` is nil.
    private func decideMonitoring(_ name: String?, _ rights: PeerRights) -> Denial? {
        guard let name else { return rights.monitors || rights.hasAnywhere(.read) ? nil : .lacking(.read) }
        return rights.monitors && namespaces[name] != nil ? nil : decide(.read, in: name, rights)
    }

    /// The error for a namespace that does not exist. It lists the namespaces whose existence the peer may know of.
    func unknownNamespace(_ name: String, _ rights: PeerRights) -> WireError {
        let known = namespaces.all.map(\.name).filter(rights.mayKnow)
        let others = known.isEmpty ? "" : "; declared namespaces: \(known.joined(separator: ", "))"
        return WireError(.unknownNamespace, "namespace \"\(name.excerpt)\" is not declared in the settings\(others)")
    }
}

extension ImageService {
    /// Returns the reason to deny a peer the images of a URL; nil if the peer may have them. An origin to which the
    /// agent sends a credential has its own list of permitted users.
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
                "requires the right \"\(right.rawValue)\"; grant it with \"access\" in the settings, see larder.json(5)"
            ))
    }

    fileprivate static func lacking(_ right: Right, in namespace: String, mayNotExist: Bool) -> Denial {
        Denial(
            error: WireError(
                lacking: right, in: namespace,
                "requires the right \"\(right.rawValue)\" in namespace \"\(namespace)\""
                    + (mayNotExist ? ", if that exists" : "")
                    + "; grant it with \"access\" in the settings, see larder.json(5)"))
    }

    fileprivate static func notUser(of origin: ImageOrigin) -> Denial {
        Denial(
            error: WireError(
                .denied,
                "images of \(origin.name) are restricted, because the agent sends it a credential; add your user or "
                    + "one of your groups to images.origins[\"\(origin.name)\"] in the settings"))
    }
}
