import LarderEncoding
import Testing

@Suite("Excerpts of texts")
struct ExcerptTests {
    @Test("a text of up to 200 code points is unchanged, and a longer one is cut and ends with an ellipsis")
    func limit() {
        let (limit, long) = (String(repeating: "a", count: 200), String(repeating: "a", count: 201))
        #expect("".excerpt == "")
        #expect(limit.excerpt == limit)
        #expect(long.excerpt == limit + "…")
        let accented = String(repeating: "é", count: 200)
        #expect(accented.excerpt == accented)
        // A single character can consist of any number of code points.
        let combined = "e" + String(repeating: "\u{301}", count: 1000)
        #expect(combined.excerpt.unicodeScalars.count == 201)
    }
}
