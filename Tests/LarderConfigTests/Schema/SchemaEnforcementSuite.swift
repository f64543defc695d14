import LarderJSON

@testable import LarderConfigModel
@testable import LarderConfig

/// A suite whose stores have a schema with the members `limit` and `name`.
protocol SchemaEnforcementSuite {}

extension SchemaEnforcementSuite {
    /// Requires `limit`, an integer from 1 to 100, and permits `name`, a string.
    static var schema: String {
        """
        {"required": ["limit"], "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 100},
         "name": {"type": "string"}}}
        """
    }

    static func fixture(hasRemote: Bool = false, host: JSONValue? = ["limit": 10]) -> StoreFixture {
        var fixture = StoreFixture()
        fixture.hasRemote = hasRemote
        fixture.host = host
        fixture.schema = schema
        return fixture
    }

    /// The error of a change; nil if the store makes the change.
    func rejection(_ body: () async throws(ConfigError) -> CommitOutcome) async -> ConfigError? {
        do throws(ConfigError) {
            _ = try await body()
            return nil
        } catch {
            return error
        }
    }

    func set(_ path: String, _ value: JSONValue, in store: ConfigStore) async -> ConfigError? {
        await rejection { () async throws(ConfigError) in
            try await store.set(JSONPath(path.split(separator: ".").map(String.init)), to: value, timeToLive: nil)
        }
    }

    /// Replaces the host files by invalid ones whose violation an override hides, before the schema is in force.
    func hide(_ document: JSONValue, in store: ConfigStore, _ fixture: StoreFixture) async throws {
        await store.use(nil)
        _ = try await store.replaceFiles(.host, with: document)
        await store.use(try fixture.compiled(Self.schema))
    }
}
