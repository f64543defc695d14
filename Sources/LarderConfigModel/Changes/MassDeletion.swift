import LarderJSON

/// How many members of a document another document would remove.
///
/// Members whose value is not an object are counted, at every level. Nulls are not counted, because the resolved
/// configuration has no member for them. The version of the document is not counted either, unless it is the only member:
/// a document that has nothing else has lost its content. A member counts as removed if the other document does not have
/// it, or if its value there is empty (null, `""`, `[]` or `{}`) and was not before.
package struct MassDeletion: Sendable, Hashable {
    /// The number of members in the current document.
    package var members: Int
    /// The number of these members that the other document removes.
    package var removed: Int
    /// Whether the other document has a value, besides its version, that is neither null nor empty.
    private var hasReplacement: Bool

    /// The minimum number of members of the current document for which the maximum percentage applies. In a smaller
    /// document every change affects a large share of the members, so only the removal of all members is too much.
    static let minMembers = 10

    /// - Parameter version: the path of the version in both documents
    init(from old: JSONValue, to new: JSONValue, version: JSONPath) {
        var version: ArraySlice<String>? = version.segments[...]
        if old.leaves(besides: version) == 0 { version = nil }
        members = old.leaves(besides: version)
        removed = Self.removed(from: old, to: new, besides: version)
        hasReplacement = new.hasContent(besides: version)
    }

    /// Whether the share of removed members exceeds a maximum percentage. With fewer than ``minMembers`` members, only
    /// the removal of all of them counts. The removal of the only member does not count if the other document has any
    /// content.
    package func exceeds(percent: Int) -> Bool {
        let isGuarded = members >= Self.minMembers || removed == members && (members > 1 || !hasReplacement)
        return isGuarded && removed * 100 > members * percent
    }

    private static func removed(from old: JSONValue, to new: JSONValue, besides version: ArraySlice<String>?) -> Int {
        old.members.reduce(0) { sum, member in
            let (value, rest) = (member.value, Self.rest(of: version, in: member.name))
            guard let other = new[member.name], other.kind != .null else { return sum + value.leaves(besides: rest) }
            if value.kind == .object { return sum + removed(from: value, to: other, besides: rest) }
            return sum + (other.isEmptyValue && !value.isEmptyValue ? value.leaves(besides: rest) : 0)
        }
    }

    /// The part of a path that lies below a member; empty for the last member of the path, and nil if the path does not
    /// lead there.
    fileprivate static func rest(
        of path: ArraySlice<String>?, in member: @autoclosure () -> String
    ) -> ArraySlice<String>? {
        guard let path, let first = path.first, first.isSpelled(as: member()) else { return nil }
        return path.dropFirst()
    }
}

extension JSONValue {
    /// The number of values, including this one, that are neither objects nor null. Array elements are not counted.
    /// - Parameter path: the path of a value that is not counted unless it is an object; nil for none
    fileprivate func leaves(besides path: ArraySlice<String>?) -> Int {
        switch kind {
        case .object: members.reduce(0) { $0 + $1.value.leaves(besides: MassDeletion.rest(of: path, in: $1.name)) }
        case .null: 0
        case .array, .bool, .number, .string: path?.isEmpty == true ? 0 : 1
        }
    }

    /// Whether this value, or a member at any level, is neither null nor empty.
    /// - Parameter path: the path of a value that does not matter unless it is an object; nil for none
    fileprivate func hasContent(besides path: ArraySlice<String>?) -> Bool {
        switch kind {
        case .object: members.contains { $0.value.hasContent(besides: MassDeletion.rest(of: path, in: $0.name)) }
        case .null: false
        case .array, .bool, .number, .string: path?.isEmpty != true && !isEmptyValue
        }
    }

    /// Whether this is an empty string, array or object.
    fileprivate var isEmptyValue: Bool {
        switch kind {
        case .object, .array: count == 0
        case .string: string?.isEmpty ?? false
        case .null, .bool, .number: false
        }
    }
}
