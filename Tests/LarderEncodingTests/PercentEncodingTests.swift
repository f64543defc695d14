import LarderEncoding
import Testing

@Suite("Percent-encoding")
struct PercentEncodingTests {
    @Test(
        "encoded bytes are resolved, and other percent signs are kept and reported",
        arguments: [
            ("", "", true), ("a%20b", "a b", true), ("%c3%A4", "ä", true), ("%2525", "%25", true), ("%", "%", false),
            ("%4", "%4", false), ("%4g", "%4g", false), ("%+1", "%+1", false), ("%-1", "%-1", false),
            ("%%41", "%A", false),
            ("ä%41", "äA", true), ("%\u{11}1", "%\u{11}1", false),
        ])
    func decoding(text: String, decoded: String, isValid: Bool) {
        let result = text.percentDecoded()
        #expect(String(decoding: result.bytes, as: UTF8.self) == decoded)
        #expect(result.isValid == isValid)
    }
}
