/// What begins and ends a tag.
struct Delimiters: Sendable {
    let open: [UInt8]
    let close: [UInt8]
    /// The end of a tag whose value is printed as it is: `{{{name}}}`.
    let closeOfTriple: [UInt8]
    /// The end of a tag that changes the delimiters.
    let closeOfChange: [UInt8]

    /// The most bytes of one: longer ones would make finding them slow.
    static let greatestLength = 16

    static let usual = Delimiters(open: Array("{{".utf8), close: Array("}}".utf8))

    init(open: [UInt8], close: [UInt8]) {
        self.open = open
        self.close = close
        closeOfTriple = [UInt8(ascii: "}")] + close
        closeOfChange = [UInt8(ascii: "=")] + close
    }
}
