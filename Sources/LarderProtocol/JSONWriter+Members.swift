import LarderJSON

// How the generated messages write members whose types JSON itself does not have.

/// The namespace that always exists. A request without `namespace` refers to it.
package let defaultNamespace = "default"

/// The largest possible revision. Integers up to it are exact in every JSON reader, even in those that store numbers as
/// `Double`.
let largestRevision = (1 << 53) - 1

extension JSONWriter {
    /// Writes a number member. A whole number is written without a fraction. Writes no member for nil.
    mutating func member(_ name: StaticString, _ number: Double?) {
        guard let number else { return }
        self.name(name)
        if let whole = Int(exactly: number) { int(whole) } else { double(number) }
    }

    /// Writes a boolean member. Writes no member for nil.
    mutating func member(_ name: StaticString, _ truth: Bool?) {
        if let truth { member(name, truth) }
    }

    /// Writes `path`. Omits it for the whole document.
    mutating func path(_ path: JSONPath) {
        if !path.isRoot { member("path", path.pointer) }
    }

    /// Writes `namespace`. Omits it for the default namespace.
    mutating func namespace(_ namespace: String) {
        if namespace != defaultNamespace { member("namespace", namespace) }
    }

    /// Writes a string member; `null` if the string is nil.
    mutating func nullableMember(_ name: StaticString, _ value: String?) {
        self.name(name)
        if let value { string(value) } else { null() }
    }

    /// Writes an integer member; `null` if the integer is nil.
    mutating func nullableMember(_ name: StaticString, _ value: Int?) {
        self.name(name)
        if let value { int(value) } else { null() }
    }
}
