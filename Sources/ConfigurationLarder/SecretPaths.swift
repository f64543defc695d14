import LarderJSON

/// Selects the secret values of a namespace by the patterns that the agent reports.
///
/// The agent masks secrets by the same rules (`secrets` in the settings): `*` matches any one segment, `**` any number
/// of segments, including none, and everything inside a secret is secret, too.
struct SecretPaths: Sendable {
    private enum Step {
        case name(String)
        case anyOne
        case anyNumber

        init(_ segment: String) {
            switch segment {
            case "*": self = .anyOne
            case "**": self = .anyNumber
            default: self = .name(segment)
            }
        }
    }

    private let patterns: [[Step]]

    /// Parses patterns. Everything is secret if a pattern is malformed, which a correct agent never reports.
    init(_ patterns: [String]) {
        self.patterns = patterns.map { pattern in
            (try? JSONPath(parsing: pattern))?.segments.map(Step.init) ?? [.anyNumber]
        }
    }

    /// Returns whether the value at a key is secret or part of a secret, or has a secret element. Allocates nothing.
    /// - Parameter isArray: whether the value is an array
    func isSecret(_ components: [String], isArray: Bool) -> Bool {
        patterns.contains { Self.matches($0, 0, components, 0, isArray) }
    }

    /// Returns whether the steps from `step` match the components from `position`, or the first of them. An array has
    /// one more component, which stands for the index of any element.
    private static func matches(
        _ pattern: [Step], _ step: Int, _ components: [String], _ position: Int, _ isArray: Bool
    ) -> Bool {
        if step == pattern.count { return true }
        let hasComponent = position < components.count || isArray && position == components.count
        switch pattern[step] {
        case .anyNumber:
            return matches(pattern, step + 1, components, position, isArray)
                || hasComponent && matches(pattern, step, components, position + 1, isArray)
        case .anyOne:
            return hasComponent && matches(pattern, step + 1, components, position + 1, isArray)
        case .name(let name):
            guard hasComponent else { return false }
            let isSame =
                position < components.count
                ? components[position].utf8.elementsEqual(name.utf8) : ArrayIndex.isIndex(name)
            return isSame && matches(pattern, step + 1, components, position + 1, isArray)
        }
    }
}

/// The text of an index of a JSON array.
enum ArrayIndex {
    static func isIndex(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { $0 &- UInt8(ascii: "0") < 10 }
    }
}
