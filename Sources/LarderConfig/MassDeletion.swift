import JSON

/// How much of a document another one would remove. A member counts where its value is no object; those of objects in
/// objects count one by one. One that is null counts as absent: that is what it makes of the member in the resolved
/// configuration.
public struct MassDeletion: Sendable, Hashable {
    /// How many members the document held has.
    public var members: Int
    /// How many of these would be gone.
    public var removed: Int

    /// Where there are fewer members, every change is a large part of them.
    static let fewestMembers = 10

    /// Compares two documents.
    init(from held: JSONValue, to new: JSONValue) {
        members = held.leaves
        removed = Self.removed(from: held, to: new)
    }

    /// Whether that is more than a share of the members.
    func exceeds(percent: Int) -> Bool {
        members >= Self.fewestMembers && removed * 100 > members * percent
    }

    private static func removed(from held: JSONValue, to new: JSONValue) -> Int {
        held.members.reduce(0) { sum, member in
            guard let other = new[member.name], other.kind != .null else { return sum + member.value.leaves }
            guard member.value.kind == .object else { return sum }
            return sum + removed(from: member.value, to: other)
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
}
