import LarderJSON

/// A JSON Pointer (RFC 6901) in a reference, written as a JSON string: `"/updog/kerberos.principal"`. It can name members
/// with dots, spaces, parentheses or delimiters.
struct QuotedPointer {
    /// The names in the pointer, at least one.
    let names: [String]
    /// The reference without the pointer and its quotation marks.
    let rest: String

    /// Finds the pointer in a reference such as `json("/a b"?)`. Nil if the reference has none.
    init?(in text: String) throws(Reference.Refusal) {
        guard let start = text.firstIndex(of: "\""), Self.canBegin(after: text[..<start].utf8.suffix(2)) else {
            return nil
        }
        guard let end = text.lastIndex(of: "\""), end > start else { throw .pointer }
        let tail = text[text.index(after: end)...]
        guard tail.allSatisfy({ $0 == "?" || $0 == ")" }),
            let pointer = (try? JSONValue(parsing: String(text[start...end])))?.string, pointer.first == "/",
            let path = try? JSONPath(parsing: pointer)
        else { throw .pointer }
        names = path.segments
        rest = String(text[..<start] + tail)
    }

    /// Whether a quotation mark after these last bytes of a reference begins a pointer: at the start of a name, or after
    /// the dot that begins a name.
    static func canBegin(after bytes: some Sequence<UInt8>) -> Bool {
        let last = Array(bytes).suffix(2)
        let name = last.last == UInt8(ascii: ".") ? last.dropLast() : last
        return name.isEmpty || name.last == UInt8(ascii: "(")
    }
}
