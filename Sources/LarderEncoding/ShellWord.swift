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
