public import LarderJSON

/// Reads typed members out of parameters (named or positional) and results; each failure names the member.
///
/// Members that nobody asks for are ignored, so that a newer peer may send more.
public struct MemberReader {
    private let value: JSONValue?
    private let positional: [String]

    /// Reads parameters.
    /// - Parameter positional: the members' names in the order in which an array gives them.
    /// - Throws: `invalidParams` where an array has more elements than there are names.
    public init(params: JSONValue?, positional: [String]) throws(WireError) {
        if let params, params.kind == .array, params.count > positional.count {
            let known =
                positional.isEmpty
                ? "none is known" : "at most \(positional.count) are known (\(positional.joined(separator: ", ")))"
            throw WireError(.invalidParams, "too many positional parameters: \(params.count), where \(known)")
        }
        value = params
        self.positional = positional
    }

    /// Reads the members of an object, such as a result.
    /// - Throws: `invalidParams` where it is no object.
    public init(object: JSONValue) throws(WireError) {
        guard object.kind == .object else { throw WireError(.invalidParams, "an object was expected") }
        value = object
        positional = []
    }

    /// The member as it is, or nil where it is absent.
    public func value(_ name: String) -> JSONValue? {
        guard let value else { return nil }
        if value.kind == .array { return positional.firstIndex(of: name).flatMap { value[$0] } }
        return value[name]
    }

    /// The member as it is.
    /// - Throws: `invalidParams` where it is absent.
    public func requiredValue(_ name: String) throws(WireError) -> JSONValue {
        guard let found = value(name) else { throw WireError(.invalidParams, "\"\(name)\" is missing") }
        return found
    }

    /// A string; nil where the member is absent or null.
    public func string(_ name: String) throws(WireError) -> String? {
        try optional(name, "a string") { $0.string }
    }

    /// A boolean; nil where the member is absent or null.
    public func bool(_ name: String) throws(WireError) -> Bool? {
        try optional(name, "true or false") { $0.bool }
    }

    /// An integer within `range`; nil where the member is absent or null.
    public func int(_ name: String, in range: ClosedRange<Int> = 0...Int.max) throws(WireError) -> Int? {
        guard let number = try optional(name, "an integer", { $0.int }) else { return nil }
        guard range.contains(number) else {
            throw WireError(
                .invalidParams, "\"\(name)\" is \(number), it must be from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A number; nil where the member is absent or null.
    public func number(_ name: String) throws(WireError) -> Double? {
        try optional(name, "a number") { $0.double }
    }

    /// What is looked up and kept by its path is hashed and compared whole; names are nowhere near as long.
    private static let maximumPathBytes = 1 << 16

    /// A path in any of its three forms; the whole document where the member is absent or null.
    public func path(_ name: String = "path") throws(WireError) -> JSONPath {
        guard let given = value(name), !given.isNull else { return JSONPath([]) }
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
    public func requiredPath(_ name: String = "path") throws(WireError) -> JSONPath {
        guard try !requiredValue(name).isNull else {
            throw WireError(.invalidParams, "\"\(name)\" must be a path, not null; \"\" is the whole document")
        }
        return try path(name)
    }

    /// A string that must be there.
    public func requiredString(_ name: String) throws(WireError) -> String {
        guard let found = try string(name) else { throw WireError(.invalidParams, "\"\(name)\" is missing") }
        return found
    }

    /// A boolean that must be there.
    public func requiredBool(_ name: String) throws(WireError) -> Bool {
        guard let found = try bool(name) else { throw WireError(.invalidParams, "\"\(name)\" is missing") }
        return found
    }

    /// An integer that must be there.
    public func requiredInt(_ name: String, in range: ClosedRange<Int> = 0...Int.max) throws(WireError) -> Int {
        guard let found = try int(name, in: range) else {
            throw WireError(.invalidParams, "\"\(name)\" is missing")
        }
        return found
    }

    private func optional<T>(
        _ name: String, _ expected: String, _ convert: (JSONValue) -> T?
    ) throws(WireError) -> T? {
        guard let found = value(name), !found.isNull else { return nil }
        guard let converted = convert(found) else {
            throw WireError(.invalidParams, "\"\(name)\" must be \(expected), not \(found.kind)")
        }
        return converted
    }
}
