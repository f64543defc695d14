import LarderJSON
import LarderSchema

/// Validates documents with a schema that the command line has read.
struct DocumentValidation {
    /// A violation of the schema.
    struct Violation: Equatable {
        let path: [String]
        let schemaPath: String
        let keyword: String
        let message: String
    }

    private let schema: JSONSchema

    /// Compiles the schema in a file. Documents that it refers to must be in the directory of the file.
    init(file: String) throws(Failure) {
        let document = try LenientJSON.parse(Input.contents(of: file), name: file)
        let directory = SchemaDirectory(ofFile: Self.absolute(file))
        do {
            schema = try JSONSchema(document, baseURI: directory.uri) { uri in
                guard let path = directory.path(of: uri), let bytes = try? Input.contents(of: path) else { return nil }
                return try? LenientJSON.parse(bytes, name: path)
            }
        } catch {
            throw Failure(.usage, "\(file)\(error.location): \(error.detail)")
        }
    }

    /// Compiles a schema from an agent. Documents that it refers to are not available.
    init(_ document: JSONValue) throws(Failure) {
        do {
            schema = try JSONSchema(document)
        } catch {
            throw Failure(
                .failure, "cannot use the schema of the agent here: \(error.location): \(error.detail); pass --schema FILE")
        }
    }

    /// The violations of a document, the most specific first.
    func violations(of document: JSONValue) -> [Violation] {
        schema.validate(document).map { violation in
            Violation(
                path: violation.path.segments, schemaPath: violation.schemaLocation, keyword: violation.keyword,
                message: violation.message)
        }
    }

    private static func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        guard let directory = Input.currentDirectory else { return "/" + path }
        return directory + "/" + path
    }
}
