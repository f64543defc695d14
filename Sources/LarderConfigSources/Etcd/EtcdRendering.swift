import LarderConfigModel
import LarderJSON

/// A document built from a keyspace. If only scalars change, the next document is derived from it.
struct EtcdRendering: Sendable {
    /// Identifies the keys from which the document was built.
    let stamp: EtcdKeyspace.Stamp
    let document: JSONValue

    /// Returns the keys that have changed since the document was built, with their new values. Nil if they are not
    /// known, if a key was deleted, or if a key is below another one (such keys do not form a valid document).
    func pairs(changedIn keyspace: EtcdKeyspace) -> [(key: [UInt8], value: [UInt8])]? {
        guard let keys = keyspace.keys(changedSince: stamp) else { return nil }
        var pairs: [(key: [UInt8], value: [UInt8])] = []
        pairs.reserveCapacity(keys.count)
        for key in keys {
            guard let value = keyspace.values[key], !keyspace.hasKey(above: key) else { return nil }
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
