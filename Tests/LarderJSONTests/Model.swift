import LarderJSON

/// A simple representation of JSON values, with which tests compare the values of `LarderJSON`.
indirect enum Model: Equatable {
    case null
    case bool(Bool)
    case number(String)
    /// The bytes of the string in UTF-8, with its escapes resolved.
    case string([UInt8])
    case array([Model])
    /// Contains each name once, in the order in which the names first occur.
    case object([Member])

    struct Member: Equatable {
        var name: [UInt8]
        var value: Model
    }

    /// The model of a value, created from the results of the accessors of `JSONValue`.
    init(_ value: JSONValue) {
        switch value.kind {
        case .null: self = .null
        case .bool: self = .bool(value.bool == true)
        case .number: self = .number(value.numberText ?? "")
        case .string: self = .string(Array((value.string ?? "").utf8))
        case .array: self = .array(value.elements.map { Model($0) })
        case .object:
            self = .object(value.members.map { Member(name: Array($0.name.utf8), value: Model($0.value)) })
        }
    }

    var members: [Member] {
        if case .object(let members) = self { return members }
        return []
    }

    subscript(_ name: [UInt8]) -> Model? {
        members.first { $0.name == name }?.value
    }

    /// Whether two values are equal apart from the order of members.
    func isEquivalent(to other: Model) -> Bool {
        switch (self, other) {
        case (.array(let left), .array(let right)):
            return left.count == right.count && zip(left, right).allSatisfy { $0.isEquivalent(to: $1) }
        case (.object(let left), .object(let right)):
            let (left, right) = (Self.sorted(left), Self.sorted(right))
            return left.map(\.name) == right.map(\.name)
                && zip(left, right).allSatisfy { $0.value.isEquivalent(to: $1.value) }
        default: return self == other
        }
    }

    private static func sorted(_ members: [Member]) -> [Member] {
        members.sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    /// Applies a merge patch, as the pseudocode of RFC 7396, section 2, does.
    static func mergePatch(_ target: Model?, _ patch: Model) -> Model {
        guard case .object(let changes) = patch else { return patch }
        var result: [Member] = target?.members ?? []
        for change in changes {
            let place = result.firstIndex { $0.name == change.name }
            if change.value == .null {
                if let place { result.remove(at: place) }
            } else if let place {
                result[place].value = mergePatch(result[place].value, change.value)
            } else {
                result.append(Member(name: change.name, value: mergePatch(nil, change.value)))
            }
        }
        return .object(result)
    }
}
