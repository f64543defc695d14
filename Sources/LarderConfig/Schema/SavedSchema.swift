import LarderConfigModel
import LarderConfigStorage
import LarderJSON
import Logging

/// The file `schema.json` in the state directory of a namespace: the documents of the last usable schema. They stay in
/// force, also after a restart, until the file that the settings name can be used, even if the settings name another file
/// than before.
///
/// The file is an object. Its member `schema` is the path of the schema, and each other member is a document with its
/// absolute path as name. Earlier versions wrote only the documents.
struct SavedSchema: Sendable {
    /// The name of the member with the path of the schema. No path of a document has this name, because all are absolute.
    private static let schemaMember = "schema"

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

    /// Writes the documents of a schema, unless the file has them already. Blocks on disk I/O.
    /// - Returns: why they could not be written; nil if the file has them
    func save(_ schema: NamespaceSchema) -> ConfigError? {
        let documents = schema.documents.sorted { $0.key.text.utf8.lexicographicallyPrecedes($1.key.text.utf8) }
        let text = JSONValue.object(
            [(Self.schemaMember, .string(schema.settings.path))] + documents.map { ($0.key.text, $0.value) }
        ).compactText
        do throws(FileError) {
            let bytes = Array(text.utf8)
            if try files.read(path) != bytes { try files.replace(path, with: bytes) }
            return nil
        } catch {
            return ConfigError(
                .storageFailed,
                "\(error); if the schema file is broken at the next start, nothing is validated; free space or repair the disk"
            )
        }
    }

    /// Removes the saved schema, because the settings name none. Blocks on disk I/O. A failure is logged.
    func remove() {
        do throws(FileError) {
            if try files.head(of: path, bytes: 1) != nil { try files.remove(path) }
        } catch {
            logger.warning(
                "namespace \(namespace): cannot remove the saved schema; it would take effect if the settings name a schema that cannot be used: \(error)",
                metadata: ["namespace": "\(namespace)", "error": "\(error)"])
        }
    }

    /// Logs that the documents could not be written.
    func log(_ problem: ConfigError) {
        logger.warning(
            "namespace \(namespace): cannot save the schema: \(problem.message)",
            metadata: ["namespace": "\(namespace)", "error": "\(problem.message)"])
    }

    /// Compiles the saved schema with the current settings. Blocks on disk I/O.
    /// - Parameter file: the schema of the settings, which cannot be used
    /// - Returns: nil if no schema is saved, or if the schema was saved by an earlier version and the settings name
    ///   another file now
    func load(for file: SchemaFile) -> NamespaceSchema? {
        guard let bytes = try? files.read(path), let saved = try? JSONValue(parsing: bytes) else { return nil }
        let documents = Dictionary(saved.members.map { (ExactText($0.name), $0.value) }) { first, _ in first }
        return try? file.compile(documents, schemaAt: saved[Self.schemaMember]?.string).schema.get()
    }
}
