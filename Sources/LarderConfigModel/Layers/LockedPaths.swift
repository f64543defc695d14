package import LarderJSON

/// Paths at which only the `defaults` and `host` layers count. If these two have no value at a locked path, the
/// configuration has none.
///
/// A path names members of objects. Elements of arrays cannot be locked individually.
package struct LockedPaths: Sendable, Equatable {
    package let paths: [JSONPath]

    package init(_ paths: [JSONPath] = []) { self.paths = paths }

    package var isEmpty: Bool { paths.isEmpty }

    /// The lock on a path or on one of its ancestors; nil for none.
    package func lock(on path: [String]) -> JSONPath? { paths.first { path.begins(withNames: $0.segments) } }

    /// A locked path at which setting `value` at `path` would have an effect; nil for none.
    package func touched(by value: JSONValue, at path: [String]) -> JSONPath? {
        paths.first { locked in
            let common = min(path.count, locked.segments.count)
            guard path.begins(withNames: locked.segments.prefix(common)) else { return false }
            return value.effect(at: locked.segments.dropFirst(common)) != .unchanged
        }
    }

    // MARK: Pinning

    /// Replaces the value at each locked path with the one in `base`, or removes it if `base` has none.
    package func pin(_ document: JSONValue, to base: JSONValue) -> JSONValue {
        if paths.isEmpty { return document }
        return JSONValue.building { Self.write(document, base, paths.map { $0.segments[...] }, to: &$0) }
    }

    /// Writes the value of the result at one path. Must be called only if the result has a value at that path.
    /// - Parameters:
    ///   - document: the value in the merge of all layers; nil for none
    ///   - base: the value in the merge of the file layers; nil for none
    ///   - locks: for each locked path at or below this value, the names that follow the path of this value; if no
    ///     names remain, this value itself is locked
    private static func write(
        _ document: JSONValue?, _ base: JSONValue?, _ locks: [ArraySlice<String>], to writer: inout JSONWriter
    ) {
        if locks.contains(where: \.isEmpty) { return writer.value(base ?? .null) }
        let isObject = document?.kind == .object
        if let document, !isObject, !locks.contains(where: { has(base, $0) }) { return writer.value(document) }
        writer.beginObject()
        let names = Set(locks.compactMap(\.first))
        var written: [String] = []
        for (name, member) in (isObject ? document : nil)?.members ?? JSONValue.emptyObject.members {
            let inner = names.contains(name) ? rests(of: locks, below: name) : []
            if inner.isEmpty {
                writer.name(name)
                writer.value(member)
            } else {
                written.append(name)
                writeMember(name, member, base?[name], inner, to: &writer)
            }
        }
        // The remaining members are on locked paths. `document` does not have them, but the file layers may.
        for name in locks.compactMap(\.first) where !written.contains(where: { $0.isSpelled(as: name) }) {
            written.append(name)
            writeMember(name, nil, base?[name], rests(of: locks, below: name), to: &writer)
        }
        writer.endObject()
    }

    private static func writeMember(
        _ name: String, _ document: JSONValue?, _ base: JSONValue?, _ locks: [ArraySlice<String>],
        to writer: inout JSONWriter
    ) {
        let isLocked = locks.contains(where: \.isEmpty)
        guard locks.contains(where: { has(base, $0) }) || (!isLocked && document != nil) else { return }
        writer.name(name)
        write(document, base, locks, to: &writer)
    }

    private static func has(_ value: JSONValue?, _ path: ArraySlice<String>) -> Bool {
        guard let name = path.first else { return value != nil }
        return has(value?[name], path.dropFirst())
    }

    private static func rests(of locks: [ArraySlice<String>], below name: String) -> [ArraySlice<String>] {
        locks.filter { $0.first?.isSpelled(as: name) ?? false }.map { $0.dropFirst() }
    }
}

extension [String] {
    /// Whether the path begins with these names. Names are compared by their UTF-8, without Unicode normalization.
    func begins(withNames names: some BidirectionalCollection<String>) -> Bool {
        // Compares the last names first, because paths of one configuration often share their first names.
        var end = names.count
        if count < end { return false }
        for name in names.reversed() {
            end -= 1
            if !self[end].isSpelled(as: name) { return false }
        }
        return true
    }
}
