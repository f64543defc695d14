import Configuration
import LarderClientCore
import LarderJSON
import LarderSnapshotFile

@testable import ConfigurationLarder

/// Returns a snapshot of a JSON document, without an agent.
/// - Parameter secretPaths: The patterns of secrets; nil if the agent has not reported them.
func snapshot(
    _ text: String, secretPaths: [String]? = [], specifier: LarderProvider.Secrets = .none, revision: Int = 1
) throws -> LarderProviderSnapshot {
    let value = try JSONValue(parsing: Array(text.utf8))
    let file = try SnapshotFileWriter.file(of: value, revision: revision, epoch: "1", name: "test")
    let mapped = MappedSnapshot(try SnapshotFileReader(descriptor: file.descriptor, secretPaths: secretPaths))
    return LarderProviderSnapshot(mapped, origin: .agent, providerName: "test", specifier: specifier)
}
