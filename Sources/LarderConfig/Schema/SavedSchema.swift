import LarderConfigStorage
import LarderJSON
import Logging

/// The file `schema.json` in the state directory of a namespace: the documents of the last usable schema. They stay in
/// force after a restart if the schema file cannot be used then.
struct SavedSchema: Sendable {
    private let namespace: String
    private let path: String
    private let files: any FileSystem
    private let logger: Logger

    /// - Parameter directory: the state directory of the namespace
    init(namespace: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        path = directory + "/schema.json"
        self.files = files
        self.logger = logger
    }

    /// Writes the documents of a schema, unless the file has them already. Blocks on disk I/O. A failure is logged.
    func save(_ schema: NamespaceSchema) {
        let text = JSONValue.object(
            schema.documents.sorted { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }
                .map { ($0.key.text, $0.value) }
        ).compactText
        do throws(FileError) {
            let bytes = Array(text.utf8)
            if try files.read(path) != bytes { try files.replace(path, with: bytes) }
        } catch {
            logger.warning(
                "namespace \(namespace): cannot save the schema; if its file is broken at the next start, nothing is validated: \(error)",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }

    /// Compiles the saved schema. Blocks on disk I/O.
    /// - Parameter file: the settings of the schema that cannot be used
    /// - Returns: nil if no schema of this path is saved
    func load(for file: SchemaFile) -> NamespaceSchema? {
        guard let bytes = try? files.read(path), let saved = try? JSONValue(parsing: bytes) else { return nil }
        let documents = Dictionary(saved.members.map { (ExactText($0.name), $0.value) }) { first, _ in first }
        return try? file.compile(documents).schema.get()
    }
}
