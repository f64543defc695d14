/// Why a snapshot came into being: one change among those that it was published for.
package struct ChangeCause: Sendable, Hashable {
    package enum Kind: String, Sendable {
        /// What the agent found when it started differs from what it served last.
        case start
        /// A value was put into the override layer.
        case set
        /// Overrides were removed.
        case unset
        /// Overrides ended by themselves.
        case expiry
        /// The administrator's files changed.
        case host
        /// The shipped files changed.
        case defaults
        /// The settings changed.
        case settings
        /// The remote source gave another document.
        case refresh
        /// A local process handed a document over.
        case push
        /// The content of an earlier snapshot was taken up again.
        case rollback
        /// What a rollback held was released.
        case release
    }

    package var kind: Kind
    /// Where the overrides were, for `set` and `unset`; nil also where it is too long to be kept.
    package var path: [String]?
    /// The revision whose content a rollback took up.
    package var revision: Int?
    /// Who asked for it, where somebody did.
    package var peer: Peer?
    /// The URL or path of the source that gave the document.
    package var origin: String?

    /// A path with more bytes than this is not kept: a history of many would hold much that nobody reads.
    private static let longestPath = 1024

    package init(
        _ kind: Kind, path: [String]? = nil, revision: Int? = nil, peer: Peer? = nil, origin: String? = nil
    ) {
        self.kind = kind
        self.path = path.flatMap { path in
            path.reduce(0) { $0 + $1.utf8.count + 1 } <= Self.longestPath ? path : nil
        }
        self.revision = revision
        self.peer = peer
        self.origin = origin
    }
}

extension [ChangeCause] {
    /// A snapshot that joins more changes than this tells of the last ones.
    package static let maxCount = 64

    /// Each cause once, in the order of the changes, and the last ones only where there are many.
    package func joined() -> [ChangeCause] {
        if count < 2 { return self }
        var known: Set<ChangeCause> = []
        let causes = filter { known.insert($0).inserted }
        return causes.count > Self.maxCount ? Array(causes.suffix(Self.maxCount)) : causes
    }
}
