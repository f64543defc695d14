import LarderEncoding
package import LarderJSON

/// A request or notification with a valid envelope. Its parameters are not typed yet.
///
/// The members are read from the message when they are needed, because most replies need neither the id as a string nor
/// the name of the method.
package struct Request: Sendable {
    private let message: JSONValue
    private let idPosition: JSONPosition?
    private let methodPosition: JSONPosition
    private let paramsPosition: JSONPosition?

    /// The id of the request; nil for a notification, which gets no reply.
    package var id: RequestID? { idPosition.flatMap { RequestID(message[$0]) } }

    /// The name of the method, as a JSON string.
    package var method: JSONValue { message[methodPosition] }

    /// The position of the name of the method in an index; nil if the index does not contain it.
    package func methodPosition(in names: NameIndex) -> Int? { names.position(of: methodPosition, in: message) }

    /// The parameters, which are an object or an array; nil if the request has no parameters.
    package var params: JSONValue? { paramsPosition.map { message[$0] } }

    /// Whether the request has no id, so that it gets no reply.
    package var isNotification: Bool { idPosition == nil }

    /// The range of the id, in bytes, in the text that the request was parsed from; nil for a notification.
    package var idRange: Range<Int>? { idPosition.map { message.textRange(at: $0) } }

    private static let names = NameIndex(["id", "jsonrpc", "method", "params"])

    /// Checks the envelope (JSON-RPC 2.0, section 4). Unlike in JSON-RPC, the member `jsonrpc` is optional.
    /// - Throws: ``Invalid`` with `invalidRequest`
    package init(_ value: JSONValue) throws(Invalid) {
        guard value.kind == .object else {
            throw Invalid(id: .null, "a request must be a JSON object such as {\"id\":1,\"method\":\"agent.ping\"}")
        }
        let (id, version, method, params) = value.members(Self.names)
        // Computed only for an error.
        func validID() -> RequestID? { id.flatMap { RequestID(value[$0]) } }
        switch id?.kind {
        case nil, .string, .number, .null: break
        case .bool, .array, .object:
            throw Invalid(id: .null, "\"id\" must be a string, a number or null")
        }
        let duplicates = value.isCompact ? [] : value.duplicateNames
        if let name = duplicates.first {
            let isIDUnclear = duplicates.contains { $0.isSpelled(as: "id") }
            throw Invalid(
                id: isIDUnclear ? nil : validID(),
                "\"\(name.excerpt)\" occurs more than once in the request; send each member once")
        }
        if let version, !value.isString(at: version, "2.0") {
            throw Invalid(id: validID(), "\"jsonrpc\" must be \"2.0\" or be left out")
        }
        guard let method else { throw Invalid(id: validID(), "\"method\" is missing") }
        guard method.kind == .string else { throw Invalid(id: validID(), "\"method\" must be a string") }
        switch params?.kind {
        // Null counts as absent, because some libraries write null if a call has no parameters.
        case nil, .null: paramsPosition = nil
        case .object, .array: paramsPosition = params
        case .bool, .number, .string:
            throw Invalid(id: validID(), "\"params\" must be an object or an array, or be left out")
        }
        message = value
        idPosition = id
        methodPosition = method
    }

    /// The error for a message that is not a valid request, with the id for the error reply.
    package struct Invalid: Error, Sendable {
        /// The id of the message; ``RequestID/null`` if it could not be read.
        package let id: RequestID
        package let error: WireError

        init(id: RequestID?, _ detail: String) {
            self.id = id ?? .null
            error = WireError(.invalidRequest, detail)
        }
    }
}

/// Writes requests and replies as single lines, without the LF that ends the line.
package enum Envelope {
    /// Writes `{"jsonrpc":"2.0","id":…,"method":…,"params":…}`; a notification, without `id`, if `id` is nil.
    package static func writeRequest(
        id: RequestID?, method: String, to writer: inout JSONWriter, params: (inout JSONWriter) -> Void
    ) {
        begin(&writer)
        if let id { writeID(id, to: &writer) }
        writer.member("method", method)
        writer.name("params")
        params(&writer)
        writer.endObject()
    }

    /// Writes `{"jsonrpc":"2.0","id":…,"result":…}`.
    /// - Throws: the error of `result`. The writer then contains an incomplete reply.
    package static func writeResult<Failure: Error>(
        id: RequestID, to writer: inout JSONWriter, result: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        begin(&writer)
        writeID(id, to: &writer)
        writer.name("result")
        try result(&writer)
        writer.endObject()
    }

    /// Writes `{"jsonrpc":"2.0","id":…,"error":…}`.
    package static func writeError(id: RequestID, _ error: WireError, to writer: inout JSONWriter) {
        begin(&writer)
        writeID(id, to: &writer)
        writer.name("error")
        error.write(to: &writer)
        writer.endObject()
    }

    private static func begin(_ writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("jsonrpc", "2.0")
    }

    private static func writeID(_ id: RequestID, to writer: inout JSONWriter) {
        writer.name("id")
        writer.raw(id.text.utf8)
    }
}

/// The `id` of a request. It is kept as JSON text, such as `1.0`, `"a"` or `null`, so that the reply repeats it
/// exactly.
package struct RequestID: Sendable, Hashable, CustomStringConvertible {
    /// The JSON text of the id.
    package let text: String

    package static func == (left: RequestID, right: RequestID) -> Bool { left.text.isSpelled(as: right.text) }

    package func hash(into hasher: inout Hasher) { text.hashBytes(into: &hasher) }

    /// Creates the id of an outgoing request.
    package init(_ number: Int) { text = String(number) }

    /// Reads an id; nil if the value is not a valid id in JSON-RPC 2.0.
    package init?(_ value: JSONValue) {
        switch value.kind {
        case .string, .number, .null: text = value.compactText
        case .bool, .array, .object: return nil
        }
    }

    /// Creates an id from JSON text. The caller must have checked that the text is a whole number, a string or null.
    package init(text: String) { self.text = text }

    /// The id of the reply to a message whose id could not be read.
    package static let null = RequestID(text: "null")

    /// The JSON text of the id.
    package var description: String { text }
}

/// The rights that the caller of a method needs.
package enum Requirement: Sendable, Equatable {
    /// No right: every connected client may call the method.
    case nothing
    /// The peer must have the right for the whole agent.
    case general(Right)
    /// The peer must have the right for the whole agent or in at least one namespace. The method returns only what the
    /// peer may see.
    case anywhere(Right)
    case inNamespace(Right, String)
    /// The peer must have all of these rights in the namespace.
    case allInNamespace([Right], String)
    /// The peer must have the right `monitor`, or `read` in the namespace, or in any if it is nil. The method shows a peer
    /// without `read` no values and no texts of errors.
    case monitoring(String?)
    /// The peer must have one or two rights for the whole agent, and access to the images of the URL's origin, which
    /// the settings may restrict to certain users.
    case image(url: String, Right, and: Right? = nil)
}

/// A method whose schema states the rights that its caller needs (`x-right`, `x-scope`, `x-right-if`,
/// `x-right-also` and `x-right-or`).
package protocol AuthorizedMethod: WireMethod {
    /// The rights that a call with these parameters needs.
    static func requirement(_ parameters: Parameters) -> Requirement
}

extension MemberReader {
    /// A required request id. It may be null.
    func requiredRequestID(_ name: StaticString) throws(WireError) -> RequestID {
        guard let id = RequestID(try requiredValue(name)) else {
            throw WireError(.invalidParams, "\"\(name)\" must be a string, a number or null")
        }
        return id
    }
}

extension JSONWriter {
    /// Writes the id of a request.
    mutating func member(_ name: StaticString, _ id: RequestID) {
        self.name(name)
        raw(id.text.utf8)
    }
}
