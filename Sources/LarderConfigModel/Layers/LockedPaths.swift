package import LarderJSON

/// Paths that stay as the `defaults` and `host` layers have them, whatever the layers above say. What these two do not
/// have stays absent.
///
/// A path names members of objects: nothing in an array is locked by itself.
package struct LockedPaths: Sendable, Equatable {
    /// The paths, as the settings have them.
    package let paths: [JSONPath]

    package init(_ paths: [JSONPath] = []) { self.paths = paths }

    package var isEmpty: Bool { paths.isEmpty }

    /// The lock on a path or on something above it.
    package func lock(on path: [String]) -> JSONPath? { paths.first { path.begins(withNames: $0.segments) } }

    /// A locked path at which a merge patch would have its say, if it has a value at a path.
    package func touched(by value: JSONValue, at path: [String]) -> JSONPath? {
        paths.first { locked in
            let common = min(path.count, locked.segments.count)
            guard path.begins(withNames: locked.segments.prefix(common)) else { return false }
            return value.effect(at: locked.segments.dropFirst(common)) != .unchanged
        }
    }

    // MARK: Pinning

    /// A document with what `base` has, or does not have, at each locked path.
    package func pin(_ document: JSONValue, to base: JSONValue) -> JSONValue {
        if paths.isEmpty { return document }
        return JSONValue.building { Self.write(document, base, paths.map { $0.segments[...] }, to: &$0) }
    }

    /// Writes one place of the result, which must come to be there.
    /// - Parameters:
    ///   - document: what all layers make of it; nil for nothing
    ///   - base: what the lowest layers make of it
    ///   - locks: the rests of the locked paths that lead through it; none is empty but where all below is locked
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
                writeMember(name, member, base?.member(named: name), inner, to: &writer)
            }
        }
        // What is locked and only the lowest layers have.
        for name in locks.compactMap(\.first) where !written.contains(where: { $0.isSpelled(as: name) }) {
            written.append(name)
            writeMember(name, nil, base?.member(named: name), rests(of: locks, below: name), to: &writer)
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
        return has(value?.member(named: name), path.dropFirst())
    }

    private static func rests(of locks: [ArraySlice<String>], below name: String) -> [ArraySlice<String>] {
        locks.filter { $0.first?.isSpelled(as: name) ?? false }.map { $0.dropFirst() }
    }
}

extension JSONValue {
    /// The member of an object; nil where it has none or is none.
    fileprivate func member(named name: String) -> JSONValue? { kind == .object ? self[name] : nil }
}
