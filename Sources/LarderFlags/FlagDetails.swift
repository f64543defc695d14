import LarderFlagRules
public import LarderJSON

/// The result of an evaluation.
///
/// ```swift
/// import LarderFlags
///
/// let details = client.flags.details("new-checkout", default: false)
/// if let code = details.errorCode { print("\(details.flag): \(code): \(details.errorMessage ?? "")") }
/// ```
public struct FlagDetails<Value: FlagValue>: Sendable, Equatable {
    /// The name of the flag.
    public let flag: String
    /// The value of the variant, or the default of the caller.
    public let value: Value
    /// The name of the variant; nil if ``value`` is the default of the caller.
    public let variant: String?
    /// Why the flag has this value.
    public let reason: FlagReason
    /// Why the evaluation failed; nil unless ``reason`` is `ERROR`.
    public let errorCode: FlagErrorCode?
    /// The cause of the failure in words; nil unless ``reason`` is `ERROR`.
    public let errorMessage: String?
    /// The metadata of the flag, merged over the metadata of all flags; an object.
    public let metadata: JSONValue
    /// The revision of the snapshot that contains the flag; nil before the first snapshot.
    public let revision: Int?

    /// - Parameter outcome: nil if there is no snapshot yet
    init(_ flag: String, default defaultValue: Value, _ outcome: FlagOutcome?, _ revision: Int?) {
        (self.flag, self.revision) = (flag, revision)
        value = outcome?.value.flatMap { Value(flagValue: $0) } ?? defaultValue
        variant = outcome?.variant
        reason = outcome.map { FlagReason(rawValue: $0.reason.rawValue) } ?? .error
        errorCode = outcome == nil ? .providerNotReady : outcome?.errorCode.map { FlagErrorCode(rawValue: $0.rawValue) }
        errorMessage =
            outcome == nil
            ? "the agent has not sent the flags yet; ready() waits for them, and throws the cause"
            : outcome?.errorMessage
        metadata = outcome?.metadata ?? .emptyObject
    }
}

/// Why a flag has its value, as in OpenFeature.
public struct FlagReason: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The name in OpenFeature, such as `TARGETING_MATCH`.
    public let rawValue: String
    /// Creates a reason from its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The flag has no rule.
    public static let `static` = Self(rawValue: "STATIC")
    /// The rule selected no variant, so the value is that of the default variant or the default of the caller.
    public static let `default` = Self(rawValue: "DEFAULT")
    /// The rule selected the variant.
    public static let targetingMatch = Self(rawValue: "TARGETING_MATCH")
    /// The flag is disabled.
    public static let disabled = Self(rawValue: "DISABLED")
    /// The evaluation failed.
    public static let error = Self(rawValue: "ERROR")

    /// The same as ``rawValue``.
    public var description: String { rawValue }
}

/// Why an evaluation failed, as in OpenFeature.
public struct FlagErrorCode: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    /// The name in OpenFeature, such as `FLAG_NOT_FOUND`.
    public let rawValue: String
    /// Creates a code from its name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The agent has not sent the flags yet.
    public static let providerNotReady = Self(rawValue: "PROVIDER_NOT_READY")
    /// There is no such flag.
    public static let flagNotFound = Self(rawValue: "FLAG_NOT_FOUND")
    /// The flag is malformed.
    public static let parseError = Self(rawValue: "PARSE_ERROR")
    /// The value of the variant is not of the type of the default.
    public static let typeMismatch = Self(rawValue: "TYPE_MISMATCH")
    /// The rule selects a variant that does not exist, or exceeds a limit.
    public static let general = Self(rawValue: "GENERAL")

    /// The same as ``rawValue``.
    public var description: String { rawValue }
}

/// A type that flags can have: `Bool`, `String`, `Int`, `Double` or, for objects and arrays, `JSONValue`.
///
/// ```swift
/// import LarderFlags
///
/// func isForced<Value: FlagValue>(_ details: FlagDetails<Value>) -> Bool { details.reason == .static }
/// ```
public protocol FlagValue: Sendable, Equatable {
    /// The name of the type in the agent's protocol.
    static var flagType: String { get }
    /// Converts the value of a variant; nil if it has another type.
    init?(flagValue: JSONValue)
}

extension Bool: FlagValue {
    /// The name of the type in the protocol.
    public static var flagType: String { "boolean" }
    /// Converts the value of a variant.
    public init?(flagValue: JSONValue) {
        guard let value = flagValue.bool else { return nil }
        self = value
    }
}

extension String: FlagValue {
    /// The name of the type in the protocol.
    public static var flagType: String { "string" }
    /// Converts the value of a variant.
    public init?(flagValue: JSONValue) {
        guard let value = flagValue.string else { return nil }
        self = value
    }
}

extension Int: FlagValue {
    /// The name of the type in the protocol.
    public static var flagType: String { "integer" }
    /// Converts the value of a variant.
    public init?(flagValue: JSONValue) {
        guard let value = flagValue.int else { return nil }
        self = value
    }
}

extension Double: FlagValue {
    /// The name of the type in the protocol.
    public static var flagType: String { "double" }
    /// Converts the value of a variant.
    public init?(flagValue: JSONValue) {
        guard let value = flagValue.double else { return nil }
        self = value
    }
}

extension JSONValue: FlagValue {
    /// The name of the type in the protocol.
    public static var flagType: String { "object" }
    /// Converts the value of a variant.
    public init?(flagValue: JSONValue) { self = flagValue }
}
