import Glibc
import LarderClientCore
import LarderJSON
import LarderPlatform
import LarderProtocol
import LarderSchema
import SystemPackage

/// A schema that the command line has read.
struct DocumentValidation {
    let schema: JSONSchema

    /// Compiles the schema in a file. Documents that it refers to must be in the directory of the file.
    init(file: String) throws(Failure) {
        let document = try LenientJSON.parse(Input.text(of: file), name: file)
        do {
            schema = try Self.compiled(document, path: absolutePath(file))
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
        return try JSONSchema(document, baseURI: directory.uri, assertsFormats: assertsFormats) { uri in
            guard let path = directory.path(of: uri), RealPath.isBelow(path, directory: directory.path),
                let bytes = try? Input.text(of: path)
            else { return nil }
            return try? LenientJSON.parse(bytes, name: path)
        }
    }
}

/// The documents of a layer that consists of files.
enum LayerFiles {
    /// Returns the documents of a layer, from lowest to highest precedence, as if `document` were the content of one of
    /// its files. A file of the same name is replaced.
    /// - Parameters:
    ///   - place: the directory of the layer, which need not exist. If it is a file, `document` replaces its content.
    ///   - file: the name of the file; nil for a file with the highest precedence
    /// - Throws: ``Failure`` if another file of the layer cannot be read or parsed
    static func documents(
        at place: String, with document: JSONValue, inFile file: String?
    ) throws(Failure) -> [JSONValue] {
        let own = file.map { Array($0.utf8) }
        let others = try names(in: place).filter { $0 != own }
        let index = own.flatMap { own in others.firstIndex(where: own.lexicographicallyPrecedes) } ?? others.endIndex
        var documents: [JSONValue] = []
        for name in others {
            let path = place + "/" + String(decoding: name, as: UTF8.self)
            let other = try LenientJSON.parse(Input.text(of: path), name: path)
            guard other.kind == .object else {
                throw Failure(.usage, "\(path) contains JSON of the type \(other.kind); correct it first")
            }
            documents.append(other)
        }
        documents.insert(document, at: index)
        return documents
    }

    /// The names of the files in a directory, in byte order; none if there is no directory.
    private static func names(in place: String) throws(Failure) -> [[UInt8]] {
        let directory = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        if directory < 0, errno == ENOENT || errno == ENOTDIR { return [] }
        guard directory >= 0 else { throw Failure.cannot("read", place) }
        do throws(Errno) {
            return try DirectoryListing.names(closing: directory)
                .filter { name in
                    name.first != UInt8(ascii: ".")
                        && [".json", ".json5"].contains { name.suffix($0.utf8.count).elementsEqual($0.utf8) }
                }
                .sorted { $0.lexicographicallyPrecedes($1) }
        } catch {
            throw Failure(.failure, "cannot read \(place): \(error)")
        }
    }
}
