public import LarderJSON

/// One method of the protocol: its name and the shapes of its parameters and result.
public protocol WireMethod {
    /// What a request carries.
    associatedtype Parameters: WireParameters
    /// What a successful reply carries.
    associatedtype Result: WireResult
    static var name: String { get }
}

/// The typed parameters of a method, for the side that sends and the side that receives.
public protocol WireParameters: Sendable {
    /// The members in the order in which a positional request gives them.
    static var positional: [String] { get }
    /// Reads them.
    /// - Throws: `invalidParams` naming the member that is missing or has the wrong type.
    init(from reader: MemberReader) throws(WireError)
    /// Writes them as an object.
    func write(to writer: inout JSONWriter)
}

extension WireParameters {
    /// Reads the parameters of a request.
    public init(params: JSONValue?) throws(WireError) {
        try self.init(from: MemberReader(params: params, positional: Self.positional))
    }
}

/// The typed result of a method.
public protocol WireResult: Sendable {
    /// Reads it.
    /// - Throws: `invalidParams` naming the member that is missing or has the wrong type.
    init(from value: JSONValue) throws(WireError)
    /// Writes it as one JSON value.
    func write(to writer: inout JSONWriter)
}

/// The parameters of a method that takes none.
public struct NoParameters: WireParameters {
    public static var positional: [String] { [] }
    public init() {}
    /// Takes any object: unknown members are ignored.
    public init(from reader: MemberReader) {}
    public func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.endObject()
    }
}
