package import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderPlatform
import LarderSchema

/// Reads a schema and the documents to which it refers. These must be in the directory of the schema or below it.
package struct SchemaFile: Sendable {
    /// A schema, or the reason why it cannot be used.
    package struct Reading: Sendable {
        package let schema: Result<NamespaceSchema, SchemaFileError>
        /// The paths of the documents, including those that cannot be read.
        let paths: Set<ExactText>
    }

    private var settings: SchemaSettings
    private let secrets: SecretPatterns
    /// The maximum size of a document in bytes.
    private let maximumBytes: Int

    /// - Parameter secrets: selects the values that messages must not show
    package init(_ settings: SchemaSettings, secrets: SecretPatterns, maximumBytes: Int) {
        self.settings = settings
        self.secrets = secrets
        self.maximumBytes = maximumBytes
    }

    /// Reads and compiles the schema. Blocks on disk I/O. An error names the file, and its line or the place in the
    /// schema.
    package func read() -> Reading {
        let directory = SchemaDirectory(ofFile: settings.path).path
        return compile { path throws(SchemaFileError) in
            if !path.isSpelled(as: settings.path), !RealPath.isBelow(path, directory: directory) {
                throw SchemaFileError(
                    "\(path) leads out of \(directory) by a symbolic link; copy the file into the directory of the schema"
                )
            }
            do throws(FileReadError) {
                let files = try DocumentFiles.read(at: path, maximumBytes: maximumBytes).files
                // A schema may also be a Boolean. The compiler reports other values.
                if files.count == 1, let file = files.first, file.path.isSpelled(as: path) {
                    return try DocumentFiles.value(of: file)
                }
            } catch {
                throw SchemaFileError(error.description + (error.line == nil ? place(of: path) : ""))
            }
            throw SchemaFileError("\(path) is a directory; name the file of the schema\(place(of: path))")
        }
    }

    /// Where the settings name a path, for an error; empty for a document to which the schema refers.
    private func place(of path: String) -> String {
        guard path.isSpelled(as: settings.path), let place = settings.place else { return "" }
        return " (named in \(place))"
    }

    /// Compiles a schema from documents that have been read before.
    /// - Parameters:
    ///   - documents: the documents by path, including the schema
    ///   - path: the path of the schema; nil for the path in the settings
    func compile(_ documents: [ExactText: JSONValue], schemaAt path: String?) -> Reading {
        var file = self
        if let path { file.settings.path = path }
        return file.compile { path throws(SchemaFileError) in
            guard let document = documents[ExactText(path)] else { throw SchemaFileError("no such document: \(path)") }
            return document
        }
    }

    /// Returns the schema in force with the settings of this file, except for the path. If these settings do not suit its
    /// documents, returns the schema itself.
    func recompile(_ schema: NamespaceSchema) -> NamespaceSchema {
        (try? compile(schema.documents, schemaAt: schema.settings.path).schema.get()) ?? schema
    }

    private func compile(reading read: (String) throws(SchemaFileError) -> JSONValue) -> Reading {
        var documents: [ExactText: JSONValue] = [:]
        var unreadable: (path: String, error: SchemaFileError)?
        func document(at path: String) -> JSONValue? {
            do throws(SchemaFileError) {
                let document = try read(path)
                documents[ExactText(path)] = document
                return document
            } catch {
                if unreadable == nil { unreadable = (path, error) }
                return nil
            }
        }
        func reading(_ schema: Result<NamespaceSchema, SchemaFileError>) -> Reading {
            let unread = [settings.path, unreadable?.path].compactMap { $0.map(ExactText.init) }
            return Reading(schema: schema, paths: Set(documents.keys).union(unread))
        }
        guard let schema = document(at: settings.path) else {
            return reading(.failure(unreadable?.error ?? SchemaFileError("cannot read \(settings.path)")))
        }
        let directory = SchemaDirectory(ofFile: settings.path)
        do throws(SchemaError) {
            let compiled = try JSONSchema(schema, baseURI: directory.uri, assertsFormats: settings.assertsFormats) {
                uri in
                directory.path(of: uri).flatMap(document)
            }
            return reading(
                .success(NamespaceSchema(documents, compiled, settings: settings, secrets: secrets)))
        } catch {
            let reason = unreadable.map { ": \($0.error)" } ?? ""
            return reading(.failure(SchemaFileError("\(error.description(inFile: settings.path))\(reason)")))
        }
    }
}

/// Why a schema cannot be used, in one line.
package struct SchemaFileError: Error, Sendable, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
