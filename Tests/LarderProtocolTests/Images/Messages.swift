import LarderJSON
import LarderProtocol

/// A digest of which only the first digit matters to a test.
let someDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

extension WireImage {
    /// An image that a test needs to say something of.
    static let example = WireImage(
        digest: WireDigest(someDigest)!, mediaType: "image/png", width: 640, height: 480, bytes: 18_342)
}

extension WireParameters {
    /// The parameters as they are sent.
    var text: String { JSONValue.building { write(to: &$0) }.compactText }

    /// Reads what a client may have typed.
    static func read(_ text: String) throws -> Self { try Self(params: JSONValue(parsing: text)) }

    /// The parameters sent and read again.
    func sentAndRead() throws -> Self { try Self.read(text) }
}

extension WireResult {
    /// The result as it is sent.
    var text: String { JSONValue.building { write(to: &$0) }.compactText }

    /// The result sent and read again.
    func sentAndRead() throws -> Self { try Self(from: JSONValue(parsing: text)) }
}

/// The error that `body` throws as a message.
func refusal<R>(_ body: () throws -> R) -> WireError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? WireError
    }
}
