public import JSON
public import LarderUpstream

/// Where a namespace's remote layer comes from.
public protocol ConfigSource: Sendable {
    /// The kind's name in settings and status: `http` or `file`.
    var kind: String { get }
    /// The URL (without user information) or path, for status and logs.
    var location: String { get }

    /// Asks once.
    /// - Parameter validator: what is held; nil asks for the whole document whatever is held.
    /// - Throws: `upstreamFailed` or `rejected`; `cancelled` when the task was cancelled.
    func fetch(ifChangedFrom validator: Validator?) async throws(ConfigError) -> SourceAnswer

    /// Signals that the source may have changed, for sources that can tell; nil for those that can only be polled.
    func changes() -> AsyncStream<Void>?
}

/// A source's usable answer.
public enum SourceAnswer: Sendable {
    /// What is held is still current.
    case notModified
    /// A document that passed every check which needs no knowledge of what is held.
    case document(SourceDocument)
}

/// A document as a source gave it.
public struct SourceDocument: Sendable {
    /// The document, an object.
    public var value: JSONValue
    /// What the source calls its version, where it does.
    public var version: UpstreamVersion?
    /// What proves later that this document is held.
    public var validator: Validator?
    /// Who pushed it; nil for one that a source gave.
    public var pushedBy: Peer?

    /// Makes a document.
    public init(
        value: JSONValue, version: UpstreamVersion? = nil, validator: Validator? = nil, pushedBy: Peer? = nil
    ) {
        self.value = value
        self.version = version
        self.validator = validator
        self.pushedBy = pushedBy
    }
}
