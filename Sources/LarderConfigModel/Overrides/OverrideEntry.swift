package import LarderJSON

/// A value that a client set at a path.
package struct OverrideEntry: Sendable, Equatable {
    package let path: [String]
    package var value: JSONValue
    /// When it was set, in milliseconds since 1970.
    package var setAt: Int
    /// When it expires, in milliseconds since 1970; nil for never.
    package var expiresAt: Int?
    /// The process that set it; nil if unknown.
    package var setBy: Peer?
    /// Why it was set; nil if the client gave no reason.
    package var reason: String?

    package init(
        path: [String], value: JSONValue, setAt: Int, expiresAt: Int? = nil, setBy: Peer? = nil, reason: String? = nil
    ) {
        self.path = path
        self.value = value
        self.setAt = setAt
        self.expiresAt = expiresAt
        self.setBy = setBy
        self.reason = reason
    }

    /// The size of the value and its path as text, in bytes.
    package var bytes: Int { value.textSize + path.reduce(0) { $0 + $1.utf8.count + 5 } }
}
