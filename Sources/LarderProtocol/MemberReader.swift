public import LarderJSON

/// Reads typed members out of parameters (named or positional) and results; each failure names the member.
///
/// Members that nobody asks for are ignored, so that a newer peer may send more.
public struct MemberReader {
    private let value: JSONValue?
    /// The members' names in the order of the elements; empty unless the parameters are an array.
    private let positional: [String]
    /// Which lengths the members' names have: most members that are looked for are absent.
    private let nameLengths: UInt64

    /// Reads parameters.
    /// - Parameter positional: the members' names in the order in which an array gives them.
    /// - Throws: `invalidParams` where an array has more elements than there are names.
    public init(params: JSONValue?, positional: @autoclosure () -> [String]) throws(WireError) {
        value = params
        guard let params, params.kind == .array else {
            self.positional = []
            nameLengths = params?.nameLengths ?? 0
            return
        }
        self.positional = positional()
        nameLengths = .max
        if params.count > self.positional.count {
            let known =
                self.positional.isEmpty
                ? "none is known"
                : "at most \(self.positional.count) are known (\(self.positional.joined(separator: ", ")))"
            throw WireError(.invalidParams, "too many positional parameters: \(params.count), where \(known)")
        }
    }

    /// Reads the members of an object, such as a result.
    /// - Throws: `invalidParams` where it is no object.
    public init(object: JSONValue) throws(WireError) {
        guard object.kind == .object else { throw WireError(.invalidParams, "an object was expected") }
        value = object
        positional = []
        nameLengths = .max
    }

    /// The member as it is, or nil where it is absent.
    @inline(__always)
    public func value(_ name: StaticString) -> JSONValue? {
        guard nameLengths & JSONValue.lengthBit(name.utf8CodeUnitCount) != 0 else { return nil }
        if positional.isEmpty { return value?.member(name) }
        return positional.firstIndex(of: "\(name)").flatMap { value?[$0] }
    }

    /// The member; nil where it is absent or null.
    @inline(__always)
    private func given(_ name: StaticString) -> JSONValue? {
        guard let found = value(name), !found.isNull else { return nil }
        return found
    }

    /// The member as it is.
    /// - Throws: `invalidParams` where it is absent.
    public func requiredValue(_ name: StaticString) throws(WireError) -> JSONValue {
        guard let found = value(name) else { throw Self.missing(name) }
        return found
    }

    /// A string; nil where the member is absent or null.
    public func string(_ name: StaticString) throws(WireError) -> String? {
        guard let found = given(name) else { return nil }
        guard let text = found.string else { throw Self.mismatch(name, "a string", found) }
        return text
    }

    /// A boolean; nil where the member is absent or null.
    public func bool(_ name: StaticString) throws(WireError) -> Bool? {
        guard let found = given(name) else { return nil }
        guard let truth = found.bool else { throw Self.mismatch(name, "true or false", found) }
        return truth
    }

    /// An integer within `range`; nil where the member is absent or null.
    public func int(_ name: StaticString, in range: ClosedRange<Int> = 0...Int.max) throws(WireError) -> Int? {
        guard let found = given(name) else { return nil }
        guard let number = found.int else { throw Self.mismatch(name, "an integer", found) }
        guard range.contains(number) else {
            throw WireError(
                .invalidParams, "\"\(name)\" is \(number), it must be from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A number; nil where the member is absent or null.
    public func number(_ name: StaticString) throws(WireError) -> Double? {
        guard let found = given(name) else { return nil }
        guard let number = found.double else { throw Self.mismatch(name, "a number", found) }
        return number
    }

    /// What is looked up and kept by its path is hashed and compared whole; names are nowhere near as long.
    private static let maximumPathBytes = 1 << 16

    /// A path in any of its three forms; the whole document where the member is absent or null.
    public func path(_ name: StaticString = "path") throws(WireError) -> JSONPath {
        guard let given = given(name) else { return JSONPath([]) }
        do throws(JSONError) {
            // No document is nested deeper, so that nothing can be there.
            return try JSONPath(
                given, maximumSegments: JSONParser.defaultMaximumDepth, maximumBytes: Self.maximumPathBytes)
        } catch {
            throw WireError(
                .invalidParams,
                "\"\(name)\" must be \"a.b\", a JSON Pointer \"/a/b\" or an array of names: \(error.reason)")
        }
    }

    /// A path that must be given, so that nobody changes the whole document by mistake.
    public func requiredPath(_ name: StaticString = "path") throws(WireError) -> JSONPath {
        guard try !requiredValue(name).isNull else {
            throw WireError(.invalidParams, "\"\(name)\" must be a path, not null; \"\" is the whole document")
        }
        return try path(name)
    }

    /// A string that must be there.
    public func requiredString(_ name: StaticString) throws(WireError) -> String {
        guard let found = try string(name) else { throw Self.missing(name) }
        return found
    }

    /// A boolean that must be there.
    public func requiredBool(_ name: StaticString) throws(WireError) -> Bool {
        guard let found = try bool(name) else { throw Self.missing(name) }
        return found
    }

    /// An integer that must be there.
    public func requiredInt(_ name: StaticString, in range: ClosedRange<Int> = 0...Int.max) throws(WireError) -> Int {
        guard let found = try int(name, in: range) else {
            throw Self.missing(name)
        }
        return found
    }

    static func missing(_ name: StaticString) -> WireError {
        WireError(.invalidParams, "\"\(name)\" is missing")
    }

    private static func mismatch(_ name: StaticString, _ expected: String, _ found: JSONValue) -> WireError {
        WireError(.invalidParams, "\"\(name)\" must be \(expected), not \(found.kind)")
    }
}
