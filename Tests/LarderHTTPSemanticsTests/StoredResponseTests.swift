import LarderHTTPSemantics
import Testing

@Suite("Stored responses")
struct StoredResponseTests {
    private func freshened(_ stored: [(String, String)], _ update: [(String, String)]) -> StoredResponse? {
        var result = response(stored)
        let fields = ResponseFields(update.map { (name: $0.0, value: $0.1) })
        return result.freshen(with: fields, request: [], requestTime: now + 90, responseTime: now + 100) ? result : nil
    }

    @Test("only fields that the caching rules use are stored, except those that Connection names")
    func keeping() {
        let fields = ResponseFields([
            ("Set-Cookie", "secret"), ("Authorization", "secret"), ("Content-Type", "image/png"), ("ETag", "\"1\""),
            ("Connection", "close, expires"), ("Expires", "now"), ("VARY", "Accept"), ("Vary", "Cookie"),
        ])
        #expect(fields.lines.map(\.name) == ["etag", "vary", "vary"])
        #expect(fields.lines.map(\.value) == ["\"1\"", "Accept", "Cookie"])
        #expect(ResponseFields(fields.lines) == fields)
    }

    @Test("a 304 replaces the stored fields that it contains and keeps the others")
    func update() throws {
        let new = try #require(
            freshened(
                [("ETag", "\"1\""), ("Cache-Control", "max-age=60"), ("Cache-Control", "immutable"), ("Expires", "x")],
                [("ETag", "\"1\""), ("Cache-Control", "max-age=5"), ("Location", "http://127.0.0.1/"), ("Age", "3")]))
        #expect(new.cacheControl == CacheControl("max-age=5"))
        #expect(new.fields.lines.map(\.name) == ["age", "cache-control", "etag", "expires"])
        #expect(new.requestTime == now + 90)
        #expect(new.responseTime == now + 100)
        #expect(ResponseFreshness(new).initialAge == 13)
    }

    @Test("the Age and Date of the old response do not apply after a 304")
    func age() throws {
        let new = try #require(freshened([("Age", "5000"), ("Date", date(-5000)), ("ETag", "\"1\"")], []))
        #expect(ResponseFreshness(new).initialAge == 10)
    }

    @Test(
        "a 304 with another entity tag does not apply to the stored response",
        arguments: [
            ("\"1\"", "\"1\"", true), ("\"1\"", "\"2\"", false), ("W/\"1\"", "W/\"1\"", true),
            ("W/\"1\"", "W/\"2\"", false), ("\"1\"", "W/\"1\"", true), ("W/\"1\"", "\"1\"", false),
            (nil, "\"1\"", false), ("\"1\"", nil, true), (nil, nil, true),
        ])
    func tags(_ old: String?, _ new: String?, applies: Bool) {
        let stored = old.map { [("ETag", $0)] } ?? []
        let result = freshened(stored, (new.map { [("ETag", $0)] } ?? []) + [("Cache-Control", "max-age=9")])
        #expect((result != nil) == applies)
    }

    @Test("a 304 with another Last-Modified applies only if it has the strong tag of the stored response")
    func dates() {
        func applies(_ old: String?, _ new: String?, to changed: Int? = -100) -> Bool {
            func fields(_ tag: String?, _ changed: Int?) -> [(String, String)] {
                (tag.map { [("ETag", $0)] } ?? []) + (changed.map { [("Last-Modified", date($0))] } ?? [])
            }
            return freshened(fields(old, -200), fields(new, changed)) != nil
        }
        #expect(applies("\"1\"", "\"1\""))
        #expect(!applies("W/\"1\"", "W/\"1\""))
        #expect(!applies("\"1\"", "W/\"1\""))
        #expect(!applies("\"1\"", nil))
        #expect(!applies(nil, nil))
        for tags in [("W/\"1\"", "W/\"1\""), ("\"1\"", nil), (nil, nil)] as [(String?, String?)] {
            #expect(applies(tags.0, tags.1, to: -200))
            #expect(applies(tags.0, tags.1, to: nil))
        }
    }

    @Test("entity tags are compared as bytes")
    func tagBytes() {
        #expect(freshened([("ETag", "\"\u{E9}\"")], [("ETag", "\"e\u{301}\"")]) == nil)
        #expect(freshened([("ETag", "W/\"\u{E9}\"")], [("ETag", "W/\"e\u{301}\"")]) == nil)
    }

    @Test("a 304 that does not apply changes nothing")
    func notApplicable() {
        let before = response([("ETag", "\"1\""), ("Age", "4")])
        var after = before
        let update = ResponseFields([("ETag", "\"2\""), ("Cache-Control", "max-age=9")])
        let applies = after.freshen(with: update, request: [], requestTime: 1, responseTime: 2)
        #expect(!applies)
        #expect(after == before)
    }

    @Test("a variant matches requests that agree in all Vary fields, apart from white space and letter case of names")
    func vary() {
        func variant(_ vary: String?, _ request: [(String, String)]) -> Variant {
            Variant(vary: vary, request: request.map { (name: $0.0, value: $0.1) })
        }
        let sent = [("Accept", "image/avif, image/webp"), ("User-Agent", "larder/1")]
        let accept = variant("Accept", sent)
        #expect(accept.matches([(name: "accept", value: "image/avif,image/webp")]))
        #expect(accept.matches([(name: "Accept", value: "image/avif"), (name: "Accept", value: " image/webp ")]))
        #expect(!accept.matches([(name: "Accept", value: "image/webp, image/avif")]))
        #expect(!accept.matches([]))
        let none = variant(" accept-language ,, Cookie", sent)
        #expect(none.matches([]))
        #expect(!none.matches([(name: "Cookie", value: "")]))
        #expect(variant(nil, sent).matches([]))
        #expect(variant("", sent).fields.isEmpty)
        #expect(!variant("Accept, *", sent).matches([(name: "Accept", value: "image/avif, image/webp")]))
    }

    @Test("requests with the same fields have the same fingerprint")
    func fingerprints() {
        let sent = [(name: "Accept", value: "image/webp"), (name: "User-Agent", value: "larder")]
        let number = Variant.fingerprint(of: sent)
        #expect(Variant.fingerprint(of: [(name: "ACCEPT", value: "image/webp"), sent[1]]) == number)
        for other in [[], [sent[0]], [sent[1], sent[0]], [(name: "Acceptimage", value: "/webp"), sent[1]]] {
            #expect(Variant.fingerprint(of: other) != number)
        }
    }
}
