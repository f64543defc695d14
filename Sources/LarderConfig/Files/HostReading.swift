public import JSON

/// What a directory of the administrator's files said at one moment.
public struct HostReading: Sendable {
    /// All files merged in the byte order of their names (RFC 7396), an object.
    public let document: JSONValue
    /// The files that were read, in that order.
    public let files: [HostFile]
    /// What was found and not read, and does no harm.
    public let problems: [HostProblem]

    /// What a directory without files says, and one that does not exist.
    static let empty = HostReading(document: .emptyObject, files: [], problems: [])
}

/// One of the administrator's files.
public struct HostFile: Sendable {
    /// Its name in the directory.
    public let name: String
    /// Its size in bytes.
    public let bytes: Int
    /// What it says, an object.
    public let document: JSONValue
}

/// Something in the directory that an administrator may have meant otherwise.
public struct HostProblem: Sendable, Hashable {
    /// Its name in the directory.
    public let name: String
    /// Why it was not read.
    public let reason: String
}
