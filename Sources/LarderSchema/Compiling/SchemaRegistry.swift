@_spi(LarderSchema) import LarderJSON

/// The documents and resources of a schema, and the targets of references.
///
/// This is a class, because a copy that is alive during a change would make the change copy all collections.
final class SchemaRegistry {
    struct Document {
        /// The URI that the document was loaded from; empty for a main document without a URI.
        var uri: String
        var root: JSONValue
    }

    /// A schema resource: the root of a document, or a schema with its own `$id`.
    struct Resource {
        var uri: URIReference
        var dialect: Dialect
        var root: SchemaLocation
        var anchors: [ExactText: SchemaLocation] = [:]
        var dynamicAnchors: [ExactText: SchemaLocation] = [:]
    }

    private(set) var documents: [Document] = []
    private(set) var resources: [Resource] = []
    /// Indexes of `resources` by absolute URI without fragment.
    private var byURI: [ExactText: Int] = [:]
    private var byRoot: [SchemaLocation.Key: Int] = [:]
    private var scanned: Set<SchemaLocation.Key> = []
    /// The elements of the arrays that references lead into, so that each array is read only once.
    private var elements: [SchemaLocation.Key: [JSONValue]] = [:]
    private let load: (String) -> JSONValue?
    private let defaultDialect: Dialect

    private static let maxDocuments = 1_000

    init(defaultDialect: Dialect, load: @escaping (String) -> JSONValue?) {
        self.defaultDialect = defaultDialect
        self.load = load
    }

    /// Returns a location with its `resource` changed to the resource that begins there, if one does.
    func entered(_ location: SchemaLocation) -> SchemaLocation {
        var result = location
        result.resource = byRoot[location.key] ?? location.resource
        return result
    }

    func dialect(of location: SchemaLocation) -> Dialect { resources[location.resource].dialect }

    /// Returns a location as text. The URI of the document is left out if it is the main document.
    func text(_ location: SchemaLocation) -> String {
        (location.document == 0 ? "" : documents[location.document].uri) + "#" + location.pointer
    }

    func error(_ location: SchemaLocation, _ detail: String) -> SchemaError {
        SchemaError(location: text(location), detail: detail)
    }

    /// Adds a document with the URI that it was loaded from. Returns the location of its root.
    func add(_ root: JSONValue, uri: String) throws(SchemaError) -> SchemaLocation {
        let document = documents.count
        documents.append(Document(uri: uri, root: root))
        let location = SchemaLocation(document: document, value: root, pointer: "", resource: resources.count)
        guard let base = URIReference(uri) else {
            throw error(location, "the URI \"\(uri)\" is invalid")
        }
        let inherited = resources.first?.dialect ?? defaultDialect
        resources.append(
            Resource(uri: base, dialect: try dialect(root, at: location, inherited: inherited), root: location))
        byRoot[location.key] = location.resource
        let key = ExactText(base.withoutFragment)
        byURI[key] = byURI[key] ?? location.resource
        try scan(location)
        // If the schema at the root has an `$id`, it is a second resource at the same location. Only that resource has
        // the anchors, so the URI of the document must lead to it.
        if byURI[key] == location.resource { byURI[key] = byRoot[location.key] }
        return entered(location)
    }

    /// Returns the dialect that `$schema` names; `inherited` if the schema does not have `$schema`.
    private func dialect(
        _ schema: JSONValue, at location: SchemaLocation, inherited: Dialect, depth: Int = 0
    ) throws(SchemaError) -> Dialect {
        guard let value = schema["$schema"], schema.kind == .object else { return inherited }
        let place = location.appending("$schema", value)
        guard let uri = value.string else { throw error(place, "\"$schema\" must be a string") }
        if let dialect = Dialect.named(uri) { return dialect }
        guard depth < 8, let metaschema = load(uri), metaschema.kind == .object else {
            throw error(
                place,
                "the dialect \"\(uri)\" is not supported; use \"\(Dialect.identifiers[0])\" or \"\(Dialect.identifiers[1])\""
            )
        }
        let base = try dialect(metaschema, at: place, inherited: .draft202012, depth: depth + 1)
        guard base.version == .draft202012 else { return base }
        let (dialect, unknown) = Dialect.custom(metaschema["$vocabulary"])
        guard let dialect else {
            throw error(
                place, "the dialect \"\(uri)\" requires the vocabulary \"\(unknown ?? "")\", which is not supported")
        }
        return dialect
    }

    /// Finds the identifiers and anchors of a schema and its subschemas.
    private func scan(_ root: SchemaLocation) throws(SchemaError) {
        var pending = [root]
        while var location = pending.popLast() {
            guard location.value.kind == .object, scanned.insert(location.key).inserted else { continue }
            try readIdentifier(&location)
            let dialect = dialect(of: location)
            if dialect.version == .draft7, location.value["$ref"] != nil { continue }
            try readAnchors(location)
            var subschemas: [SchemaLocation] = []
            for (name, value) in location.value.members {
                guard let position = SubschemaPosition.of(name, dialect) else { continue }
                subschemas += Self.subschemas(of: position, location.appending(name, value))
            }
            // Reversed, because the last pending schema is read next, and schemas are read in the order of the
            // document.
            pending += subschemas.reversed()
        }
    }

    /// Returns the subschemas in the value of a keyword. `location` is that of the value.
    static func subschemas(of position: SubschemaPosition, _ location: SchemaLocation) -> [SchemaLocation] {
        let value = location.value
        switch (position, value.kind) {
        case (.schema, _), (.schemaOrList, .object), (.schemaOrList, .bool): return [location]
        case (.list, .array), (.schemaOrList, .array):
            return value.elements.enumerated().map { index, element in
                var result = location
                result.value = element
                result.pointer += "/\(index)"
                return result
            }
        case (.map, .object), (.dependencyMap, .object):
            return value.members.compactMap { name, member in
                if case .dependencyMap = position, member.kind == .array { return nil }
                return location.appending(name, member)
            }
        default: return []
        }
    }

    /// Starts a resource if the schema has an identifier.
    private func readIdentifier(_ location: inout SchemaLocation) throws(SchemaError) {
        let schema = location.value
        let isDraft7 = dialect(of: location).version == .draft7
        guard let value = schema["$id"], !(isDraft7 && schema["$ref"] != nil) else { return }
        let place = location.appending("$id", value)
        guard let text = value.string, let reference = URIReference(text) else {
            throw error(place, "\"$id\" must be a URI reference")
        }
        if isDraft7, let fragment = reference.fragment, !fragment.isEmpty {
            try add(anchor: fragment, location)
            if text.hasPrefix("#") { return }
        } else if reference.fragment?.isEmpty == false {
            throw error(place, "\"$id\" must not have a fragment; use \"$anchor\"")
        }
        let uri = reference.resolved(against: resources[location.resource].uri)
        let dialect = try dialect(schema, at: location, inherited: dialect(of: location))
        location.resource = resources.count
        resources.append(Resource(uri: uri, dialect: dialect, root: location))
        byRoot[location.key] = location.resource
        let key = ExactText(uri.withoutFragment)
        if let other = byURI[key], resources[other].root.document == location.document,
            resources[other].root.key != location.key
        {
            throw error(place, "the identifier \"\(key.text)\" is also used by \(self.text(resources[other].root))")
        }
        byURI[key] = location.resource
    }

    private func readAnchors(_ location: SchemaLocation) throws(SchemaError) {
        guard dialect(of: location).version != .draft7 else { return }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            guard let value = location.value[keyword] else { continue }
            guard let name = value.string, Self.isAnchor(name) else {
                throw error(
                    location.appending(keyword, value), "\"\(keyword)\" must be a name of letters, digits, and - _ .")
            }
            try add(anchor: name, location)
            if keyword == "$dynamicAnchor" { resources[location.resource].dynamicAnchors[ExactText(name)] = location }
        }
    }

    private func add(anchor name: String, _ location: SchemaLocation) throws(SchemaError) {
        let other = resources[location.resource].anchors.updateValue(location, forKey: ExactText(name))
        if let other, other.key != location.key {
            throw error(location, "the anchor \"\(name)\" is also used by \(text(other))")
        }
    }

    private static func isAnchor(_ name: String) -> Bool {
        func isLetter(_ byte: UInt8) -> Bool { FormatReader.isLetter(byte) || byte == UInt8(ascii: "_") }
        return name.utf8.first.map(isLetter) ?? false
            && name.utf8.allSatisfy { isLetter($0) || FormatReader.isDigit($0) || "-.".utf8.contains($0) }
    }

    /// Finds the target of a reference, and loads the document with the target if necessary.
    ///
    /// - Parameter place: the location of the keyword that contains the reference. The reference is relative to the
    ///   resource of this location.
    func resolve(_ reference: String, at place: SchemaLocation) throws(SchemaError) -> SchemaLocation {
        guard let relative = URIReference(reference) else {
            throw error(place, "\"\(reference)\" is not a URI reference")
        }
        let uri = relative.resolved(against: resources[place.resource].uri)
        guard let fragment = uri.decodedFragment else {
            throw error(place, "\"\(reference)\" is not a URI reference")
        }
        let resource = try resource(uri.withoutFragment, place)
        if fragment.isEmpty { return resources[resource].root }
        if fragment.hasPrefix("/") {
            guard let target = try target(of: fragment, in: resource) else {
                throw error(place, "\"\(reference)\" does not exist")
            }
            return target
        }
        guard let target = resources[resource].anchors[ExactText(fragment)] else {
            throw error(place, "\"\(reference)\" does not exist: there is no anchor \"\(fragment)\"")
        }
        return target
    }

    /// The fragment of a reference if it is the dynamic anchor of the target; otherwise nil.
    func dynamicAnchor(_ reference: String, _ target: SchemaLocation) -> String? {
        guard let name = URIReference(reference)?.decodedFragment,
            resources[target.resource].dynamicAnchors[ExactText(name)]?.key == target.key
        else { return nil }
        return name
    }

    private func resource(_ uri: String, _ place: SchemaLocation) throws(SchemaError) -> Int {
        if let resource = byURI[ExactText(uri)] { return resource }
        guard documents.count < Self.maxDocuments else {
            throw error(place, "the schema refers to more than \(Self.maxDocuments) documents")
        }
        guard let document = Metaschemas.document(uri) ?? load(uri) else {
            throw error(place, "the schema \"\(uri)\" does not exist or cannot be read")
        }
        let root = try add(document, uri: uri)
        return root.resource
    }

    private func element(_ segment: String, of array: SchemaLocation) -> JSONValue? {
        guard let index = Int(segment), String(index) == segment else { return nil }
        if elements[array.key] == nil { elements[array.key] = Array(array.value.elements) }
        guard let elements = elements[array.key], elements.indices.contains(index) else { return nil }
        return elements[index]
    }

    /// Follows a JSON Pointer from the root of a resource.
    private func target(of pointer: String, in resource: Int) throws(SchemaError) -> SchemaLocation? {
        guard let path = try? JSONPath(parsing: pointer) else { return nil }
        var location = resources[resource].root
        for segment in path.segments {
            var next: JSONValue?
            switch location.value.kind {
            case .object: next = location.value[segment]
            case .array: next = element(segment, of: location)
            default: break
            }
            guard let next else { return nil }
            location = entered(location.appending(segment, next))
        }
        // A reference may lead to a value that no keyword marks as a schema, so the value may not have been scanned
        // yet.
        try scan(location)
        return entered(location)
    }
}

/// The directory of a schema file. References of the schema may lead to files in it and below it, and nowhere else.
package struct SchemaDirectory: Sendable {
    private let segments: [Substring]
    /// The path of the directory.
    package var path: String { "/" + segments.joined(separator: "/") }
    /// The URI of the schema file (RFC 8089).
    package let uri: String

    /// - Parameter path: the absolute path of the schema file
    package init(ofFile path: String) {
        segments = path.split(separator: "/").dropLast()
        uri = "file://" + path.utf8.map(Self.escaped).joined()
    }

    /// The path of the file that a URI refers to; nil if the file is outside of the directory, and for any URI that is
    /// not a `file` URI.
    package func path(of uri: String) -> String? {
        // A NUL would end the path of a system call.
        guard uri.hasPrefix("file:///"), let path = URIReference.decoded(uri.dropFirst(7)), !path.utf8.contains(0)
        else {
            return nil
        }
        let found = path.split(separator: "/")
        guard found.starts(with: segments, by: { $0.utf8.elementsEqual($1.utf8) }), found.count > segments.count,
            !found.contains("..")
        else { return nil }
        return path
    }

    /// Percent-encodes a byte unless it may stand in the path of a URI (RFC 3986, section 3.3).
    private static func escaped(_ byte: UInt8) -> String {
        let isPlain = byte > 0x20 && byte < 0x7F && !"%?#[]\"<>\\^`{|}".utf8.contains(byte)
        if isPlain { return String(UnicodeScalar(byte)) }
        return "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16, uppercase: true)
    }
}
