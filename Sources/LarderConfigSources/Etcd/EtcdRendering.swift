import LarderConfigModel
import LarderJSON

/// A document made of a keyspace. The next document can be made from it if only scalars have changed.
struct EtcdRendering: Sendable {
    /// The keys that the document was made of.
    let stamp: EtcdKeyspace.Stamp
    let document: JSONValue

    /// The keys that have changed since, with their new values; nil if they are unknown, if a key was deleted, or if a key is below
    /// another one, so that they make no document.
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
    /// Replaces the values of some keys in a document, in the time that it takes to copy the document.
    /// - Returns: The document and the differences; nil if not only scalars differ, so that it has to be made of all keys.
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
            // An equal object in the document may be made of keys below this one. Both together make no document.
            if scalar.kind == .object { return nil }
            // The key may have changed to another value and back.
            if document.value(at: JSONPath(path)) == scalar { continue }
            replacements.append(JSONValue.Replacement(at: path, by: scalar))
        }
        guard let edited = replacements.isEmpty ? document : document.replacing(replacements) else { return nil }
        guard edited.textSize <= maximumBytes else { throw Self.tooLarge(maximumBytes) }
        return (edited, SourceDocument.Edits(base: document, replacements: replacements))
    }

    /// The path of a key; nil if the key is not a path.
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
