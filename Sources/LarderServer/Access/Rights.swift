package import LarderProtocol

/// A set of rights.
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
            }
        self.init(rawValue: 1 << place)
    }

    package init(_ rights: some Sequence<Right>) {
        self = rights.reduce(into: []) { $0.formUnion(Rights($1)) }
    }

    package static let all = Rights(Right.allCases)
    /// The rights that the access of a namespace may grant.
    package static let ofNamespaces = Rights([.read, .write, .push, .secrets])
    /// The rights that can apply within a namespace.
    static let inNamespaces = ofNamespaces.union(Rights(.administer))

    package func contains(_ right: Right) -> Bool { contains(Rights(right)) }

    /// The rights in the order of the protocol.
    package var list: [Right] { Right.allCases.filter(contains) }
}
