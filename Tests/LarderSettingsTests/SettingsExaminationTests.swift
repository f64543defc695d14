import LarderConfig
import Testing

@testable import LarderSettings

@Suite("Settings examination")
struct SettingsExaminationTests {
    private func errors(_ text: String) -> [String] {
        Settings.examine(Array(text.utf8), maxErrors: 100).errors.map(\.description)
    }

    @Test("every error is reported with its position")
    func all() {
        let found = Set(
            errors(
                """
                {
                  color: 1,
                  limits: { connections: 0, sendTimeoutSecond: 3, lineBytes: "x" },
                  log: { level: "loud" },
                  log: {},
                  namespaces: {
                    shop: { locks: ["a", 5, "/~"], remote: { http: { url: "ftp://x" } } },
                    "Shop!": {},
                  },
                }
                """
            ).map { $0.prefix { $0 != " " } })
        #expect(found == ["2:3:", "3:26:", "3:29:", "3:62:", "4:17:", "5:3:", "7:26:", "7:29:", "7:54:", "8:5:"])
    }

    @Test("an invalid required setting is not also reported as missing")
    func consequences() {
        #expect(errors("{namespaces: {a: {defaults: {path: 5}}}}").count == 1)
        #expect(errors("{namespaces: {a: {remote: {http: {url: 5}}}}}").count == 1)
        #expect(
            errors("{namespaces: {a: {defaults: {paths: '/x'}}}}").count == 2, "the unknown name and the missing path")
    }

    @Test("valid settings are read even if other settings are invalid")
    func remainder() throws {
        let examination = Settings.examine(
            Array("{color: 1, namespaces: {shop: {host: {directory: '/shop'}}}}".utf8), maxErrors: 100)
        #expect(examination.errors.count == 1)
        #expect(examination.settings?.namespaces["shop"]?.hostDirectory == "/shop")
    }

    @Test("text that is not JSON5 causes one error, and valid settings cause none")
    func texts() {
        #expect(errors("{ a: 1 b }") == [#"1:8: found "b" where "," or "}" should be"#])
        #expect(errors("{}").isEmpty)
    }
}
