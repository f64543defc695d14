/// The rights that the caller of a method needs.
package enum Requirement: Sendable, Equatable {
    /// No right: every connected client may call the method.
    case nothing
    /// A right that the peer has for the whole agent.
    case general(Right)
    /// A right that the peer has for the whole agent or for any namespace. The method returns only what the peer may
    /// see.
    case anywhere(Right)
    case inNamespace(Right, String)
    /// All of these rights.
    case allInNamespace([Right], String)
    /// One or two rights for the whole agent, and access to the images of a URL, because an origin may be restricted to
    /// certain users.
    case image(url: String, Right, and: Right? = nil)
}

/// A method whose schema states the rights that its caller needs (`x-right`, `x-scope`, `x-right-if` and
/// `x-right-also`).
package protocol AuthorizedMethod: WireMethod {
    /// The rights that a call with these parameters needs.
    static func requirement(_ parameters: Parameters) -> Requirement
}
