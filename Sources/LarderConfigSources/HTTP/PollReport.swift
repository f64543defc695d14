/// The state of the host that each poll reports if the settings request it, so that the access log of the source shows
/// all hosts.
package struct PollReport: Sendable {
    /// Identifies the host: hexadecimal digits; nil if it has no machine ID.
    package var hostID: String?
    /// A lower-case word.
    package var state: String
    /// The version of the remote document; nil if it has none.
    package var version: String?
    /// The version of the rejected content, empty if it has none; nil if no content is rejected.
    package var rejected: String?

    package init(hostID: String?, state: String, version: String?, rejected: String?) {
        self.hostID = hostID
        self.state = state
        self.version = version
        self.rejected = rejected
    }

    /// The maximum length of an encoded version. ``fields`` have at most 512 bytes each.
    private static let maxTextBytes = 200

    /// The header fields (RFC 9651): `Larder-Host`, a String, and `Larder-Status`, a Dictionary with a Token and Display
    /// Strings.
    var fields: [(name: String, value: String)] {
        var members = ["state=\(state)"]
        if let version { members.append("version=\(Self.displayString(version))") }
        if let rejected { members.append("rejected=\(Self.displayString(rejected))") }
        let host = hostID.map { [(name: "Larder-Host", value: "\"\($0)\"")] } ?? []
        return host + [("Larder-Status", members.joined(separator: ", "))]
    }

    /// Returns a Display String (RFC 9651, section 4.1.11). A text that is too long ends with an ellipsis.
    private static func displayString(_ text: String) -> String {
        let (ellipsis, digits) = ("%e2%80%a6", Array("0123456789abcdef".utf8))
        var bytes: [UInt8] = []
        for scalar in text.unicodeScalars {
            var encoded: [UInt8] = []
            for byte in String(scalar).utf8 {
                if (0x20..<0x7f).contains(byte), byte != UInt8(ascii: "%"), byte != UInt8(ascii: "\"") {
                    encoded.append(byte)
                } else {
                    encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
                }
            }
            guard bytes.count + encoded.count <= maxTextBytes - ellipsis.utf8.count else {
                bytes += ellipsis.utf8
                break
            }
            bytes += encoded
        }
        return "%\"" + String(decoding: bytes, as: UTF8.self) + "\""
    }
}
