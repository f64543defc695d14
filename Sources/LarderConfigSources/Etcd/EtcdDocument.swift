import LarderConfigModel
import LarderJSON

/// Builds a configuration from the keys and values of a source.
///
/// Under a prefix, each key is one value. The part of the key after the prefix is its path, with `/` between the
/// segments. The same keys always produce the same document. If one key cannot be used, the whole document is rejected
/// with an error that names the key. The documents of several prefixes are merged (RFC 7396).
struct EtcdDocument: Sendable {
    let keys: EtcdSourceSettings.Keys
    let format: EtcdSourceSettings.Format
    /// The maximum size of the document, in bytes.
    let maximumBytes: Int

    private typealias Leaf = (key: [UInt8], value: [UInt8])

    /// Builds the document.
    /// - Parameter mayBeEmpty: whether an empty configuration is accepted if there are no keys
    /// - Throws: `rejected`, naming the key that cannot be used; `cancelled` if the task is cancelled
    func value(of entries: [[UInt8]: [UInt8]], mayBeEmpty: Bool) throws(ConfigError) -> JSONValue {
        switch keys {
        case .key(let key):
            guard let value = entries[Array(key.utf8)] else {
                throw Self.rejected("key \(Self.shown(Array(key.utf8))) does not exist; put the document there")
            }
            return try whole(value, Array(key.utf8))
        case .prefix(let prefix):
            guard mayBeEmpty || entries.contains(where: { !Self.isMark($0.key, $0.value) }) else {
                throw Self.rejected(
                    "no key with a value begins with \(Self.shown(Array(prefix.utf8))); add one, correct the prefix, "
                        + "or force a refresh if an empty configuration is intended")
            }
            return try nested(leaves(of: entries), under: prefix)
        case .prefixes(let prefixes):
            guard mayBeEmpty || entries.contains(where: { !Self.isMark($0.key, $0.value) }) else {
                let shown = prefixes.map { Self.shown(Array($0.utf8)) }.joined(separator: ", ")
                throw Self.rejected(
                    "no key with a value begins with one of \(shown); add one, correct the prefixes, or force a refresh if "
                        + "an empty configuration is intended")
            }
            var merged = JSONValue.emptyObject
            for prefix in prefixes {
                let own = entries.filter { $0.key.starts(with: prefix.utf8) }
                let document = try nested(leaves(of: own), under: prefix)
                merged = MergePatch.apply(document, to: merged)
            }
            try checkSize(merged.textSize)
            return merged
        }
    }

    /// Returns the key of the value at a path. If the value consists of several keys, returns their common prefix with
    /// a trailing `/`. Nil if no key is found.
    func key(of path: [String], in entries: [[UInt8]: [UInt8]]) -> String? {
        switch keys {
        case .key(let key): return key
        case .prefix(let prefix): return self.key(of: path, under: prefix, in: entries)
        case .prefixes(let prefixes):
            // A later prefix takes precedence.
            return prefixes.reversed().lazy.compactMap { self.key(of: path, under: $0, in: entries) }.first
        }
    }

    private func key(of path: [String], under prefix: String, in entries: [[UInt8]: [UInt8]]) -> String? {
        var key = prefix
        for segment in path {
            // Keys are split at slashes, so no key has a segment that contains a slash. A member with such a name can
            // only be inside the value of a key. In that case, the loop has already returned that key at an earlier
            // segment.
            if segment.contains("/") { return nil }
            key += segment
            if entries[Array(key.utf8)] != nil { return key }
            key += "/"
        }
        return entries.keys.contains { $0.starts(with: key.utf8) } ? key : nil
    }

    /// Whether a key only marks a directory, as some tools create it: it ends with `/` and has no value.
    private static func isMark(_ key: [UInt8], _ value: [UInt8]) -> Bool {
        value.isEmpty && key.last == UInt8(ascii: "/")
    }

    // MARK: One key with the whole document

    private func whole(_ bytes: [UInt8], _ key: [UInt8]) throws(ConfigError) -> JSONValue {
        try checkSize(bytes.count)
        let value: JSONValue
        do {
            value = try JSONValue(parsing: bytes) { Task.isCancelled }
        } catch is CancellationError {
            throw Self.cancelled
        } catch {
            throw Self.rejected("the value of key \(Self.shown(key)) is not JSON: \(JSONError.text(error, in: bytes))")
        }
        guard value.kind == .object else {
            throw Self.rejected(
                "the value of key \(Self.shown(key)) is \(value.kind.article); a configuration must be a JSON object")
        }
        return value
    }

    // MARK: One key for each value

    /// Returns the keys sorted by path, so that the keys of an object are adjacent.
    private func leaves(of entries: [[UInt8]: [UInt8]]) throws(ConfigError) -> [Leaf] {
        let leaves: [Leaf] = entries.lazy.filter { !Self.isMark($0.key, $0.value) }
            .sorted { Self.precedes($0.key, $1.key) }
        for (leaf, next) in zip(leaves, leaves.dropFirst()) where Self.isBelow(next.key, leaf.key) {
            throw Self.rejected(
                "\(Self.shown(leaf.key)) is both a value and the parent of \(Self.shown(next.key)); remove one of them")
        }
        return leaves
    }

    private static let slash = UInt8(ascii: "/")

    private static func isBelow(_ key: [UInt8], _ parent: [UInt8]) -> Bool {
        key.count > parent.count && key[parent.count] == slash && key.starts(with: parent)
    }

    /// Whether the path of one key precedes that of another, segment by segment: compares bytes, with the slash as the
    /// smallest.
    private static func precedes(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.lexicographicallyPrecedes(right) { left, right in right != slash && (left == slash || left < right) }
    }

    /// The number of leaves between two checks whether the task is cancelled.
    private static let leavesPerCheck = 256

    private func nested(_ leaves: [Leaf], under prefix: String) throws(ConfigError) -> JSONValue {
        try checkSize(leaves.reduce(0) { $0 + $1.value.count })
        var writer = JSONWriter()
        var parser = JSONParser()
        var open: [ArraySlice<UInt8>] = []
        writer.beginObject()
        for (index, leaf) in leaves.enumerated() {
            if index % Self.leavesPerCheck == 0, Task.isCancelled { throw Self.cancelled }
            let segments = leaf.key.dropFirst(prefix.utf8.count)
                .split(separator: Self.slash, omittingEmptySubsequences: false)
            let parents = segments.dropLast()
            let shared = zip(open, parents).prefix { $0 == $1 }.count
            while open.count > shared {
                writer.endObject()
                open.removeLast()
            }
            for parent in parents.dropFirst(shared) {
                writer.name(try name(parent, leaf.key))
                writer.beginObject()
                open.append(parent)
            }
            writer.name(try name(segments.last ?? [], leaf.key))
            writer.value(try value(leaf.value, of: leaf.key, &parser))
        }
        for _ in open { writer.endObject() }
        writer.endObject()
        try checkSize(writer.bytes.count)
        do {
            return try JSONValue(parsing: writer.bytes) { Task.isCancelled }
        } catch is CancellationError {
            throw Self.cancelled
        } catch {
            throw Self.rejected("the keys do not form a document: \(error)")
        }
    }

    private func name(_ segment: ArraySlice<UInt8>, _ key: [UInt8]) throws(ConfigError) -> String {
        guard !segment.isEmpty else {
            throw Self.rejected(
                "key \(Self.shown(key)) has an empty segment; remove doubled and trailing slashes from it")
        }
        guard let name = String(validating: segment, as: UTF8.self) else {
            throw Self.rejected("key \(Self.shown(key)) is not UTF-8; rename it")
        }
        return name
    }

    /// Converts the value of a key.
    /// - Parameter parser: the parser of all values; it reuses its memory for the next value if the previous value has
    ///   been released
    /// - Throws: `rejected` if the format does not allow the value
    func value(_ bytes: [UInt8], of key: [UInt8], _ parser: inout JSONParser) throws(ConfigError) -> JSONValue {
        if format != .text {
            let result: Result<JSONValue, JSONError> = bytes.withUnsafeBytes { bytes in
                Result { () throws(JSONError) in try parser.parse(bytes) }
            }
            switch result {
            case .success(let value): return value
            case .failure(let error):
                // A value that begins like an array or object is probably invalid JSON and not text.
                let first = bytes.first { !" \t\r\n".utf8.contains($0) }
                guard format == .auto, first != UInt8(ascii: "{"), first != UInt8(ascii: "[") else {
                    throw Self.rejected(
                        "the value of key \(Self.shown(key)) is not JSON: \(JSONError.text(error, in: bytes)); correct it"
                            + (format == .json ? ", or set \"format\" to \"text\" or \"auto\"" : ""))
                }
            }
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Self.rejected("the value of key \(Self.shown(key)) is not UTF-8; store it as UTF-8 text")
        }
        return .string(text)
    }

    private func checkSize(_ bytes: Int) throws(ConfigError) {
        guard bytes > maximumBytes else { return }
        throw Self.tooLarge(maximumBytes)
    }

    // MARK: Errors

    private static let cancelled = ConfigError(.cancelled, "the keys were not read; the request was cancelled")

    /// The error for keys and values that are too large for a document of the maximum size.
    static func tooLarge(_ maximumBytes: Int) -> ConfigError {
        rejected("the keys have more than \(maximumBytes) bytes (limits.documentBytes); remove some or raise the limit")
    }

    private static func rejected(_ message: String) -> ConfigError { ConfigError(.rejected, "etcd: " + message) }

    /// A key for messages: quoted, on one line, truncated if it is long.
    static func shown(_ key: [UInt8]) -> String {
        let isLong = key.count > 200
        let text = String(decoding: isLong ? key.prefix(200) : key[...], as: UTF8.self)
        var shown = ""
        for scalar in text.unicodeScalars {
            let isPlain =
                scalar.value >= 0x20 && !(0x7f...0x9f).contains(scalar.value) && scalar.value != 0x2028
                && scalar.value != 0x2029 && scalar != "\"" && scalar != "\\"
            shown += isPlain ? String(scalar) : "\\u{\(String(scalar.value, radix: 16))}"
        }
        return "\"\(shown)\(isLong ? "…" : "")\""
    }
}

/// A document built from a keyspace. If only scalars change, the next document is derived from it.
struct EtcdRendering: Sendable {
    /// Identifies the keys from which the document was built.
    let stamp: EtcdKeyspace.Stamp
    let document: JSONValue

    /// Returns the keys that have changed since the document was built, with their new values. Nil if they are not
    /// known, if a key was deleted, if a key is below another one, or if a key has more segments than a document may have
    /// levels (such keys do not form a valid document).
    func pairs(changedIn keyspace: EtcdKeyspace) -> [(key: [UInt8], value: [UInt8])]? {
        guard let keys = keyspace.keys(changedSince: stamp) else { return nil }
        var pairs: [(key: [UInt8], value: [UInt8])] = []
        pairs.reserveCapacity(keys.count)
        for key in keys {
            // The search for parents takes the length of the key for each of its segments.
            guard let value = keyspace.values[key],
                key.count(where: { $0 == UInt8(ascii: "/") }) <= JSONParser.defaultMaximumDepth,
                !keyspace.hasKey(above: key)
            else { return nil }
            pairs.append((key, value))
        }
        return pairs
    }
}

extension EtcdDocument {
    /// Replaces the values of some keys in a document. Takes about as long as copying the document.
    /// - Returns: the document and its edits; nil if values other than scalars have changed, so that the document must
    ///   be built from all keys
    /// - Throws: `rejected`, naming the key whose value cannot be used
    func editing(
        _ document: JSONValue, _ pairs: [(key: [UInt8], value: [UInt8])]
    ) throws(ConfigError) -> (document: JSONValue, edits: SourceDocument.Edits)? {
        guard case .prefix(let prefix) = keys else { return nil }
        var replacements: [JSONValue.Replacement] = []
        for (key, value) in pairs {
            guard let path = path(of: key, under: prefix) else { return nil }
            var parser = JSONParser()
            let scalar = try self.value(value, of: key, &parser)
            // If the value is an object, the document is built from all keys instead. The object now in the document
            // may come from several keys below this one. This key then has both a value and keys below it, which is
            // invalid.
            if scalar.kind == .object { return nil }
            // The key may have changed back to its previous value.
            if document.value(at: JSONPath(path)) == scalar { continue }
            replacements.append(JSONValue.Replacement(at: path, by: scalar))
        }
        guard let edited = replacements.isEmpty ? document : document.replacing(replacements) else { return nil }
        guard edited.textSize <= maximumBytes else { throw Self.tooLarge(maximumBytes) }
        return (edited, SourceDocument.Edits(base: document, replacements: replacements))
    }

    /// The path of a key; nil if a segment is empty or not UTF-8.
    private func path(of key: [UInt8], under prefix: String) -> [String]? {
        let segments = key.dropFirst(prefix.utf8.count)
            .split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        var path: [String] = []
        for segment in segments {
            guard !segment.isEmpty, let name = String(validating: segment, as: UTF8.self) else { return nil }
            path.append(name)
        }
        return path
    }
}
