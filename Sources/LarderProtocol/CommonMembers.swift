import LarderJSON

// The members that many messages share, read and written one way.

/// The namespace that always exists and that a request without `namespace` means.
public let defaultNamespace = "default"

/// No revision is ever larger: every reader of JSON knows numbers up to this exactly.
let largestRevision = (1 << 53) - 1

extension MemberReader {
    /// `namespace`, or the default one.
    func namespace() throws(WireError) -> String { try string("namespace") ?? defaultNamespace }

    /// A member that confirms a change of the whole document, so that an empty path alone does not make it.
    /// - Parameter effect: what the change does, to begin the error with
    /// - Throws: `invalidParams` if it is missing for the root, or given for another path.
    func confirmation(_ name: String, of path: JSONPath, _ effect: String) throws(WireError) -> Bool {
        let isConfirmed = try bool(name) ?? false
        if path.segments.isEmpty, !isConfirmed {
            throw WireError(
                .invalidParams, "\"path\" is empty, and \(effect); add \"\(name)\": true if that is intended")
        }
        if !path.segments.isEmpty, isConfirmed {
            throw WireError(.invalidParams, "\"\(name)\" is only for an empty \"path\"; leave it out")
        }
        return isConfirmed
    }

    /// A number of seconds up to ten years, fractions allowed; nil where the member is absent or null.
    func seconds(_ name: String) throws(WireError) -> Double? {
        guard let seconds = try number(name) else { return nil }
        guard (0...longestSeconds).contains(seconds) else {
            throw WireError(
                .invalidParams, "\"\(name)\" is \(seconds), it must be from 0 to \(Int(longestSeconds)) seconds")
        }
        return seconds
    }

    /// A time; nil where the member is absent or null.
    func timestamp(_ name: String) throws(WireError) -> Timestamp? {
        guard let text = try string(name) else { return nil }
        guard let time = Timestamp(text) else {
            throw WireError(.invalidParams, "\"\(name)\" must be a time such as 2026-01-31T12:00:00.000Z")
        }
        return time
    }

    /// A time that must be there.
    func requiredTimestamp(_ name: String) throws(WireError) -> Timestamp {
        guard let time = try timestamp(name) else { throw WireError(.invalidParams, "\"\(name)\" is missing") }
        return time
    }

    /// A reader of the object at a member; nil where the member is absent or null.
    func object(_ name: String) throws(WireError) -> MemberReader? {
        guard let found = value(name), !found.isNull else { return nil }
        return try MemberReader(object: found)
    }
}

/// Ten years: more is a mistake in the unit.
private let longestSeconds: Double = 10 * 366 * 86_400

extension JSONWriter {
    /// A member that is a number, or none. Whole ones are written without fraction.
    mutating func member(_ name: StaticString, _ number: Double?) {
        guard let number else { return }
        self.name(name)
        if let whole = Int(exactly: number) { int(whole) } else { double(number) }
    }

    /// `path`, left out for the whole document.
    mutating func path(_ path: JSONPath) {
        if !path.segments.isEmpty { member("path", path.pointer) }
    }

    /// `namespace`, left out for the default one.
    mutating func namespace(_ namespace: String) {
        if namespace != defaultNamespace { member("namespace", namespace) }
    }

    /// A member that is null where there is no value.
    mutating func nullableMember(_ name: StaticString, _ value: String?) {
        self.name(name)
        if let value { string(value) } else { null() }
    }

    /// A member that is null where there is no value.
    mutating func nullableMember(_ name: StaticString, _ value: Int?) {
        self.name(name)
        if let value { int(value) } else { null() }
    }
}
