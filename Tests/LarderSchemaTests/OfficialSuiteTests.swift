import LarderJSON
import LarderSchema
import Testing

@Suite("Official test suite", .enabled(if: OfficialSuite.folder != nil, "LARDER_SUITES has no json-schema"))
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

    @Test("the optional tests and format tests pass, except the known ones")
    func optional() throws {
        var cases = 0
        var failures: [String] = []
        for (folder, assertFormats) in [("optional", false), ("optional/format", true)] {
            for testCase in try OfficialSuite.cases(in: folder) {
                cases += 1
                if let failure = OfficialSuite.failure(testCase, assertFormats: assertFormats) {
                    failures.append("\(testCase)")
                    print("FAIL", testCase, failure)
                }
            }
        }
        #expect(cases > 900)
        #expect(failures == [])
    }
}
