/// The three words of JSON; of each the first four letters, the first one lowest.
enum Literal {
    @inline(__always) static var `true`: UInt32 { 0x6575_7274 }
    @inline(__always) static var fals: UInt32 { 0x736C_6166 }
    @inline(__always) static var null: UInt32 { 0x6C6C_756E }

    /// The failure at the first byte that differs from `word`.
    @inline(never)
    static func failure(
        _ start: UnsafePointer<UInt8>, _ word: StaticString, text: UnsafePointer<UInt8>
    ) -> ParseFailure {
        let length = word.withUTF8Buffer { letters in
            var index = 0
            while index < letters.count, letters[index] == start[index] { index += 1 }
            return index
        }
        return ParseFailure(kind: .invalidLiteral, offset: start + length - text)
    }
}
