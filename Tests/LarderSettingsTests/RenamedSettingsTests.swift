import LarderSettings
import Testing

@Suite("Renamed settings")
struct RenamedSettingsTests {
    @Test(
        "the old name of a setting is an error that names the new one",
        arguments: [
            (
                "{limits: {stallSeconds: 3}}",
                "1:11: limits.stallSeconds is now called limits.sendTimeoutSeconds; rename it"
            ),
            (
                "{images: {imageBytes: 65536}}",
                "1:11: images.imageBytes is now called images.maximumImageBytes; rename it"
            ),
            (
                "{images: {imagePixels: 100}}",
                "1:11: images.imagePixels is now called images.maximumImagePixels; rename it"
            ),
            (
                "{images: {failures: {refusedSeconds: 9}}}",
                "1:22: images.failures.refusedSeconds is now called images.failures.rejectedSeconds; rename it"
            ),
            (
                "{namespaces: {'web.v1': {remote: {http: {url: 'https://h', answerPath: '/a'}}}}}",
                "1:60: namespaces[\"web.v1\"].remote.http.answerPath is now called "
                    + "namespaces[\"web.v1\"].remote.http.responsePath; rename it"
            ),
        ])
    func oldNames(text: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.code == .unknownMember)
        #expect(error?.description == message)
    }

    @Test(
        "settings that an earlier version saved are read with the present names",
        arguments: [
            ("{limits: {stallSeconds: 3}}", "{limits: {sendTimeoutSeconds: 3}}"),
            ("{images: {imageBytes: 65536}}", "{images: {maximumImageBytes: 65536}}"),
            ("{'images': {\"image\\u0050ixels\": 100}}", "{images: {maximumImagePixels: 100}}"),
            ("{images: {failures: {refusedSeconds: 9}}}", "{images: {failures: {rejectedSeconds: 9}}}"),
            (
                "{namespaces: {a: {schema: {path: '/s.json', enforce: 'refuse'}}}}",
                "{namespaces: {a: {schema: {path: '/s.json', enforce: 'reject'}}}}"
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'https://h', partialData: 'refuse'}}}}}",
                "{namespaces: {a: {remote: {http: {url: 'https://h', partialData: 'reject'}}}}}"
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'https://h', answerPath: '/a'}}}}}",
                "{namespaces: {a: {remote: {http: {url: 'https://h', responsePath: '/a'}}}}}"
            ),
        ])
    func saved(old: String, new: String) throws {
        let migrated = try Settings(parsing: Array(old.utf8), areSaved: true)
        #expect(try migrated == settings(new))
        #expect(migrated != Settings())
    }

    @Test(
        "the old word for a rejection is an error that names the new one",
        arguments: [
            (
                "{namespaces: {a: {schema: {path: '/s.json', enforce: 'refuse'}}}}",
                "namespaces.a.schema.enforce must be one of \"reject\", \"warn\", not \"refuse\""
            ),
            (
                "{namespaces: {a: {remote: {http: {url: 'https://h', partialData: 'refuse'}}}}}",
                "namespaces.a.remote.http.partialData must be one of \"reject\", \"accept\", not \"refuse\""
            ),
        ])
    func oldWords(text: String, reason: String) {
        let error = #expect(throws: SettingsError.self) { try settings(text) }
        #expect(error?.code == .invalid)
        #expect(error?.reason == reason)
    }

    @Test("an old name in another section is an unknown setting, also in saved settings")
    func otherSection() {
        let error = #expect(throws: SettingsError.self) {
            try Settings(parsing: Array("{limits: {imageBytes: 65536}}".utf8), areSaved: true)
        }
        #expect(error?.description.hasPrefix("1:11: limits.imageBytes is not a setting; ") == true)
    }
}
