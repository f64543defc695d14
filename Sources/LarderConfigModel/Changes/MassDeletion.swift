import LarderJSON

/// How many members of a document another document would remove.
///
/// Members whose value is not an object are counted, at every level. Nulls are not counted, because the resolved
/// configuration has no member for them. A member counts as removed if the other document does not have it, or if its
/// value there is empty (null, `""`, `[]` or `{}`) and was not before.
package struct MassDeletion: Sendable, Hashable {
    /// The number of members in the current document.
    package var members: Int
    /// The number of these members that the other document removes.
    package var removed: Int
    /// Whether the other document has a value that is neither null nor empty.
    private var hasReplacement: Bool

    /// The minimum number of members of the current document for which the maximum percentage applies. In a smaller
    /// document every change affects a large share of the members, so only the removal of all members is too much.
    static let minMembers = 10

    init(from old: JSONValue, to new: JSONValue) {
        members = old.leaves
        removed = Self.removed(from: old, to: new)
        hasReplacement = new.hasContent
    }

    /// Whether the share of removed members exceeds a maximum percentage. With fewer than ``minMembers`` members, only
    /// the removal of all of them counts. The removal of the only member does not count if the other document has any
    /// content.
    package func exceeds(percent: Int) -> Bool {
        let isGuarded = members >= Self.minMembers || removed == members && (members > 1 || !hasReplacement)
        return isGuarded && removed * 100 > members * percent
    }

    private static func removed(from old: JSONValue, to new: JSONValue) -> Int {
        old.members.reduce(0) { sum, member in
            let value = member.value
            guard let other = new[member.name], other.kind != .null else { return sum + value.leaves }
            if value.kind == .object { return sum + removed(from: value, to: other) }
            return sum + (other.isEmptyValue && !value.isEmptyValue ? value.leaves : 0)
        }
    }
}

extension JSONValue {
    /// The number of values, including this one, that are neither objects nor null. Array elements are not counted.
    fileprivate var leaves: Int {
        switch kind {
        case .object: members.reduce(0) { $0 + $1.value.leaves }
        case .null: 0
        case .array, .bool, .number, .string: 1
        }
    }

    /// Whether this value, or a member at any level, is neither null nor empty.
    fileprivate var hasContent: Bool {
        switch kind {
        case .object: members.contains { $0.value.hasContent }
        case .null: false
        case .array, .bool, .number, .string: !isEmptyValue
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
