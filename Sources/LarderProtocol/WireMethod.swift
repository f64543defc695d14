package import LarderJSON

/// A method of the protocol: its name and the types of its parameters and result.
package protocol WireMethod: SendableMetatype {
    associatedtype Parameters: WireParameters
    associatedtype Result: WireResult
    static var name: String { get }
}

/// The typed parameters of a method. Clients write them, and the agent reads them.
package protocol WireParameters: Sendable {
    /// The names of the members in the order of positional parameters.
    static var positional: [String] { get }
    /// Reads the `params` of a request.
    /// - Throws: `invalidParams` with the name of the parameter that is missing, unknown or has the wrong type
    init(params: JSONValue?) throws(WireError)
    /// - Throws: `invalidParams` with the name of the member that is missing, unknown or has the wrong type
    init(from reader: MemberReader) throws(WireError)
    /// Writes the parameters as an object.
    func write(to writer: inout JSONWriter)
    /// The approximate size in bytes of the parameters that can be large; 0 for none.
    var valueSize: Int { get }
    /// Whether these parameters make the agent wait for the network before it replies.
    var waitsForNetwork: Bool { get }
}

extension WireParameters {
    package var valueSize: Int { 0 }
    package var waitsForNetwork: Bool { false }

    package init(params: JSONValue?) throws(WireError) {
        try self.init(from: MemberReader(params: params, positional: Self.positional))
    }
}

/// The typed result of a method. The agent writes it, and clients read it.
package protocol WireResult: Sendable {
    /// - Throws: `invalidParams` with the name of the member that is missing or has the wrong type
    init(from value: JSONValue) throws(WireError)
    /// Writes the result as one JSON value.
    func write(to writer: inout JSONWriter)
}

/// The parameters of a method without parameters.
package struct NoParameters: WireParameters {
    package static var positional: [String] { [] }
    package init() {}
    package init(from reader: MemberReader) throws(WireError) { try reader.rejectUnknown([]) }
    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.endObject()
    }
}

// Written by hand, because one call takes half as many instructions as a call for each member.
extension ConfigGet.Result {
    package func write(to writer: inout JSONWriter) {
        writer.object("value", value, "revision", revision, "epoch", epoch, "state", state.rawValue)
    }
}
