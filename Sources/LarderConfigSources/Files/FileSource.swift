package import LarderConfigModel
import LarderEncoding
import LarderHTTPSemantics
package import LarderJSON
package import LarderPlatform
import LarderUpstream
import Synchronization

/// A source on this host, such as a file of another program or a ConfigMap. It is a file, or a directory whose `*.json`
/// and `*.json5` files are merged in the order of their names. Each read checks which of the two exists.
final class FileSource: ConfigSource {
    private let configuration: FileSourceSettings
    private let watcher: FileWatcher
    private let blocking: BlockingThreadPool
    /// The number of reads that have begun. A read that begins later finds newer files, even if it ends earlier.
    private let reads = Atomic(0)
    /// The number of the read of the last fetch.
    private let lastFetch = Atomic(0)

    var location: String { configuration.path }
    let identity: String

    init(configuration: FileSourceSettings, watcher: FileWatcher, blocking: BlockingThreadPool) {
        self.configuration = configuration
        self.watcher = watcher
        self.blocking = blocking
        identity = configuration.identity
    }

    var fetchOrder: Int? { lastFetch.load(ordering: .relaxed) }

    func fetch(
        ifChangedFrom validator: Validator?, reason: FetchReason
    ) async throws(ConfigError) -> SourceResponse {
        lastFetch.store(reads.wrappingAdd(1, ordering: .relaxed).newValue, ordering: .relaxed)
        return try await read(ifChangedFrom: validator)
    }

    private func read(ifChangedFrom validator: Validator?) async throws(ConfigError) -> SourceResponse {
        let (path, maximumBytes) = (configuration.path, configuration.maximumBytes)
        do throws(FileReadError) {
            let reading = try await blocking.run { () throws(FileReadError) in
                try DocumentFiles.read(at: path, maximumBytes: maximumBytes)
            }
            // The digest of the files serves as the entity tag.
            let current = Validator(etag: reading.digest.description)
            if let validator, validator == current { return .notModified }
            return .document(try await Self.document(of: reading, configuration.versionPath, current))
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
    private static func document(
        of reading: DocumentFiles, _ versionPath: JSONPath?, _ validator: Validator?
    ) async throws(FileReadError) -> SourceDocument {
        try await concurrently { () async throws(FileReadError) in
            // Nulls are kept, because they can remove members of the host layer.
            let composed = ComposedPatch(try reading.documents { Task.isCancelled })
            var document = SourceDocument(
                value: composed.patch, versionPath: versionPath, requirement: .never, validator: validator)
            document.removals = composed.removals
            return document
        }
    }

    /// Delivers the content of the files after each change.
    func documents(
        after delay: Duration, ifChangedFrom validator: @escaping @Sendable () async -> Validator?
    ) -> SourceDocuments? {
        let changes = watcher.changes(at: configuration.path)
        return SourceDocuments(unfolding: {
            var iterator = changes.makeAsyncIterator()
            guard let change = await iterator.next() else { return nil }
            let order = self.reads.wrappingAdd(1, ordering: .relaxed).newValue
            var delivery: SourceDelivery
            do throws(ConfigError) {
                let current = await validator()
                let response = try await self.read(ifChangedFrom: current)
                delivery = SourceDelivery(.success(response), order: order, validator: current)
            } catch {
                delivery = SourceDelivery(.failure(error), order: order)
            }
            delivery.watchProblem = change.watchProblem
            return delivery
        })
    }
}

/// The settings of a source that is a file on this host, or a directory whose `*.json` and `*.json5` files are merged.
package struct FileSourceSettings: Sendable, Equatable {
    @ComparedAsBytes package var path: String
    /// The path of the version in the document; nil for none.
    package var versionPath: JSONPath?
    /// The maximum size of the file, or of all files of a directory together, in bytes.
    package var maximumBytes = 16 << 20
}

extension FileSourceSettings {
    package init(path: String) { self.path = path }
}

/// Reads a layer from a file or directory.
package struct FileLayerReader: Sendable {
    package let layer: FileLayer
    /// The file or directory. If nil, the settings name none, and the layer is empty.
    package let path: String?
    private let content: @Sendable (_ isCancelled: @escaping () -> Bool) throws(FileReadError) -> ComposedPatch

    /// - Parameter content: reads the layer. If its parameter returns true, it throws an error with the code
    ///   `cancelled`.
    package init(
        layer: FileLayer, path: String?,
        content: @escaping @Sendable (_ isCancelled: @escaping () -> Bool) throws(FileReadError) -> ComposedPatch
    ) {
        self.layer = layer
        self.path = path
        self.content = content
    }

    /// Reads the layer. Blocks on disk I/O.
    ///
    /// - Parameter isCancelled: returns whether the content is not needed any more
    package func read(unless isCancelled: @escaping () -> Bool = { false }) throws(FileReadError) -> ComposedPatch {
        try content(isCancelled)
    }

    /// Merges documents, from lowest to highest precedence.
    ///
    /// - Parameter keepsNulls: whether nulls are kept, because they can remove members of a lower layer
    package static func merge(_ documents: [JSONValue], keepsNulls: Bool) -> ComposedPatch {
        keepsNulls ? ComposedPatch(documents) : ComposedPatch(MergePatch.merge(documents))
    }
}
