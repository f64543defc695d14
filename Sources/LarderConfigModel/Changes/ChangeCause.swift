/// One of the changes for which a snapshot was published.
package struct ChangeCause: Sendable, Hashable {
    package enum Kind: String, Sendable {
        /// The agent started and needed a new revision: the state differs from the last published one, or the last
        /// published revision is not known.
        case start
        /// A client set a value in the override layer.
        case set
        /// A client removed overrides.
        case unset
        /// A client applied several changes as one.
        case apply
        /// A client added to a number.
        case increment
        /// Overrides expired.
        case expiry
        /// The administrator's files changed.
        case host
        /// The files with shipped defaults changed.
        case defaults
        /// The settings changed.
        case settings
        /// The remote source returned another document.
        case refresh
        /// A local process pushed a document.
        case push
        /// The content of an earlier snapshot was restored.
        case rollback
        /// The hold of a rollback was released.
        case release
    }

    package var kind: Kind
    /// The path of the overrides, for `set`, `unset` and `increment`; for `apply`, the path that all its changes share,
    /// unless that is the whole document. Nil for other kinds, and if the path is longer than 1,024 bytes.
    package var path: [String]?
    /// The revision that a rollback restored.
    package var revision: Int?
    /// The client that requested the change; nil if no client did.
    package var peer: Peer?
    /// The URL or path of the source, for `refresh`.
    package var origin: String?
    /// Why the client requested the change; nil if it gave no reason.
    package var reason: String?

    /// The maximum length of a recorded path in bytes. In a long history, longer paths would take much memory.
    private static let maxPathBytes = 1024

    package init(
        _ kind: Kind, path: [String]? = nil, revision: Int? = nil, peer: Peer? = nil, origin: String? = nil,
        reason: String? = nil
    ) {
        self.kind = kind
        self.path = path.flatMap { path in
            path.reduce(0) { $0 + $1.utf8.count + 1 } <= Self.maxPathBytes ? path : nil
        }
        self.revision = revision
        self.peer = peer
        self.origin = origin
        self.reason = reason
    }
}

extension [ChangeCause] {
    /// The maximum number of causes of one snapshot.
    package static let maxCount = 64

    /// The distinct causes, in the order of the changes. If there are more than ``maxCount``, only the last ones.
    package func joined() -> [ChangeCause] {
        if count < 2 { return self }
        var known: Set<ChangeCause> = []
        let causes = filter { known.insert($0).inserted }
        return causes.count > Self.maxCount ? Array(causes.suffix(Self.maxCount)) : causes
    }
}

/// The local process that made a change, as the kernel and `/proc` identified the process when it connected.
package struct Peer: Sendable, Hashable {
    /// Process ID; 0 if the kernel does not provide it.
    package var pid: Int
    /// Effective user ID.
    package var uid: Int
    /// The process name, at most 15 bytes (`comm` in proc(5)); empty if it could not be read.
    package var command: String
    /// The user who logged in (`loginuid` in proc(5)), which sudo(8) does not change; nil if unset or not read.
    package var loginUID: Int?

    package init(pid: Int, uid: Int, command: String, loginUID: Int? = nil) {
        self.pid = pid
        self.uid = uid
        self.command = command
        self.loginUID = loginUID
    }
}
