import JSON
import LarderUpstream
import Synchronization

/// A remote layer that is a file on this machine, such as another program writes or a ConfigMap brings.
final class FileSource: ConfigSource {
    private let configuration: NamespaceConfiguration.File
    private let watcher: FileWatcher
    private let blocking: BlockingWork

    init(configuration: NamespaceConfiguration.File, watcher: FileWatcher, blocking: BlockingWork) {
        self.configuration = configuration
        self.watcher = watcher
        self.blocking = blocking
    }

    var kind: String { "file" }
    var location: String { configuration.path }

    func fetch(ifChangedFrom validator: Validator?) async throws(ConfigError) -> SourceAnswer {
        let file = DocumentFile(path: configuration.path, maximumBytes: configuration.maximumBytes)
        let reading: DocumentFile.Reading
        do throws(FileReadError) {
            reading = try await blocking.run { () throws(FileReadError) in try file.read() }
        } catch {
            throw ConfigError(.upstreamFailed, error.description)
        }
        // A file's stamp does for it what an entity tag does for a web page.
        let stamp = Validator(etag: reading.stamp.description)
        if let validator, validator == stamp { return .notModified }
        return .document(
            try await SourceDocument.parse(
                reading.bytes, from: location, versionPath: configuration.versionPath, validator: stamp))
    }

    func changes() -> AsyncStream<Void>? { watcher.changes(at: configuration.path) }
}
