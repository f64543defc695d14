import LarderEncoding
package import LarderJSON

/// Reads typed members of parameters (named or positional) and results. Each error names the member.
///
/// Unknown members of results are ignored, so that newer versions of the protocol can add members. Unknown parameters are
/// rejected.
package struct MemberReader {
    private let value: JSONValue?
    /// The members' names in the order of the array elements; empty unless the parameters are an array.
    private let positional: [String]
    /// The lengths of the names of all members, as a bit set. Most lookups are for absent members, and the bit set
    /// usually shows without a comparison of names that the member is absent.
    private let nameLengths: UInt64
    /// The number of members of an object; 0 for other values.
    private let count: Int

    /// Reads parameters.
    /// - Parameters:
    ///   - params: the `params` of a request, an object or an array; nil for none
    ///   - positional: the members' names in the order of the elements of an array
    /// - Throws: `invalidParams` if an array has more elements than there are names
    package init(params: JSONValue?, positional: @autoclosure () -> [String]) throws(WireError) {
        value = params
        guard let value, value.kind == .array else {
            self.positional = []
            (nameLengths, count) = value?.memberSummary ?? (0, 0)
            return
        }
        self.positional = positional()
        (nameLengths, count) = (.max, 0)
        if value.count > self.positional.count {
            let known =
                self.positional.isEmpty
                ? "the method has none"
                : "the method has \(self.positional.count) (\(self.positional.joined(separator: ", ")))"
            throw WireError(.invalidParams, "too many positional parameters: \(value.count); \(known)")
        }
    }

    /// Reads the members of an object, such as a result.
    /// - Throws: `invalidParams` if the value is not an object
    package init(object: JSONValue) throws(WireError) {
        guard object.kind == .object else { throw WireError(.invalidParams, "expected an object") }
        value = object
        positional = []
        (nameLengths, count) = (.max, object.count)
    }

    /// Whether the members are the elements of an array, where null stands for a member that is left out.
    var isPositional: Bool { !positional.isEmpty }

    /// Checks that there are no other members than these.
    /// - Parameter found: a number of these members that are present. If the object has no more members, its names are
    ///   not compared again.
    /// - Throws: `invalidParams` with the name of another member and the closest of `names`
    func rejectUnknown(_ names: @autoclosure () -> [StaticString], found: Int = 0) throws(WireError) {
        if count <= found { return }
        let names = names()
        var known = 0
        for name in names where self.value(name) != nil {
            known += 1
            if known == count { return }
        }
        guard let value else { return }
        let all = names.map { "\($0)" }
        for (name, _) in value.members where !all.contains(where: { $0.utf8.elementsEqual(name.utf8) }) {
            throw WireError(
                .invalidParams,
                "unknown parameter \"\(name.excerpt)\"; \(NearestName.advice(for: name, among: all))")
        }
    }

    /// Whether the member may be present. If not, its value need not be looked up.
    @inline(__always)
    func mayHave(_ name: StaticString) -> Bool {
        nameLengths & JSONValue.lengthBit(name.utf8CodeUnitCount) != 0
    }

    /// The member's value, possibly null; nil if it is absent.
    @inline(__always)
    package func value(_ name: StaticString) -> JSONValue? {
        guard mayHave(name) else { return nil }
        if positional.isEmpty { return value?.member(name) }
        return positional.firstIndex(of: "\(name)").flatMap { value?[$0] }
    }

    /// The member's value; nil if it is absent or null.
    @inline(__always)
    private func given(_ name: StaticString) -> JSONValue? {
        guard let found = value(name), !found.isNull else { return nil }
        return found
    }

    /// The member's value, possibly null.
    /// - Throws: `invalidParams` if the member is absent
    package func requiredValue(_ name: StaticString) throws(WireError) -> JSONValue {
        guard let found = value(name) else { throw Self.missing(name) }
        return found
    }

    // The following functions are inlined as far as the first check, because most optional members are absent.

    /// A string; nil if the member is absent or null.
    @inline(__always)
    package func string(_ name: StaticString) throws(WireError) -> String? {
        try mayHave(name) ? presentString(name) : nil
    }

    private func presentString(_ name: StaticString) throws(WireError) -> String? {
        guard let found = given(name) else { return nil }
        guard let text = found.string else { throw Self.mismatch(name, "a string", found) }
        return text
    }

    /// A boolean; nil if the member is absent or null.
    @inline(__always)
    package func bool(_ name: StaticString) throws(WireError) -> Bool? {
        try mayHave(name) ? presentBool(name) : nil
    }

    private func presentBool(_ name: StaticString) throws(WireError) -> Bool? {
        guard let found = given(name) else { return nil }
        guard let truth = found.bool else { throw Self.mismatch(name, "true or false", found) }
        return truth
    }

    /// An integer within `range`; nil if the member is absent or null.
    package func int(_ name: StaticString, in range: ClosedRange<Int> = 0...Int.max) throws(WireError) -> Int? {
        guard let found = given(name) else { return nil }
        guard let number = found.int else { throw Self.mismatch(name, "an integer", found) }
        guard range.contains(number) else {
            throw WireError(
                .invalidParams, "\"\(name)\" is \(number); it must be from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A number; nil if the member is absent or null.
    @inline(__always)
    package func number(_ name: StaticString) throws(WireError) -> Double? {
        try mayHave(name) ? presentNumber(name) : nil
    }

    private func presentNumber(_ name: StaticString) throws(WireError) -> Double? {
        guard let found = given(name) else { return nil }
        guard let number = found.double else {
            guard found.kind == .number else { throw Self.mismatch(name, "a number", found) }
            throw WireError(.invalidParams, "\"\(name)\" is too large; it must be a number below 1.8e308")
        }
        return number
    }

    /// The maximum length of a path in bytes. It limits the time to hash and compare paths, which are keys of caches.
    /// Real paths are far shorter.
    private static let maxPathBytes = 1 << 16

    /// A path in dotted form, as a JSON Pointer (RFC 6901) or as an array of names; the whole document if the member is
    /// absent or null.
    package func path(_ name: StaticString = "path") throws(WireError) -> JSONPath {
        guard mayHave(name) else { return .root }
        do throws(JSONError) {
            // No document is nested deeper than `defaultMaximumDepth`, so there is no value at a path with more
            // segments.
            let maximumSegments = JSONParser.defaultMaximumDepth
            if positional.isEmpty {
                let path = try value?.path(
                    at: name, maximumSegments: maximumSegments, maximumBytes: Self.maxPathBytes)
                return path ?? .root
            }
            guard let given = given(name) else { return .root }
            return try JSONPath(given, maximumSegments: maximumSegments, maximumBytes: Self.maxPathBytes)
        } catch {
            throw Self.notPath(name, error)
        }
    }

    /// A required path. It must be given even for the whole document, so that the document is not changed by mistake.
    package func requiredPath(_ name: StaticString = "path") throws(WireError) -> JSONPath {
        let found = try requiredValue(name)
        guard !found.isNull else {
            throw WireError(.invalidParams, "\"\(name)\" must be a path, not null; \"\" is the whole document")
        }
        do throws(JSONError) {
            return try JSONPath(
                found, maximumSegments: JSONParser.defaultMaximumDepth, maximumBytes: Self.maxPathBytes)
        } catch {
            throw Self.notPath(name, error)
        }
    }

    private static func notPath(_ name: StaticString, _ error: JSONError) -> WireError {
        WireError(
            .invalidParams,
            "\"\(name)\" must be \"a.b\", a JSON Pointer \"/a/b\" or an array of names: \(error.reason)")
    }

    /// A required string.
    package func requiredString(_ name: StaticString) throws(WireError) -> String {
        guard let found = try string(name) else { throw Self.missing(name) }
        return found
    }

    /// An object; nil if the member is absent or null.
    package func optionalObject(_ name: StaticString) throws(WireError) -> JSONValue? {
        guard let found = given(name) else { return nil }
        guard found.kind == .object else { throw Self.mismatch(name, "an object", found) }
        return found
    }

    /// An array of strings with a number of elements within `count`; nil if the member is absent or null.
    func strings(_ name: StaticString, count: ClosedRange<Int>) throws(WireError) -> [String]? {
        guard let found = given(name) else { return nil }
        guard found.kind == .array else { throw Self.mismatch(name, "an array of strings", found) }
        guard count.contains(found.count) else {
            let limit = found.count < count.lowerBound ? "at least \(count.lowerBound)" : "at most \(count.upperBound)"
            throw WireError(.invalidParams, "\"\(name)\" has \(found.count) elements; send \(limit)")
        }
        var strings: [String] = []
        strings.reserveCapacity(found.count)
        for element in found.elements {
            guard let text = element.string else {
                throw WireError(.invalidParams, "\"\(name)\" must have only strings, not \(element.kind.article)")
            }
            strings.append(text)
        }
        return strings
    }

    /// A required array of strings with a number of elements within `count`.
    func requiredStrings(_ name: StaticString, count: ClosedRange<Int>) throws(WireError) -> [String] {
        guard let found = try strings(name, count: count) else { throw Self.missing(name) }
        return found
    }

    /// A required boolean.
    package func requiredBool(_ name: StaticString) throws(WireError) -> Bool {
        guard let found = try bool(name) else { throw Self.missing(name) }
        return found
    }

    /// A required integer within `range`.
    package func requiredInt(_ name: StaticString, in range: ClosedRange<Int> = 0...Int.max) throws(WireError) -> Int {
        guard let found = try int(name, in: range) else {
            throw Self.missing(name)
        }
        return found
    }

    static func missing(_ name: StaticString) -> WireError {
        WireError(.invalidParams, "\"\(name)\" is missing")
    }

    private static func mismatch(_ name: StaticString, _ expected: String, _ found: JSONValue) -> WireError {
        WireError(.invalidParams, "\"\(name)\" must be \(expected), not \(found.kind.article)")
    }
}
