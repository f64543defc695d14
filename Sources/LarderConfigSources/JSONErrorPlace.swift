import LarderJSON

extension JSONError {
    /// The line and the column of the error in the text that was parsed, from 1. A column counts characters, not bytes.
    func place(in text: [UInt8]) -> (line: Int, column: Int) {
        let before = text.prefix(offset)
        let start = before.lastIndex(of: UInt8(ascii: "\n")).map { $0 + 1 } ?? 0
        return (1 + before.count { $0 == UInt8(ascii: "\n") }, 1 + before[start...].count { $0 & 0xC0 != 0x80 })
    }

    /// The reason and the place of an error of the parser in the text that was parsed.
    static func text(_ error: any Error, in text: [UInt8]) -> String {
        guard let error = error as? JSONError else { return "\(error)" }
        let place = error.place(in: text)
        return "\(error.reason) (line \(place.line), column \(place.column))"
    }
}
