internal import Crypto

/// A row of the index as a small file of its own, from which the index is made again when its database is damaged.
///
/// It is text: `name: value` lines, the origin's fields with `field-` and those of our request with `request-` before
/// their names, and at the end a SHA-256 of all that is before it. A file that was not written to its end, or changed, does
/// not count. Files and not extended attributes: those have to fit into the inode or take a block as well, some file
/// systems allow 4 KiB of them or none, and a blob that is not writable takes no new ones.
enum RowDescription {
    static func bytes(_ row: ImageRow) -> [UInt8] {
        var lines: [(name: String, value: String)] = [
            ("version", "1"), ("key", escaped(row.keyText)), ("url", row.url), ("digest", row.digest.description),
            ("size", "\(row.size)"), ("type", row.header.type.rawValue), ("width", "\(row.header.width)"),
            ("height", "\(row.header.height)"), ("status", "\(row.response.status)"),
            ("request-time", "\(row.response.requestTime)"), ("response-time", "\(row.response.responseTime)"),
            ("variant", "\(row.response.variant.fingerprint)"), ("last-use", "\(row.lastUse)"),
            ("pinned", row.isPinned ? "1" : "0"),
        ]
        if let frames = row.header.frameCount { lines.append(("frames", "\(frames)")) }
        if let orientation = row.header.orientation { lines.append(("orientation", "\(orientation)")) }
        lines += row.response.fields.lines.map { ("field-" + $0.name, $0.value) }
        lines += row.response.variant.requestLines.map { ("request-field-" + $0.name, $0.value) }
        let text = Array(ResponseFields.text(lines).utf8)
        return text + Array("end: \(digest(text))\n".utf8)
    }

    static func row(_ bytes: [UInt8]) -> ImageRow? {
        let end = "end: ".utf8.count + 64 + 1
        let text = Array(bytes.dropLast(end))
        guard bytes.count > end, bytes.suffix(end).elementsEqual(Array("end: \(digest(text))\n".utf8)) else {
            return nil
        }
        var values: [String: String] = [:]
        var fields: [(name: String, value: String)] = []
        var request: [(name: String, value: String)] = []
        for (name, value) in ResponseFields.lines(String(decoding: text, as: UTF8.self)) {
            if name.hasPrefix("field-") {
                fields.append((String(name.dropFirst("field-".count)), value))
            } else if name.hasPrefix("request-field-") {
                request.append((String(name.dropFirst("request-field-".count)), value))
            } else {
                values[name] = value
            }
        }
        func number(_ name: String) -> Int? { values[name].flatMap { Int($0) } }
        guard values["version"] == "1", let keyText = values["key"].flatMap(unescaped), let url = values["url"],
            let digest = values["digest"].flatMap({ BlobDigest(hex: $0) }), let size = number("size"),
            let type = values["type"].flatMap({ ImageType(rawValue: $0) }), let width = number("width"),
            let height = number("height"), let status = number("status"), let requestTime = number("request-time"),
            let responseTime = number("response-time"), let lastUse = number("last-use")
        else { return nil }
        let header = ImageHeader(
            type, width: width, height: height, frameCount: number("frames"), orientation: number("orientation"))
        let kept = ResponseFields(fields)
        let variant = Variant(
            vary: kept.joined("vary"), request: request, fingerprint: values["variant"].flatMap { UInt64($0) } ?? 1)
        let response = StoredResponse(
            status: status, fields: kept, variant: variant, requestTime: requestTime, responseTime: responseTime)
        return ImageRow(
            keyText: keyText, url: url, blob: PublishedBlob(digest: digest, size: size, header: header),
            response: response, lastUse: lastUse, isPinned: values["pinned"] == "1")
    }

    /// What a key is made of has ends of line in it, and may have whatever else clients like: all that is not visible
    /// ASCII is written as in URLs.
    private static func escaped(_ text: String) -> String {
        text.utf8.reduce(into: "") { result, byte in
            if (0x21...0x7E).contains(byte), byte != UInt8(ascii: "%") {
                result.unicodeScalars.append(Unicode.Scalar(byte))
            } else {
                result += "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
            }
        }
    }

    private static func unescaped(_ text: String) -> String? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digest(_ text: [UInt8]) -> String {
        BlobDigest(Array(SHA256.hash(data: text)))?.description ?? ""
    }
}
