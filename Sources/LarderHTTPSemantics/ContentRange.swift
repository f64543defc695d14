/// A `Content-Range` of bytes (RFC 9110, section 14.4) that goes up to the end: `bytes 500-999/1000`.
package struct ContentRange: Sendable, Hashable {
    /// The number of the first byte of the part.
    package let start: Int
    /// How many bytes the whole has.
    package let total: Int

    /// Reads the field, or nothing where it is anything else: another unit, a total that is not said, a part that does not
    /// reach the end.
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
