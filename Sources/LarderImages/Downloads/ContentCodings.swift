internal import LarderImageFormats
internal import LarderUpstream

/// The content codings that a response declares (`Content-Encoding`). The agent requests none, but object stores send
/// images as they were uploaded, and servers declare codings that the body does not have. The bytes decide.
struct ContentCodings: Sendable {
    /// The number of bytes after which ``decoder(for:)`` can decide.
    static let sniffedBytes = 64

    /// The declared codings in lower case, in order.
    private let names: [String]

    /// - Parameter fields: the fields of the response
    init(_ fields: [(name: String, value: String)]) {
        let values = fields.filter { $0.name.lowercased() == "content-encoding" }.map { $0.value.lowercased() }
        names = values.flatMap { $0.split(separator: ",") }
            .map { String($0.drop { $0 == " " || $0 == "\t" }.prefix { $0 != " " && $0 != "\t" }) }
            .filter { !$0.isEmpty }
    }

    /// Whether the body may be compressed in a way that the agent decodes. Such a body is not resumed, because an offset
    /// in it is not an offset in the image.
    var mayBeDecoded: Bool { isGzip || names.contains("deflate") }

    private var isGzip: Bool { names.contains { $0 == "gzip" || $0 == "x-gzip" } }

    /// The codings that the agent cannot decode, for messages; nil if there are none. The listed names are not codings
    /// of the bytes, but occur on intact images.
    var unknown: String? {
        let known = ["gzip", "x-gzip", "deflate", "identity", "none", "utf-8", "aws-chunked", "binary"]
        let unknown = names.filter { !known.contains($0) }
        return unknown.isEmpty ? nil : String(unknown.joined(separator: ", ").prefix(40))
    }

    /// The decoder for a body; nil if the bytes are not compressed as declared.
    ///
    /// - Parameter start: the first bytes of the body: ``sniffedBytes``, or all if there are fewer
    func decoder(for start: [UInt8]) -> Inflater? {
        if isGzip, start.starts(with: [0x1F, 0x8B]) { return Inflater(.gzip) }
        guard names.contains("deflate"), start.count >= 2 else { return nil }
        // No image begins like the header of zlib (RFC 1950, section 2.2).
        if start[0] & 0x0F == 8, start[0] >> 4 <= 7, (Int(start[0]) << 8 | Int(start[1])) % 31 == 0 {
            return Inflater(.zlib)
        }
        var reader = ImageHeaderReader()
        if case .refused = reader.feed(start) { return Inflater(.raw) }
        return nil
    }
}
