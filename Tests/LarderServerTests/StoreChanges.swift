import LarderConfig
import LarderConfigModel
import LarderJSON

extension ConfigStore {
    func set(
        _ path: JSONPath, to value: JSONValue, timeToLive: Duration?
    ) async throws(ConfigError) -> CommitOutcome {
        try await commit(.set(path: path.segments, value: value, timeToLive: timeToLive, by: nil))
    }
}
