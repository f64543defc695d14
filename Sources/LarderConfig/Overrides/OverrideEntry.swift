import LarderJSON

/// A value that a client set at a path.
struct OverrideEntry: Sendable, Equatable {
    let path: [String]
    var value: JSONValue
    /// When it was set, in milliseconds since 1970.
    var setAt: Int
    /// When it expires, in milliseconds since 1970; nil for never.
    var expiresAt: Int?
    /// The process that set it; nil if that is not recorded.
    var setBy: Peer?

    init(path: [String], value: JSONValue, setAt: Int, expiresAt: Int? = nil, setBy: Peer? = nil) {
        self.path = path
        self.value = value
        self.setAt = setAt
        self.expiresAt = expiresAt
        self.setBy = setBy
    }

    /// The size of the value and the path in a document, in bytes.
    var bytes: Int { value.textSize + path.reduce(0) { $0 + $1.utf8.count + 5 } }
}
