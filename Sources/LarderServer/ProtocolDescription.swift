import CProtocolDescription
import JSON

/// The protocol's own description, compiled into the program.
enum ProtocolDescription {
    /// `Protocol/openrpc.json`, parsed once.
    static let openRPC: JSONValue = {
        let bytes = UnsafeRawBufferPointer(start: larder_openrpc(), count: larder_openrpc_size())
        // The file is checked by the build's tests; a damaged one would be seen there.
        return (try? JSONValue(parsing: Array(bytes))) ?? .emptyObject
    }()
}
