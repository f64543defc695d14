/// What the caller of a method needs.
package enum Requirement: Sendable, Equatable {
    /// Nothing: every client that may connect may call the method.
    case nothing
    /// A right for the whole agent.
    case general(Right)
    /// A right for the whole agent or in any namespace; the method shows no more than the peer may see.
    case anywhere(Right)
    case inNamespace(Right, String)
    /// All of these rights.
    case allInNamespace([Right], String)
    /// One right or two for the whole agent, and the images of a URL: an origin may have users of its own.
    case image(url: String, Right, and: Right? = nil)
}

/// A method whose schema says what its caller needs: `x-right`, and with it `x-scope`, `x-right-if` and `x-right-also`.
package protocol AuthorizedMethod: WireMethod {
    /// What a call with these parameters needs.
    static func requirement(_ parameters: Parameters) -> Requirement
}
