import LarderHTTPSemantics
import Testing

@Suite("Validators")
struct ValidatorTests {
    private func validator(_ tag: String?, _ changed: String?, date: String?) -> Validator? {
        Validator(
            etag: tag, lastModified: changed, date: date, receivedAt: HTTPDate(secondsSinceEpoch: Int64(now)),
            url: Self.url)
    }

    private static let url = "https://img.example/a"

    @Test("Last-Modified alone is a validator only if it is at least one second before Date")
    func strongDates() {
        #expect(validator(nil, date(-1), date: date(0)) == Validator(lastModified: date(-1), url: Self.url))
        #expect(validator(nil, date(0), date: date(0)) == nil)
        #expect(validator(nil, date(1), date: date(0)) == nil)
        // Only the clock of the origin counts, unless it sends no valid Date.
        #expect(validator(nil, date(5), date: date(6)) != nil)
        #expect(validator(nil, date(-6), date: date(-6)) == nil)
        for missing in [nil, "yesterday"] {
            #expect(validator(nil, date(-1), date: missing) != nil)
            #expect(validator(nil, date(0), date: missing) == nil)
        }
        #expect(validator(nil, "yesterday", date: date(0)) == nil)
    }

    @Test("an entity tag is a validator whatever the dates are, and Last-Modified accompanies it")
    func tags() {
        #expect(
            validator("W/\"1\"", date(0), date: date(0))
                == Validator(etag: "W/\"1\"", lastModified: date(0), url: Self.url))
        #expect(validator("\"1\"", nil, date: nil) == Validator(etag: "\"1\"", url: Self.url))
        #expect(validator("", date(0), date: date(0)) == nil)
    }

    @Test(
        "a 304 confirms a document if its entity tag matches",
        arguments: [
            ("\"1\"", "\"1\"", true), ("\"1\"", "\"2\"", false), ("W/\"1\"", "W/\"1\"", true),
            ("W/\"1\"", "W/\"2\"", false), ("\"1\"", "W/\"1\"", true), ("W/\"1\"", "\"1\"", true),
            (nil, "\"1\"", false), ("\"1\"", nil, true), ("\"\u{E9}\"", "\"e\u{301}\"", false),
        ] as [(String?, String?, Bool)])
    func confirmingTags(_ old: String?, _ new: String?, isConfirmed: Bool) throws {
        let validator = try #require(Validator(etag: old, lastModified: date(-1), url: Self.url))
        #expect(validator.isConfirmed(byTag: new, lastModified: nil) == isConfirmed)
        #expect(validator.isConfirmed(byTag: new, lastModified: date(-1)) == isConfirmed)
    }

    @Test("a 304 with another Last-Modified confirms a document only if both have the same strong tag")
    func confirmingDates() throws {
        func isConfirmed(_ old: String?, _ new: String?) throws -> Bool {
            try #require(Validator(etag: old, lastModified: date(-2), url: Self.url))
                .isConfirmed(byTag: new, lastModified: date(-1))
        }
        #expect(try isConfirmed("\"1\"", "\"1\""))
        #expect(try !isConfirmed("W/\"1\"", "W/\"1\""))
        #expect(try !isConfirmed("\"1\"", "W/\"1\""))
        #expect(try !isConfirmed("W/\"1\"", "\"1\""))
        #expect(try !isConfirmed("\"1\"", nil))
        #expect(try !isConfirmed(nil, nil))
        // A document without a Last-Modified has no date to compare.
        let tagged = try #require(Validator(etag: "\"1\"", url: Self.url))
        #expect(tagged.isConfirmed(byTag: nil, lastModified: date(-1)))
    }

    @Test("a validator belongs to the URL that issued it, compared as bytes")
    func urls() {
        let validator = Validator(etag: "\"1\"", url: "https://h/\u{E9}")
        #expect(validator?.isIssued(by: "https://h/\u{E9}") == true)
        #expect(validator?.isIssued(by: "https://h/e\u{301}") == false)
        #expect(validator?.isIssued(by: "https://h/") == false)
        #expect(Validator(etag: "\"1\"")?.isIssued(by: "") == false)
        #expect(Validator(etag: "\"1\"", url: "https://h/" + String(repeating: "a", count: 9000)) == nil)
    }

    @Test("entity tags with different bytes are different validators")
    func spellings() {
        let (composed, decomposed) = (Validator(etag: "\"\u{E9}\""), Validator(etag: "\"e\u{301}\""))
        #expect(composed != decomposed && composed == composed)
        #expect(Set([composed, decomposed, composed]).count == 2)
    }

    @Test("the validator of a stored response depends on its Date, or on its arrival if it has none")
    func storedResponses() {
        #expect(response([("Last-Modified", date(-1)), ("Date", date(0))]).validator != nil)
        #expect(response([("Last-Modified", date(0)), ("Date", date(0))]).validator == nil)
        #expect(response([("Last-Modified", date(0))]).validator == nil)
        #expect(response([("Last-Modified", date(0))], responseTime: now + 1).validator != nil)
    }
}
