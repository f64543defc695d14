import LarderHTTPSemantics
import TestSupport
import Testing

@Suite("Cache-Control")
struct CacheControlTests {
    @Test(
        "max-age is parsed in all forms that origins send",
        arguments: [
            ("max-age=60", 60), ("Max-Age=60", 60), ("max-age=\"60\"", 60), ("public, max-age=60", 60),
            ("max-age=0", 0),
            (" ,, max-age=60 ,", 60), ("max-age=60, max-age=90", 60), ("max-age=007", 7),
            // An invalid number counts as 0, not as absent.
            ("max-age", 0), ("max-age=", 0), ("max-age=-1", 0), ("max-age=1.5", 0), ("max-age=soon", 0),
            ("max-age=6 0", 0), ("max-age=\"60", 0), ("max-age=+60", 0), ("max-age=١", 0),
            ("max-age=99999999999999999999999", 1 << 31), ("max-age=4294967296", 1 << 31),
            // The field has no max-age directive.
            ("s-maxage=60", nil), ("x-max-age=60", nil), ("", nil), ("no-cache=\"max-age=60\"", nil),
            ("ext=\"a, max-age=60\"", nil), ("ext=\"a\\\", max-age=60\"", nil), ("\"max-age=60\"", nil),
            ("ext=\"never ends, max-age=60", nil),
        ])
    func maximumAge(_ field: String, _ seconds: Int?) {
        #expect(CacheControl(field).maximumAge == seconds)
    }

    @Test("directives that need no argument apply in any letter case, even with an argument")
    func flags() {
        let all = CacheControl("No-Store, NO-CACHE, must-revalidate, immutable, private, x=\"y\"")
        #expect(all.forbidsStoring && all.requiresValidation && all.mustRevalidate && all.isImmutable)
        #expect(CacheControl("no-store=1, immutable=yes").forbidsStoring)
        let none = CacheControl("public, proxy-revalidate, no-transform, nonsense, =, ==, \"")
        #expect(none == CacheControl(""))
    }

    @Test("no-cache requires validation only if it lists no field names")
    func noCache() {
        #expect(!CacheControl("no-cache=\"Set-Cookie, Vary\"").requiresValidation)
        #expect(!CacheControl("no-cache=Set-Cookie").requiresValidation)
        #expect(CacheControl("no-cache").requiresValidation)
        #expect(CacheControl("no-cache=\"\"").requiresValidation)
        #expect(CacheControl("no-cache=\"Set-Cookie\", no-cache").requiresValidation)
        #expect(CacheControl("no-cache, no-cache=\"Set-Cookie\"").requiresValidation)
        #expect(!CacheControl("no-cache=\"Set-Cookie\", no-cache=Vary").requiresValidation)
    }

    @Test("must-understand cancels no-store, in either order")
    func mustUnderstand() {
        #expect(!CacheControl("must-understand, no-store").forbidsStoring)
        #expect(!CacheControl("no-store, must-understand").forbidsStoring)
    }

    @Test("the directives of RFC 5861 are read in seconds; invalid values are ignored")
    func staleDirectives() {
        let control = CacheControl("stale-while-revalidate=30, stale-if-error=\"86400\"")
        #expect(control.staleWhileRevalidate == 30)
        #expect(control.staleIfError == 86_400)
        #expect(CacheControl("stale-while-revalidate, stale-if-error=x") == CacheControl(""))
    }

    @Test("random fields do not make the parser trap")
    func noise() {
        var generator = SeededGenerator(seed: 9)
        let words = ["max-age", "no-cache", "=", ",", "\"", "\\", " ", "\t", "60", "é", "no-store", ";"]
        for _ in 0..<5_000 {
            let field = (0..<Int.random(in: 0...12, using: &generator))
                .compactMap { _ in words.randomElement(using: &generator) }.joined()
            #expect((0...1 << 31).contains(CacheControl(field).maximumAge ?? 0))
        }
    }
}
