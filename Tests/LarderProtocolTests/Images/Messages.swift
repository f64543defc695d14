import LarderJSON
import LarderProtocol

/// An arbitrary digest.
let someDigest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

extension WireImage {
    /// An arbitrary image.
    static let example = WireImage(
        digest: WireDigest(someDigest)!, mediaType: "image/png", width: 640, height: 480, bytes: 18_342)
}

extension WireParameters {
    /// The encoded parameters.
    var text: String { JSONValue.building { write(to: &$0) }.compactText }

    /// Parses parameters.
    static func read(_ text: String) throws -> Self { try Self(params: JSONValue(parsing: text)) }

    /// Encodes the parameters and parses them again.
    func roundTripped() throws -> Self { try Self.read(text) }
}

extension WireResult {
    /// The encoded result.
    var text: String { JSONValue.building { write(to: &$0) }.compactText }

    /// Encodes the result and parses it again.
    func roundTripped() throws -> Self { try Self(from: JSONValue(parsing: text)) }
}

/// The protocol error that `body` throws; nil if it throws none.
func refusal<R>(_ body: () throws -> R) -> WireError? {
    do {
        _ = try body()
        return nil
    } catch {
        return error as? WireError
    }
}
