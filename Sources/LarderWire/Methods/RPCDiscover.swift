public import JSON

/// `rpc.discover`: the protocol's own description (OpenRPC 1.3, section "Service Discovery Method").
public enum RPCDiscover: WireMethod {
    /// `rpc.discover`
    public static let name = "rpc.discover"
    public typealias Parameters = NoParameters

    /// The OpenRPC document, which is `Protocol/openrpc.json`.
    public struct Result: WireResult, Equatable {
        /// The document.
        public var document: JSONValue
        public init(document: JSONValue) { self.document = document }
        public init(from value: JSONValue) throws(WireError) { document = value }
        public func write(to writer: inout JSONWriter) { writer.value(document) }
    }
}
