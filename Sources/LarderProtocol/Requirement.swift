/// The rights that the caller of a method needs.
package enum Requirement: Sendable, Equatable {
    /// No right: every connected client may call the method.
    case nothing
    /// The peer must have the right for the whole agent.
    case general(Right)
    /// The peer must have the right for the whole agent or in at least one namespace. The method returns only what the
    /// peer may see.
    case anywhere(Right)
    case inNamespace(Right, String)
    /// The peer must have all of these rights in the namespace.
    case allInNamespace([Right], String)
    /// The peer must have one or two rights for the whole agent, and access to the images of the URL's origin, which
    /// the settings may restrict to certain users.
    case image(url: String, Right, and: Right? = nil)
}

/// A method whose schema states the rights that its caller needs (`x-right`, `x-scope`, `x-right-if` and
/// `x-right-also`).
package protocol AuthorizedMethod: WireMethod {
    /// The rights that a call with these parameters needs.
    static func requirement(_ parameters: Parameters) -> Requirement
}
