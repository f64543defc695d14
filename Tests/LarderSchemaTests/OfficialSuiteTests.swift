import Testing

@Suite("Official test suite", .enabled(if: OfficialSuite.folder != nil, "needs LARDER_SUITES with json-schema"))
struct OfficialSuiteTests {
    @Test("all required tests of draft 2020-12 pass")
    func required() throws {
        let cases = try OfficialSuite.cases(in: "")
        #expect(cases.count > 1_000)
        for testCase in cases {
            let failure = OfficialSuite.failure(testCase, assertFormats: false)
            #expect(failure == nil, "\(testCase)")
        }
    }

    /// The optional tests that fail, with the reason. contrib/guides/schemas.md lists them too.
    static let known: [String: String] = [
        "optional/cross-draft: refs to historic drafts are processed as historic drafts: first item not a string is valid":
            "refers to a schema of draft 2019-09, which is not supported",
        "optional/format/ecmascript-regex: ECMA 262 lookbehind is valid, including variable width: "
            + "a variable-width lookbehind (ES2018)": "PCRE2 10.42 has only lookbehinds of fixed width",
    ]

    /// The cases whose descriptions begin so are about formats, and labels of host names, that are not checked.
    /// contrib/guides/schemas.md lists the formats that are.
    static let unchecked = [
        "optional/format/idn-email:", "optional/format/idn-hostname:", "optional/format/uri-template:",
        "optional/format/hostname: validation of A-label (punycode) host names:",
    ]

    @Test("the optional tests and format tests pass, except those that are known to fail")
    func optional() throws {
        var cases = 0
        var failures: [String] = []
        for (folder, assertFormats) in [("optional", false), ("optional/format", true)] {
            for testCase in try OfficialSuite.cases(in: folder) {
                if Self.unchecked.contains(where: testCase.description.hasPrefix) { continue }
                cases += 1
                if OfficialSuite.failure(testCase, assertFormats: assertFormats) != nil {
                    failures.append("\(testCase)")
                }
            }
        }
        #expect(cases > 700)
        #expect(failures.sorted() == Self.known.keys.sorted())
    }
}
