/// A text that is compared as UTF-8, as a key of a dictionary or an element of a set.
///
/// `==` of `String` ignores differences in Unicode normalization. Names, patterns and other texts from outside are
/// different if their bytes are.
package struct ExactText: Hashable, Sendable {
    @ComparedAsBytes package private(set) var text: String

    package init(_ text: String) { _text = ComparedAsBytes(wrappedValue: text) }
}

/// A property whose texts are compared as UTF-8, without Unicode normalization, in the synthesized `==` of its type.
@propertyWrapper
package struct ComparedAsBytes<Value: ComparableAsBytes>: Hashable, Sendable {
    package var wrappedValue: Value

    package init(wrappedValue: Value) { self.wrappedValue = wrappedValue }

    package static func == (left: Self, right: Self) -> Bool { left.wrappedValue.isSpelled(as: right.wrappedValue) }

    package func hash(into hasher: inout Hasher) { wrappedValue.hashBytes(into: &hasher) }
}

/// A type of ``ComparedAsBytes`` properties.
package protocol ComparableAsBytes: Sendable {
    func isSpelled(as other: Self) -> Bool
    func hashBytes(into hasher: inout Hasher)
}

extension String: ComparableAsBytes {
    package func hashBytes(into hasher: inout Hasher) {
        var text = self
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

extension Optional: ComparableAsBytes where Wrapped: ComparableAsBytes {
    package func isSpelled(as other: Wrapped?) -> Bool {
        guard let self, let other else { return self == nil && other == nil }
        return self.isSpelled(as: other)
    }

    package func hashBytes(into hasher: inout Hasher) {
        hasher.combine(self == nil)
        self?.hashBytes(into: &hasher)
    }
}

extension Array: ComparableAsBytes where Element: ComparableAsBytes {
    package func isSpelled(as other: [Element]) -> Bool { elementsEqual(other) { $0.isSpelled(as: $1) } }

    package func hashBytes(into hasher: inout Hasher) {
        hasher.combine(count)
        for element in self { element.hashBytes(into: &hasher) }
    }
}

/// The keys must be ASCII.
extension Dictionary: ComparableAsBytes where Key == String, Value: ComparableAsBytes {
    package func isSpelled(as other: [String: Value]) -> Bool {
        count == other.count && allSatisfy { key, value in other[key]?.isSpelled(as: value) ?? false }
    }

    package func hashBytes(into hasher: inout Hasher) { hasher.combine(count) }
}
