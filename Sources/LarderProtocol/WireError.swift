public import LarderJSON

/// An error as it travels in a reply: JSON-RPC 2.0 section 5.1, with Larder's `data` member.
public struct WireError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which error it is. ``Code/all`` is the table of all errors, which is also in section 4 of `Protocol/README.md`.
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

    /// Reads an error that is told by its name among the members of an object, as in `failures` of `image.prefetch`.
    init(from reader: MemberReader) throws(WireError) {
        self.init(
            Code(name: try reader.requiredString("name")), try reader.requiredString("detail"),
            reason: try reader.string("reason"))
    }

    /// Writes the name, the detail and the reason into an object that is open.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", code.name)
        writer.member("detail", detail)
        writer.member("reason", reason)
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
