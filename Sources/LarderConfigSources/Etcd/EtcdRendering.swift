import LarderConfigModel
import LarderJSON

/// A document that was made of a keyspace, from which the next one can be made if only scalars have changed.
struct EtcdRendering: Sendable {
    /// The keys that the document was made of.
    let stamp: EtcdKeyspace.Stamp
    let document: JSONValue

    /// Returns the keys that have changed since, with their new values; nil if that is not known, if a key was deleted, or if one
    /// is below another key, which makes no document.
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
    /// The document after some keys that it has got other values. It takes the time of copying the document, and not that of
    /// making it of all keys.
    /// - Returns: The document, and how it differs; nil if it does not differ by scalars alone, and has to be made anew.
    /// - Throws: `rejected`, with the key whose value cannot be used.
    func editing(
        _ document: JSONValue, _ pairs: [(key: [UInt8], value: [UInt8])]
    ) throws(ConfigError) -> (document: JSONValue, edits: SourceDocument.Edits)? {
        guard case .prefix(let prefix) = keys else { return nil }
        var replacements: [JSONValue.Replacement] = []
        for (key, value) in pairs {
            guard let path = path(of: key, under: prefix) else { return nil }
            var parser = JSONParser()
            let scalar = try self.value(value, of: key, &parser)
            // An equal object in the document may be of the keys below this one, which makes no document.
            if scalar.kind == .object { return nil }
            // The key may have had another value for a moment.
            if document.value(at: JSONPath(path)) == scalar { continue }
            replacements.append(JSONValue.Replacement(at: path, by: scalar))
        }
        guard let edited = replacements.isEmpty ? document : document.replacing(replacements) else { return nil }
        guard edited.textSize <= maximumBytes else { throw Self.tooLarge(maximumBytes) }
        return (edited, SourceDocument.Edits(base: document, replacements: replacements))
    }

    /// The names that a key stands for; nil for a key that cannot be a path.
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
