import LarderJSON

/// How much of a document another one would remove.
///
/// The members that are counted are those whose value is not an object, also those of objects in objects. Null is not
/// counted, because it is absent from the resolved configuration. A member counts as removed if it is absent in the other
/// document, or if its value is empty there and was not: null, `""`, `[]` or `{}`.
package struct MassDeletion: Sendable, Hashable {
    /// How many members the document held has.
    package var members: Int
    /// How many of these the other document removes.
    package var removed: Int
    /// Whether the other document has any value that is not empty.
    private var hasReplacement: Bool

    /// Below this number of members each change affects a large part of them: only the removal of all is too much.
    static let minMembers = 10

    /// Compares two documents.
    init(from held: JSONValue, to new: JSONValue) {
        members = held.leaves
        removed = Self.removed(from: held, to: new)
        hasReplacement = new.hasContent
    }

    /// Whether more than a share of the members is removed. A single member may be replaced by others.
    package func exceeds(percent: Int) -> Bool {
        let isGuarded = members >= Self.minMembers || removed == members && (members > 1 || !hasReplacement)
        return isGuarded && removed * 100 > members * percent
    }

    private static func removed(from held: JSONValue, to new: JSONValue) -> Int {
        held.members.reduce(0) { sum, member in
            let value = member.value
            guard let other = new[member.name], other.kind != .null else { return sum + value.leaves }
            if value.kind == .object { return sum + removed(from: value, to: other) }
            return sum + (other.isEmptyValue && !value.isEmptyValue ? value.leaves : 0)
        }
    }
}

extension JSONValue {
    /// How many values are in it that are neither objects nor null, itself included.
    fileprivate var leaves: Int {
        switch kind {
        case .object: members.reduce(0) { $0 + $1.value.leaves }
        case .null: 0
        case .array, .bool, .number, .string: 1
        }
    }

    /// Whether it has, or is, a value that is neither null nor empty.
    fileprivate var hasContent: Bool {
        switch kind {
        case .object: members.contains { $0.value.hasContent }
        case .null: false
        case .array, .bool, .number, .string: !isEmptyValue
        }
    }

    /// Whether it is a string, an array or an object without content.
    fileprivate var isEmptyValue: Bool {
        switch kind {
        case .object, .array: count == 0
        case .string: string?.isEmpty ?? false
        case .null, .bool, .number: false
        }
    }
}
