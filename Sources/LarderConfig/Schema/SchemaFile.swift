package package import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderSchema

/// Reads a schema and the documents that it refers to. These must be in the directory of the schema or below it.
package struct SchemaFile: Sendable {
    let settings: SchemaSettings
    let secrets: SecretPatterns
    /// The maximum size of a document in bytes.
    let maximumBytes: Int

    /// - Parameter secrets: selects the values that messages must not show
    package init(_ settings: SchemaSettings, secrets: SecretPatterns, maximumBytes: Int) {
        self.settings = settings
        self.secrets = secrets
        self.maximumBytes = maximumBytes
    }

    /// Reads and compiles the schema. Blocks on disk I/O.
    /// - Throws: ``SchemaFileError``, naming the file, and its line or the place in the schema
    package func read() throws(SchemaFileError) -> NamespaceSchema {
        let document = try Self.document(at: settings.path, maximumBytes)
        var options = SchemaOptions()
        if let asserts = settings.assertsFormats { options.formats = asserts ? .asserted : .ignored }
        let directory = SchemaDirectory(ofFile: settings.path)
        var unreadable: SchemaFileError?
        do throws(SchemaError) {
            let compiled = try JSONSchema(document, baseURI: directory.uri, options: options) { uri in
                guard let path = directory.path(of: uri) else { return nil }
                do throws(SchemaFileError) {
                    return try Self.document(at: path, maximumBytes)
                } catch {
                    unreadable = error
                    return nil
                }
            }
            return NamespaceSchema(document, compiled, settings: settings, secrets: secrets)
        } catch {
            let reason = unreadable.map { ": \($0)" } ?? ""
            throw SchemaFileError("\(settings.path)\(error.location): \(error.detail)\(reason)")
        }
    }

    private static func document(at path: String, _ maximumBytes: Int) throws(SchemaFileError) -> JSONValue {
        do throws(FileReadError) {
            let files = try DocumentFiles.read(at: path, maximumBytes: maximumBytes).files
            if files.count == 1, let file = files.first, file.path == path { return try DocumentFiles.parse(file) }
        } catch {
            throw SchemaFileError(error.description)
        }
        throw SchemaFileError("\(path) is a directory; name the file of the schema")
    }
}

/// Why a schema cannot be used, in one line.
package struct SchemaFileError: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
