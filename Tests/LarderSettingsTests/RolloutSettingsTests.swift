import LarderConfig
import LarderSettings
import Testing

@Suite("Settings of rollouts")
struct RolloutSettingsTests {
    private func rollout(_ text: String) throws -> RolloutSettings? {
        try Settings(parsing: Array("{namespaces: {default: {rollout: {\(text)}}}}".utf8)).namespaces["default"]?
            .rollout
    }

    @Test("names or a number of clients can be required; the other settings have defaults")
    func defaults() throws {
        let settings = try #require(try rollout("require: ['search-api', 'b']"))
        #expect(settings == RolloutSettings(.names(["search-api", "b"])))
        #expect(settings.timeout == .seconds(60) && settings.onRefusal == .rollback && settings.onTimeout == .rollback)
        #expect(try rollout("require: 3")?.requirement == .count(3))
        let other = try rollout("require: 1, timeoutSeconds: 5, onRefusal: 'warn', onTimeout: 'warn'")
        #expect(other?.timeout == .seconds(5) && other?.onRefusal == .warn && other?.onTimeout == .warn)
    }

    @Test(
        "invalid settings are rejected",
        arguments: [
            "", "require: 0", "require: 1001", "require: []", "require: ['a', 'a']", "require: ['']",
            "require: ['a-name-of-16-chr']", "require: 1, timeoutSeconds: 0", "require: 1, onRefusal: 'ignore'",
            "require: 1, canary: true",
        ])
    func invalid(text: String) {
        #expect(throws: SettingsError.self) { try rollout(text) }
    }
}
