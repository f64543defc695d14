extension String {
    /// The text, or its first 200 Unicode code points and an ellipsis if it is longer. For messages that repeat a text
    /// of any length.
    package var excerpt: String {
        let limit = 200
        // A code point has at least one byte.
        guard utf8.count > limit else { return self }
        let beginning = unicodeScalars.prefix(limit)
        return beginning.endIndex == endIndex ? self : String(beginning) + "…"
    }
}

extension String {
    /// The text, quoted as one word of a shell command if necessary. Messages use it for paths in the commands that they
    /// suggest.
    package var shellWord: String {
        let isPlain =
            !isEmpty
            && utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
                case UInt8(ascii: "0")...UInt8(ascii: "9"): true
                default: "/._-+:@%,".utf8.contains(byte)
                }
            }
        return isPlain ? self : "'\(replacing("'", with: "'\\''"))'"
    }
}
