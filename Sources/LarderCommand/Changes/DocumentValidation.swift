import LarderClientCore
import LarderJSON
import LarderPlatform
import LarderSchema

/// A schema that the command line has read.
struct DocumentValidation {
    let schema: JSONSchema

    /// Compiles the schema in a file. Documents that it refers to must be in the directory of the file.
    init(file: String) throws(Failure) {
        let document = try LenientJSON.parse(Input.text(of: file), name: file)
        do {
            schema = try Self.compiled(document, path: Self.absolute(file))
        } catch {
            throw Failure(.usage, error.description(inFile: file))
        }
    }

    /// Compiles the schema that an agent uses. The agent does not send the documents that the schema refers to, so they
    /// are read from the directory of the schema file.
    init(_ result: ConfigSchema.Result) throws(Failure) {
        do {
            schema = try Self.compiled(result.schema, path: result.path, assertsFormats: result.assertFormats)
        } catch {
            throw Failure(
                .failure,
                "cannot use the agent's schema \(error.description(inFile: result.path)); pass --schema FILE")
        }
    }

    /// Compiles a schema, and reads the documents that it refers to from the directory of its file.
    /// - Parameters:
    ///   - path: the absolute path of the schema file
    ///   - assertsFormats: whether `format` is asserted; nil for what the dialect says
    private static func compiled(
        _ document: JSONValue, path: String, assertsFormats: Bool? = nil
    ) throws(LarderSchema.SchemaError) -> JSONSchema {
        let directory = SchemaDirectory(ofFile: path)
        var options = SchemaOptions()
        if let assertsFormats { options.formats = assertsFormats ? .asserted : .ignored }
        return try JSONSchema(document, baseURI: directory.uri, options: options) { uri in
            guard let path = directory.path(of: uri), RealPath.isBelow(path, directory: directory.path),
                let bytes = try? Input.text(of: path)
            else { return nil }
            return try? LenientJSON.parse(bytes, name: path)
        }
    }

    private static func absolute(_ path: String) -> String {
        if path.hasPrefix("/") { return path }
        guard let directory = Input.currentDirectory else { return "/" + path }
        return directory + "/" + path
    }
}
