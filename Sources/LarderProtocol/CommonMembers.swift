import LarderJSON

// How the generated messages read and write members whose types JSON itself does not have, such as times and digests.

extension MemberReader {
    /// Reads `namespace`; the default namespace if the member is absent or null.
    func namespace() throws(WireError) -> String { try string("namespace") ?? defaultNamespace }

    /// Reads the boolean member `name`, with which a client confirms that it wants to change the whole document. An
    /// empty path alone does not confirm the change, because it may be a mistake.
    /// - Parameter effect: the part of the error text that describes the change: "setting the whole document replaces
    ///   all overrides"
    /// - Throws: `invalidParams` if the path is the whole document and the member is not true, or if the member is true
    ///   for any other path
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

    /// A number of seconds from 0 to ten years, with fractions; nil if the member is absent or null.
    @inline(__always)
    func seconds(_ name: StaticString) throws(WireError) -> Double? {
        try mayHave(name) ? presentSeconds(name) : nil
    }

    private func presentSeconds(_ name: StaticString) throws(WireError) -> Double? {
        guard let seconds = try number(name) else { return nil }
        guard (0...maxSeconds).contains(seconds) else {
            throw WireError(
                .invalidParams, "\"\(name)\" is \(seconds); it must be from 0 to \(Int(maxSeconds)) seconds")
        }
        return seconds
    }

    /// A time; nil if the member is absent or null.
    func timestamp(_ name: StaticString) throws(WireError) -> Timestamp? {
        guard let text = try string(name) else { return nil }
        guard let time = Timestamp(text) else {
            throw WireError(.invalidParams, "\"\(name)\" must be a time such as 2026-01-31T12:00:00.000Z")
        }
        return time
    }

    /// A required time.
    func requiredTimestamp(_ name: StaticString) throws(WireError) -> Timestamp {
        guard let time = try timestamp(name) else { throw Self.missing(name) }
        return time
    }

    /// A string whose length in bytes is within `range`; nil if the member is absent or null. Errors do not contain the
    /// string, because a URL may contain a secret.
    func text(_ name: StaticString, bytes range: ClosedRange<Int>) throws(WireError) -> String? {
        guard let text = try string(name) else { return nil }
        guard range.contains(text.utf8.count) else {
            throw WireError(
                .invalidParams,
                "\"\(name)\" has \(text.utf8.count) bytes; it must have from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return text
    }

    /// A required string whose length in bytes is within `range`.
    func requiredText(_ name: StaticString, bytes range: ClosedRange<Int>) throws(WireError) -> String {
        guard let text = try text(name, bytes: range) else { throw Self.missing(name) }
        return text
    }

    /// A string of at most `most` bytes that is only displayed; nil if the member is absent or null.
    func text(_ name: StaticString, atMost most: Int) throws(WireError) -> String? {
        let text = try string(name)
        if let text, text.utf8.count > most {
            throw WireError(.invalidParams, "\"\(name)\" has \(text.utf8.count) bytes; it may have at most \(most)")
        }
        return text
    }

    /// The reason for a change; nil if the member is absent, null or empty.
    func reason() throws(WireError) -> String? {
        guard let reason = try string("reason"), !reason.isEmpty else { return nil }
        // A character has at least one byte.
        if reason.utf8.count > maxReasonLength, reason.unicodeScalars.count > maxReasonLength {
            throw WireError(
                .invalidParams,
                "\"reason\" has \(reason.unicodeScalars.count) characters; it may have at most \(maxReasonLength)")
        }
        return reason
    }

    /// A string that must be a raw value of `type`; nil if the member is absent or null.
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

    /// A digest; nil if the member is absent or null.
    func digest(_ name: StaticString) throws(WireError) -> WireDigest? {
        guard let text = try string(name) else { return nil }
        guard let digest = WireDigest(text) else {
            throw WireError(
                .invalidParams, "\"\(name)\" must be a SHA-256 in 64 hexadecimal digits, such as sha256sum(1) prints")
        }
        return digest
    }

    /// A required digest.
    func requiredDigest(_ name: StaticString) throws(WireError) -> WireDigest {
        guard let digest = try digest(name) else { throw Self.missing(name) }
        return digest
    }

    /// A required JSON object.
    func requiredObject(_ name: StaticString) throws(WireError) -> JSONValue {
        let value = try requiredValue(name)
        guard value.kind == .object else {
            throw WireError(.invalidParams, "\"\(name)\" must be an object, not \(value.kind.article)")
        }
        return value
    }

    /// A reader for the object at a member; nil if the member is absent or null.
    func object(_ name: StaticString) throws(WireError) -> MemberReader? {
        guard let found = value(name), !found.isNull else { return nil }
        return try MemberReader(object: found)
    }
}

/// The maximum length of the reason for a change, in Unicode code points.
package let maxReasonLength = 1024

/// The integers that all JSON readers represent exactly.
enum WireInteger {
    static let range = -largestRevision...largestRevision
}

/// Ten years in seconds. A larger number is probably not in seconds.
private let maxSeconds: Double = 10 * 366 * 86_400
