import LarderJSON

extension ImagePut.Parameters {
    /// How a client sends the bytes of the image to store.
    public enum Content: Sendable, Hashable {
        /// As base64 in the request itself.
        case inline([UInt8])
        /// As an open file, whose descriptor is sent with the first byte of the request's line.
        case descriptor

        init(from reader: MemberReader) throws(WireError) {
            let data = try reader.string("data")
            guard try reader.bool("descriptor") ?? false else {
                guard let data else {
                    throw WireError(
                        .invalidParams, "\"data\" is missing; send it, or a descriptor and \"descriptor\": true")
                }
                guard let bytes = InlineBytes.bytes(of: data) else {
                    throw WireError(.invalidParams, "\"data\" must be the bytes of the image in base64 with padding")
                }
                self = .inline(bytes)
                return
            }
            guard data == nil else {
                throw WireError(.invalidParams, "\"data\" and \"descriptor\" exclude each other; send one of them")
            }
            self = .descriptor
        }

        /// Writes `data` or `descriptor` into the object that was begun with `writer`.
        func writeMembers(to writer: inout JSONWriter) {
            switch self {
            case .inline(let bytes): writer.member("data", InlineBytes.text(of: bytes))
            case .descriptor: writer.member("descriptor", true)
            }
        }
    }
}
