/// A `Content-Range` in bytes (RFC 9110, section 14.4) that extends to the end of the representation, such as
/// `bytes 500-999/1000`.
package struct ContentRange: Sendable, Hashable {
    /// The offset of the first byte.
    package let start: Int
    /// The length of the complete representation, in bytes.
    package let total: Int

    /// Parses the field. Nil if it is invalid, has another unit or an unknown total, or if the range ends before the
    /// last byte.
    package init?(_ field: String) {
        guard field.lowercased().hasPrefix("bytes ") else { return nil }
        let numbers = field.dropFirst(6).split(separator: "/", omittingEmptySubsequences: false)
        guard numbers.count == 2, let total = Self.number(numbers[1]) else { return nil }
        let places = numbers[0].split(separator: "-", omittingEmptySubsequences: false)
        guard places.count == 2, let start = Self.number(places[0]), let last = Self.number(places[1]) else {
            return nil
        }
        guard start <= last, last == total - 1 else { return nil }
        (self.start, self.total) = (start, total)
    }

    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (0x30...0x39).contains($0) } ? Int(text) : nil
    }
}
