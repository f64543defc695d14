import LarderConfigModel
import LarderHTTPSemantics
import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization

/// A source on this host, such as a file of another program or a ConfigMap. It is a file, or a directory whose `*.json`
/// and `*.json5` files are merged in the order of their names. Each read checks which of the two exists.
final class FileSource: ConfigSource {
    private let configuration: FileSourceSettings
    private let watcher: FileWatcher
    private let blocking: BlockingWork
    private let problem = FileWatcher.Problem()

    init(configuration: FileSourceSettings, watcher: FileWatcher, blocking: BlockingWork) {
        self.configuration = configuration
        self.watcher = watcher
        self.blocking = blocking
    }

    var location: String { configuration.path }
    var identity: String { configuration.identity }

    func fetch(
        ifChangedFrom validator: Validator?, on occasion: FetchOccasion
    ) async throws(ConfigError) -> SourceAnswer {
        let (path, maximumBytes) = (configuration.path, configuration.maximumBytes)
        do throws(FileReadError) {
            let reading = try await blocking.run { () throws(FileReadError) in
                try DocumentFiles.read(at: path, maximumBytes: maximumBytes)
            }
            // The digest of the files serves as the entity tag.
            let current = Validator(etag: reading.digest.description)
            if let validator, validator == current { return .notModified }
            let document = try await Self.document(of: reading, configuration.versionPath, current)
            return .document(document)
        } catch {
            let code: ConfigError.Code =
                switch error.code {
                case .invalidJSON, .notAnObject: .rejected
                case .cancelled: .cancelled
                default: .upstreamFailed
                }
            throw ConfigError(code, error.description)
        }
    }

    /// Merges the files. Parses them outside any actor, and ends early if the task is cancelled.
    @concurrent
    private static func document(
        of reading: DocumentFiles, _ versionPath: JSONPath?, _ validator: Validator?
    ) async throws(FileReadError) -> SourceDocument {
        // Nulls are kept, because they can remove members of the host layer.
        let composed = ComposedPatch(try reading.documents { Task.isCancelled })
        var document = SourceDocument(
            value: composed.patch, versionPath: versionPath, requirement: .never, validator: validator)
        document.removals = composed.removals
        return document
    }

    func changes(after delay: Duration) -> AsyncStream<Void>? {
        watcher.changes(at: configuration.path, reporting: problem)
    }

    var watchProblem: String? { problem.message }
}
