package import LarderProtocol

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
