import Testing

@testable import LarderJSON

@Suite("Comparisons as bytes")
struct ExactTextTests {
    private struct Example: Hashable {
        @ComparedAsBytes var text: String?
        @ComparedAsBytes var list: [String] = []
        @ComparedAsBytes var table: [String: String] = [:]
    }

    /// The letter é as one character and as a letter and an accent, and the signs that `==` of `String` equates with
    /// `;` and `K`.
    private static let pairs = [("\u{e9}", "e\u{301}"), (";", "\u{37e}"), ("K", "\u{212a}")]

    @Test("texts with different bytes are different keys and values, although == of String says otherwise")
    func spellings() {
        for (left, right) in Self.pairs {
            #expect(left == right)
            #expect(ExactText(left) != ExactText(right) && ExactText(left) == ExactText(left))
            #expect(Set([ExactText(left), ExactText(right), ExactText(left)]).count == 2)
            #expect(Example(text: left) != Example(text: right) && Example(text: left) == Example(text: left))
            #expect(Example(text: left).hashValue == Example(text: left).hashValue)
            #expect(Example(list: ["a", left]) != Example(list: ["a", right]))
            #expect(Example(table: ["a": left]) != Example(table: ["a": right]))
            #expect(Example(table: ["a": left]) == Example(table: ["a": left]))
        }
        #expect(Example(text: nil) != Example(text: "") && Example(text: nil) == Example(text: nil))
        #expect(Example(list: ["a"]) != Example(list: ["a", "a"]) && Example(table: ["a": ""]) != Example())
    }
}
