import LarderJSON

// How the generated messages read and write the kinds of members that JSON does not have.

/// The namespace that always exists and that a request without `namespace` means.
public let defaultNamespace = "default"

/// The largest revision: every JSON reader represents integers up to this exactly.
let largestRevision = (1 << 53) - 1

extension MemberReader {
    /// `namespace`, or the default one.
    func namespace() throws(WireError) -> String { try string("namespace") ?? defaultNamespace }

    /// A member that confirms a change of the whole document, so that an empty path alone does not make it.
    /// - Parameter effect: what the change does, to begin the error with
    /// - Throws: `invalidParams` if it is missing for the root, or given for another path.
    func confirmation(_ name: StaticString, of path: JSONPath, _ effect: String) throws(WireError) -> Bool {
        let isConfirmed = try bool(name) ?? false
        if path.isRoot, !isConfirmed {
            throw WireError(
                .invalidParams, "\"path\" is empty, and \(effect); add \"\(name)\": true if that is intended")
        }
        if !path.isRoot, isConfirmed {
            throw WireError(.invalidParams, "\"\(name)\" is only for an empty \"path\"; leave it out")
        }
        return isConfirmed
    }

    /// A number of seconds up to ten years, fractions allowed; nil where the member is absent or null.
    func seconds(_ name: StaticString) throws(WireError) -> Double? {
        guard let seconds = try number(name) else { return nil }
        guard (0...longestSeconds).contains(seconds) else {
            throw WireError(
                .invalidParams, "\"\(name)\" is \(seconds), it must be from 0 to \(Int(longestSeconds)) seconds")
        }
        return seconds
    }

    /// A time; nil where the member is absent or null.
    func timestamp(_ name: StaticString) throws(WireError) -> Timestamp? {
        guard let text = try string(name) else { return nil }
        guard let time = Timestamp(text) else {
            throw WireError(.invalidParams, "\"\(name)\" must be a time such as 2026-01-31T12:00:00.000Z")
        }
        return time
    }

    /// A time that must be there.
    func requiredTimestamp(_ name: StaticString) throws(WireError) -> Timestamp {
        guard let time = try timestamp(name) else { throw Self.missing(name) }
        return time
    }

    /// A string of a length in bytes; nil where the member is absent or null. An error does not repeat it: a URL may
    /// carry a secret.
    func text(_ name: StaticString, bytes range: ClosedRange<Int>) throws(WireError) -> String? {
        guard let text = try string(name) else { return nil }
        guard range.contains(text.utf8.count) else {
            throw WireError(
                .invalidParams,
                "\"\(name)\" has \(text.utf8.count) bytes, it must have from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return text
    }

    /// A string of a length in bytes that must be there.
    func requiredText(_ name: StaticString, bytes range: ClosedRange<Int>) throws(WireError) -> String {
        guard let text = try text(name, bytes: range) else { throw Self.missing(name) }
        return text
    }

    /// A string for people of at most so many bytes; nil where the member is absent or null.
    func text(_ name: StaticString, atMost most: Int) throws(WireError) -> String? {
        let text = try string(name)
        if let text, text.utf8.count > most {
            throw WireError(.invalidParams, "\"\(name)\" has \(text.utf8.count) bytes, it may have \(most)")
        }
        return text
    }

    /// One of several words; nil where the member is absent or null.
    func word<Word: RawRepresentable<String> & CaseIterable>(
        _ name: StaticString, _ type: Word.Type
    ) throws(WireError) -> Word? {
        guard let text = try string(name) else { return nil }
        guard let word = Word(rawValue: text) else {
            let known = Word.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", ")
            throw WireError(.invalidParams, "\"\(name)\" must be one of \(known)")
        }
        return word
    }

    /// `mode` of a subscription.
    func subscriptionMode() throws(WireError) -> ConfigSubscribe.Mode {
        guard let name = try string("mode") else { return .snapshot }
        guard let mode = ConfigSubscribe.Mode(rawValue: name) else {
            throw WireError(
                .invalidParams, "\"mode\" must be \"snapshot\", \"patch\" or \"revision\", not \"\(name)\"")
        }
        return mode
    }

    /// A digest; nil where the member is absent or null.
    func digest(_ name: StaticString) throws(WireError) -> WireDigest? {
        guard let text = try string(name) else { return nil }
        guard let digest = WireDigest(text) else {
            throw WireError(
                .invalidParams, "\"\(name)\" must be a SHA-256 in 64 hexadecimal digits, such as sha256sum(1) prints")
        }
        return digest
    }

    /// A digest that must be there.
    func requiredDigest(_ name: StaticString) throws(WireError) -> WireDigest {
        guard let digest = try digest(name) else { throw Self.missing(name) }
        return digest
    }

    /// The id of a request that must be there; null is an id.
    func requiredRequestID(_ name: StaticString) throws(WireError) -> RequestID {
        guard let id = RequestID(try requiredValue(name)) else {
            throw WireError(.invalidParams, "\"\(name)\" must be a string, a number or null")
        }
        return id
    }

    /// A JSON object that must be there.
    func requiredObject(_ name: StaticString) throws(WireError) -> JSONValue {
        let value = try requiredValue(name)
        guard value.kind == .object else {
            throw WireError(.invalidParams, "\"\(name)\" must be an object, not \(value.kind)")
        }
        return value
    }

    /// A reader of the object at a member; nil where the member is absent or null.
    func object(_ name: StaticString) throws(WireError) -> MemberReader? {
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

    /// A member that is a boolean, or none.
    mutating func member(_ name: StaticString, _ truth: Bool?) {
        if let truth { member(name, truth) }
    }

    /// A member that is the id of a request.
    mutating func member(_ name: StaticString, _ id: RequestID) {
        self.name(name)
        raw(id.text.utf8)
    }

    /// `path`, left out for the whole document.
    mutating func path(_ path: JSONPath) {
        if !path.isRoot { member("path", path.pointer) }
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
