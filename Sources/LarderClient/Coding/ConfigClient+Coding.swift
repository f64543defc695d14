public import FoundationEssentials
import LarderEncoding
import LarderJSON
import LarderProtocol

extension ConfigClient {
    /// How a program reads and writes its types as JSON.
    struct Coding: Sendable {
        var decoder = JSONDecoder()
        var encoder = JSONEncoder()
    }
}

extension ConfigCalls {
    /// Reads the value at a path and decodes it.
    ///
    /// ```swift
    /// let limit = try await client.config.value(at: "search.limit", as: Int.self)
    ///
    /// struct Search: Decodable { var limit: Int; var hosts: [String] }
    /// let search = try await client.config.value(at: "search", as: Search.self)
    /// let theme = try await client.config.value(at: "ui.theme", default: "light")
    /// let banner = try await client.config.value(at: "banner", as: String?.self)  // nil if there is no value
    /// ```
    ///
    /// **Missing values.** If there is no value at the path, the result is the default or, if the type is an `Optional`,
    /// nil. Otherwise the call throws `notFound`. ``update(at:as:default:reason:attempts:_:)``,
    /// `LarderSnapshot.decode` and ``ConfigViewModel`` have the same rule.
    ///
    /// **Defaults of members.** If the type is also `Encodable`, the default provides the members that the value lacks:
    ///
    /// ```swift
    /// struct Limits: Codable { var results = 10; var hosts: [String] = [] }
    /// try await client.config.set(25, at: "limits.results")
    /// let limits = try await client.config.value(at: "limits", default: Limits())
    /// print(limits.results, limits.hosts)  // 25 []
    /// ```
    ///
    /// The rule: the default is encoded as JSON, and decoding a member by its key reads the member of the encoded
    /// default if the value has no such member. This applies to the members of members as well. A member that the value
    /// has is never replaced, also if it is null or has the wrong type. `allKeys` and `contains` of a decoder show only
    /// the members of the value. Arrays, dictionaries and different cases of an enumeration are therefore not mixed: the
    /// whole array or dictionary, and the case, come from the value or, if the value lacks the member, from the default.
    /// If both have the same case, the default provides the associated values that the value lacks. The encoded default
    /// is written and read with the standard strategies of `JSONEncoder` and `JSONDecoder`.
    /// - Parameters:
    ///   - path: the path; empty for the whole document.
    ///   - type: the type to decode.
    ///   - defaultValue: the result if there is no value at the path, and the source of the members that the value
    ///     lacks. Nil makes a missing value an error, unless the type is an `Optional`, and also a missing member that the
    ///     type requires.
    ///   - decoder: decodes the value, unless the type is `Int`, `Bool` or `String`, which are read without it. A value
    ///     of more than 4 KiB is decoded on another thread than that of an actor which calls this method.
    /// - Throws: `remote` with `notFound` if there is no value at the path, no default, and the type is not an
    ///   `Optional`, or with `unavailable` while the remote source has not delivered a document yet; `decodingFailed` if the value does not match the type;
    ///   `invalidArgument` if the default cannot be encoded.
    public func value<T: Decodable & Sendable>(
        at path: String = "", as type: T.Type = T.self, default defaultValue: T? = nil,
        decoder: JSONDecoder = JSONDecoder()
    ) async throws(LarderClientError) -> T {
        let target = try ValuePath(path)
        if let value = try await value(at: target, isOptional: missingValue(default: defaultValue) != nil) {
            return try await value.decoded(
                type, decoder: decoder, over: defaultValue, at: ValuePlace(path: path, namespace: namespace))
        }
        guard let missing = missingValue(default: defaultValue) else {
            preconditionFailure("a missing value without a default is an error")
        }
        return missing
    }

    /// Encodes a value and sets it as an override, as ``set(_:at:ttl:)`` does.
    ///
    /// ```swift
    /// try await client.config.set(encoding: Search(limit: 25, hosts: []), at: "search")
    /// ```
    /// - Parameters:
    ///   - value: the value. An object is merged with the values of the lower layers.
    ///   - path: the path of an object member. It must not be empty.
    ///   - ttl: the time after which the override expires, in whole milliseconds, rounded up; nil for no expiry.
    ///   - encoder: encodes the value, on another thread than that of an actor which calls this method.
    /// - Throws: `invalidArgument` if the value cannot be encoded as JSON, for example because a number in it is an
    ///   infinity or NaN; also the errors of ``set(_:at:ttl:)``.
    @discardableResult
    public func set(
        encoding value: some Encodable & Sendable, at path: String, ttl: Duration? = nil,
        encoder: JSONEncoder = JSONEncoder()
    ) async throws(LarderClientError) -> ConfigChange {
        let json = try await JSONValue.encoded(value, encoder: encoder)
        return try await set(json, at: path, ttl: ttl)
    }

    /// Reads the value at a path. If it is optional, returns nil for no value.
    func value(
        at target: ValuePath, isOptional: @autoclosure () -> Bool
    ) async throws(LarderClientError) -> JSONValue? {
        do throws(LarderClientError) {
            if let value = try await snapshot(at: target.text, maximumAge: nil, staleIfError: nil).value {
                return value
            }
            throw LarderClientError(remote: RemoteError(.notFound, "there is no value at \"\(target.text)\""))
        } catch {
            guard error.remoteError?.code == .notFound else { throw error }
            if isOptional() { return nil }
            throw LarderClientError(
                error.code, error.reason, advice: error.advice ?? "correct the path, set a value, or pass default:",
                remoteError: error.remoteError)
        }
    }
}

/// A valid path, and its text as the caller wrote it. Types of tests that conform to ``ConfigCalls`` get this text, so
/// that they can compare it with the text in the code.
struct ValuePath: Sendable {
    let text: String
    let path: JSONPath

    init(_ text: String) throws(LarderClientError) { (self.text, path) = (text, try JSONPath(argument: text)) }
}

/// A type with a value that stands for a missing one.
private protocol OptionalValue {
    static var missing: Self { get }
}

extension Optional: OptionalValue {
    fileprivate static var missing: Self { nil }
}

/// The result of reading a missing value: the default or, if the type is an `Optional`, nil. Nil if a missing value is an
/// error.
func missingValue<T>(default defaultValue: T?) -> T? {
    defaultValue ?? (T.self as? any OptionalValue.Type)?.missing as? T
}

extension ConfigChangeList {
    /// Encodes a value and sets it as an override, as ``set(_:at:ttl:ifValue:)`` does. It throws, so it is called on a
    /// list that is made before it is sent:
    ///
    /// ```swift
    /// var changes = ConfigChangeList()
    /// try changes.set(encoding: Search(limit: 25, hosts: []), at: "search")
    /// changes.set("new cluster", at: "banner")
    /// try await client.config.apply(changes, ifRevision: .any, reason: nil, dryRun: false)
    /// ```
    /// - Parameters:
    ///   - value: the value. An object is merged with the values of the lower layers.
    ///   - path: the path of an object member. It must not be empty.
    ///   - ttl: the time after which the override expires, in whole milliseconds, rounded up; nil for no expiry.
    ///   - condition: the resolved value that must be at the path before the first change is made.
    ///   - encoder: encodes the value, on the thread of the caller.
    /// - Throws: `invalidArgument` if the value cannot be encoded as JSON.
    public mutating func set(
        encoding value: some Encodable, at path: String, ttl: Duration? = nil,
        ifValue condition: ValueCondition = .any, encoder: JSONEncoder = JSONEncoder()
    ) throws(LarderClientError) {
        set(try JSONValue(encoding: value, encoder: encoder), at: path, ttl: ttl, ifValue: condition)
    }
}

extension JSONValue {
    /// The maximum size of a text that is decoded on the thread of the caller.
    private static let maxBytesOnCaller = 4096

    /// Decodes the value as ``decode(_:decoder:over:at:)`` does. A value that may take longer to decode than a change of
    /// the thread does not occupy the actor that calls this method.
    func decoded<T: Decodable & Sendable>(
        _ type: T.Type, decoder: JSONDecoder, over defaultValue: T? = nil, at place: ValuePlace
    ) async throws(LarderClientError) -> T {
        // The default has an unknown size until it is encoded.
        if isSmall, defaultValue == nil || defaultValue is any DecodedWhole {
            return try decode(type, decoder: decoder, over: defaultValue, at: place)
        }
        return try await decodedConcurrently(type, decoder: decoder, over: defaultValue, at: place)
    }

    /// Whether the value can be decoded or released on the thread of an actor without occupying it for long.
    var isSmall: Bool { textSize <= Self.maxBytesOnCaller }

    private func decodedConcurrently<T: Decodable & Sendable>(
        _ type: T.Type, decoder: JSONDecoder, over defaultValue: T?, at place: ValuePlace
    ) async throws(LarderClientError) -> T {
        try await concurrently { () async throws(LarderClientError) in
            try decode(type, decoder: decoder, over: defaultValue, at: place)
        }
    }

    /// Decodes the value from its JSON text. Members that it lacks are read from the encoded default. `Int`, `Bool` and
    /// `String`, the types of most values, and `JSONValue` itself are read without the decoder.
    func decode<T: Decodable>(
        _ type: T.Type, decoder: JSONDecoder, over defaultValue: T? = nil, at place: ValuePlace = ValuePlace()
    ) throws(LarderClientError) -> T {
        if type == Int.self, let int = int as? T { return int }
        if type == Bool.self, let bool = bool as? T { return bool }
        if type == String.self, let string = string as? T { return string }
        if let value = self as? T { return value }
        let defaultData: Data?
        do {
            defaultData = try JSONEncoder.defaultData(defaultValue)
        } catch {
            throw LarderClientError(.invalidArgument, "the default cannot be encoded as JSON: \(error)")
        }
        let data = withTextBytes { Data($0) }
        do {
            return try decoder.decode(type, from: data, over: defaultData)
        } catch let error as DecodingError {
            var reason = error.inOneLine(of: self)
            if error.isOfNumber {
                let trace = DecodingTrace()
                _ = try? decoder.decode(type, from: data, over: defaultData, trace: trace)
                reason =
                    "\(DecodingError.subject(trace.codingPath)) is a number that does not fit into "
                    + "\(trace.type ?? type)"
            }
            throw place.failure(type, reason, advice: error.advice)
        } catch {
            throw place.failure(type, "\(error)", advice: nil)
        }
    }

    /// Encodes a value as JSON, on another thread than that of an actor which calls this method.
    /// - Throws: `invalidArgument` if the value cannot be encoded.
    static func encoded(
        _ value: some Encodable & Sendable, encoder: JSONEncoder
    ) async throws(LarderClientError) -> JSONValue {
        try await concurrently { () async throws(LarderClientError) in
            try JSONValue(encoding: value, encoder: encoder)
        }
    }

    /// Encodes a value as JSON.
    /// - Throws: `invalidArgument` if the value cannot be encoded.
    init(encoding value: some Encodable, encoder: JSONEncoder = JSONEncoder()) throws(LarderClientError) {
        if let value = value as? JSONValue {
            try CallArguments.check(value, at: JSONPath([]))
            self = value
            return
        }
        do {
            self = try JSONValue(parsing: Array(encoder.encode(value)))
        } catch EncodingError.invalidValue(let number as any BinaryFloatingPoint, let context) {
            throw LarderClientError(
                .invalidArgument,
                "the value cannot be encoded as JSON: \(DecodingError.subject(context.codingPath)) is \(number), which is "
                    + "not a JSON number",
                advice: "set a finite number, or pass an encoder with a nonConformingFloatEncodingStrategy")
        } catch {
            throw LarderClientError(.invalidArgument, "the value cannot be encoded as JSON: \(error)")
        }
    }
}

/// The place of a value that is decoded, for messages.
struct ValuePlace: Sendable {
    /// The path as the program wrote it; nil if it is unknown.
    var path: String?
    /// Nil if it is unknown.
    var namespace: String?

    private var text: String {
        let value = path.map { $0.isEmpty ? "the document" : "the value at \"\($0)\"" } ?? "the value"
        return value + (namespace.map { " in namespace \"\($0)\"" } ?? "")
    }

    /// The error for a value that does not match a type.
    func failure(_ type: Any.Type, _ reason: String, advice: String?) -> LarderClientError {
        LarderClientError(.decodingFailed, "cannot decode \(text) as \(type): \(reason)", advice: advice)
    }
}

extension DecodingError {
    /// What cannot be decoded, and why, in one line. It has no value of the configuration, unless a type of the caller
    /// adds one to its error.
    /// - Parameter value: the value that was decoded.
    fileprivate func inOneLine(of value: JSONValue) -> String {
        switch self {
        case .keyNotFound(let key, let context):
            return "\(Self.subject(context.codingPath + [key])) is missing"
        case .typeMismatch(let type, let context), .valueNotFound(let type, let context):
            guard let kind = Self.value(at: context.codingPath, in: value)?.kind else {
                return "\(Self.subject(context.codingPath)): \(Self.text(of: context))"
            }
            let expected = context.codingPath.isEmpty ? "" : ", not \(Self.name(of: type))"
            return "\(Self.subject(context.codingPath)) is \(kind.article)\(expected)"
        case .dataCorrupted(let context):
            let place = context.codingPath.isEmpty ? "" : Self.subject(context.codingPath) + ": "
            return place + Self.text(of: context)
        @unknown default: return String(describing: self).replacing("\n", with: " ")
        }
    }

    fileprivate var advice: String {
        if case .keyNotFound = self { return "add the member, or pass a default" }
        return "correct the value, or read another type"
    }

    /// Whether a number does not fit into the type that it is read as. Because the text is valid JSON, `JSONDecoder` has
    /// no other reason to report it as invalid. The error then has no coding path.
    fileprivate var isOfNumber: Bool {
        guard case .dataCorrupted(let context) = self else { return false }
        return context.codingPath.isEmpty && context.debugDescription == "The given data was not valid JSON."
    }

    /// The reason in one line. The standard library adds the value to the error of an enumeration that has no such case.
    private static func text(of context: Context) -> String {
        let text = context.debugDescription.replacing("\n", with: " ")
        guard text.hasPrefix("Cannot initialize "), let end = text.firstRange(of: " value ") else { return text }
        return text[..<end.lowerBound] + " value"
    }

    /// The path of a member below the decoded value, in quotes; `it` for the decoded value.
    fileprivate static func subject(_ codingPath: [any CodingKey]) -> String {
        let path = codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }
        return path.isEmpty ? "it" : "\"\(JSONPath(path))\""
    }

    /// The value at a coding path; nil for a member that comes from a default.
    private static func value(at codingPath: [any CodingKey], in value: JSONValue) -> JSONValue? {
        value.value(at: JSONPath(codingPath.map { $0.intValue.map(String.init) ?? $0.stringValue }))
    }

    /// The name of a type. `JSONDecoder` reports containers as dictionaries and arrays of any values.
    private static func name(of type: Any.Type) -> String {
        let name = "\(type)"
        if name.hasPrefix("Dictionary<") { return "an object" }
        return name.hasPrefix("Array<") ? "an array" : name
    }
}

extension LarderSnapshot {
    /// Decodes the value on the thread of the caller. On the main actor, ``ConfigViewModel`` and
    /// ``ConfigCalls/value(at:as:default:decoder:)`` are better for large values, because they decode on another
    /// thread.
    ///
    /// ```swift
    /// struct Search: Codable { var limit = 10; var hosts: [String] = [] }
    /// let search = try snapshot.decode(Search.self, default: Search())
    /// ```
    /// - Parameters:
    ///   - type: the type to decode.
    ///   - defaultValue: the result if there is no value, and the source of the members that the value lacks, as for
    ///     ``ConfigCalls/value(at:as:default:decoder:)``. Nil makes a missing value an error, unless the type is an
    ///     `Optional`: the result then is nil.
    ///   - decoder: decodes every type but `Int`, `Bool` and `String`, which are read directly.
    /// - Throws: `decodingFailed` if the value does not match the type, or if there is neither a value nor a default and
    ///   the type is not an `Optional`; `invalidArgument` if the default cannot be encoded.
    public func decode<T: Decodable>(
        _ type: T.Type = T.self, default defaultValue: T? = nil, decoder: JSONDecoder = JSONDecoder()
    ) throws(LarderClientError) -> T {
        let place = ValuePlace(path: path, namespace: namespace)
        if let value { return try value.decode(type, decoder: decoder, over: defaultValue, at: place) }
        if let missing = missingValue(default: defaultValue) { return missing }
        throw place.failure(
            type, "there is no value",
            advice: "pass a default, or decode \(type)? to get nil")
    }
}
