public import LarderJSON

/// An error as it travels in a reply: JSON-RPC 2.0 section 5.1, with Larder's `data` member.
public struct WireError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which error it is. The table of all of them is ``Code/all``; it is also in `Protocol/README.md`.
    public struct Code: Sendable, Hashable {
        /// The number in `error.code`: negative for those of JSON-RPC 2.0, positive for Larder's own.
        public let number: Int
        /// The stable name in `error.data.name`.
        public let name: String
        /// The short sentence in `error.message`.
        public let message: String
        /// Whether the same request may succeed later without any change.
        public let isRetryable: Bool
    }

    public let code: Code
    /// What happened and what to do next, for people.
    public let detail: String
    /// Which of several reasons it is, for programs; only where the error's description in the protocol lists them.
    public let reason: String?
    /// The right that the peer lacks; only where an error ``Code/denied`` is about one. One that this version does not know
    /// is left out.
    public let right: Right?
    /// The namespace in which it lacks that; nil for the whole agent.
    public let namespace: String?

    /// Makes an error of the given kind.
    /// - Parameters:
    ///   - detail: what happened and what to do next, in one line.
    ///   - reason: which of the reasons that the protocol lists for this error.
    public init(_ code: Code, _ detail: String, reason: String? = nil) {
        self.code = code
        self.detail = detail
        self.reason = reason
        (right, namespace) = (nil, nil)
    }

    /// Makes the error ``Code/denied`` for a peer that lacks a right.
    /// - Parameters:
    ///   - namespace: where it lacks it; nil for the whole agent.
    ///   - detail: what it lacks and who grants it, in one line.
    public init(lacking right: Right, in namespace: String?, _ detail: String) {
        code = .denied
        reason = nil
        (self.right, self.namespace, self.detail) = (right, namespace, detail)
    }

    /// The message and the detail in one line.
    public var description: String { "\(code.message): \(detail)" }
}

extension WireError.Code {
    /// The error of a name; one that this version does not know is taken for none that a repetition may help against.
    init(name: String) { self = Self.byName[name] ?? Self(0, name, name) }

    init(_ number: Int, _ name: String, _ message: String, retryable: Bool = false) {
        self.init(number: number, name: name, message: message, isRetryable: retryable)
    }

    /// The line is not JSON or not UTF-8.
    public static let parseError = Self(-32700, "parseError", "Parse error")
    /// The line is longer than the agent reads.
    public static let lineTooLong = Self(-32700, "lineTooLong", "Parse error")
    /// The JSON is not a request.
    public static let invalidRequest = Self(-32600, "invalidRequest", "Invalid Request")
    /// There is no such method.
    public static let methodNotFound = Self(-32601, "methodNotFound", "Method not found")
    /// A parameter is missing or has the wrong type or value.
    public static let invalidParams = Self(-32602, "invalidParams", "Invalid params")
    /// The agent failed in a way that it should not; its log says more.
    public static let internalError = Self(-32603, "internalError", "Internal error")
    /// There is nothing at the path, or no such subscription.
    public static let notFound = Self(1, "notFound", "Not found")
    /// The settings declare no such namespace.
    public static let unknownNamespace = Self(2, "unknownNamespace", "Unknown namespace")
    /// The peer may not do this.
    public static let denied = Self(3, "denied", "Denied")
    /// The deadline passed.
    public static let timeout = Self(4, "timeout", "Timed out", retryable: true)
    /// The request was cancelled.
    public static let cancelled = Self(5, "cancelled", "Cancelled", retryable: true)
    /// The remote source did not give a usable answer; the last good snapshot stays.
    public static let upstreamFailed = Self(6, "upstreamFailed", "Upstream failed", retryable: true)
    /// A document was refused; the last good snapshot stays.
    public static let rejected = Self(7, "rejected", "Document rejected")
    /// A limit of the agent was reached.
    public static let limitExceeded = Self(8, "limitExceeded", "Limit exceeded", retryable: true)
    /// The change could not be put on disk; nothing was changed.
    public static let storageFailed = Self(9, "storageFailed", "Storage failed", retryable: true)
    /// The agent is stopping.
    public static let shuttingDown = Self(10, "shuttingDown", "Shutting down", retryable: true)
    /// The remote source has not answered yet and nothing is on disk.
    public static let unavailable = Self(11, "unavailable", "Not available yet", retryable: true)
    /// The origin cannot be reached, and nothing is held that would do.
    public static let offline = Self(12, "offline", "Offline", retryable: true)
    /// The host of a URL, or of a redirect, is at an address that the settings do not allow.
    public static let forbiddenAddress = Self(13, "forbiddenAddress", "Address not allowed")
    /// What the origin sent is no image that is let in; `reason` says why.
    public static let imageRefused = Self(14, "imageRefused", "Image refused")
    /// The limits of the cache, or of the disk, leave no room.
    public static let noRoom = Self(15, "noRoom", "No room", retryable: true)

    /// Every error that the protocol knows: the one table.
    public static let all: [Self] = [
        parseError, lineTooLong, invalidRequest, methodNotFound, invalidParams, internalError, notFound,
        unknownNamespace, denied, timeout, cancelled, upstreamFailed, rejected, limitExceeded, storageFailed,
        shuttingDown, unavailable, offline, forbiddenAddress, imageRefused, noRoom,
    ]

    fileprivate static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })
}

extension WireError {
    /// Reads the `error` member of a reply. An error that this version does not know keeps its number and texts.
    public init(from value: JSONValue) {
        let number = value["code"]?.int ?? WireError.Code.internalError.number
        let message = value["message"]?.string ?? "Error without a message"
        let data = value["data"]
        let name = data?["name"]?.string
        code =
            name.flatMap { Code.byName[$0] }
            ?? Code.all.first { $0.number == number && name == nil }
            ?? Code(
                number: number, name: name ?? "error\(number)", message: message,
                isRetryable: data?["retryable"]?.bool ?? false)
        detail = data?["detail"]?.string ?? message
        reason = data?["reason"]?.string
        right = (data?["right"]?.string).flatMap(Right.init)
        namespace = data?["namespace"]?.string
    }

    /// Writes the `error` member's value: `{"code":…,"message":…,"data":{"name":…,"retryable":…,"detail":…}}`.
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("code", code.number)
        writer.member("message", code.message)
        writer.name("data")
        writer.beginObject()
        writer.member("name", code.name)
        writer.member("retryable", code.isRetryable)
        writer.member("detail", detail)
        if let reason { writer.member("reason", reason) }
        if let right { writer.member("right", right.rawValue) }
        if let namespace { writer.member("namespace", namespace) }
        writer.endObject()
        writer.endObject()
    }
}
