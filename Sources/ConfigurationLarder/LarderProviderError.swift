public import LarderClientCore

/// The error type of ``LarderProvider``. No text of it contains a value of the configuration.
///
/// ```swift
/// let config = ConfigReader(provider: try await LarderProvider(startup: .optional))
/// do {
///     try await server.setLimit(config.fetchRequiredInt(forKey: "search.limit"))
/// } catch let error as LarderProviderError where error.code == .fetchFailed {
///     await server.setLimit(config.int(forKey: "search.limit", default: 10))
/// }
/// ```
public struct LarderProviderError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds, so a `switch` over it needs a `default`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case startFailed, fetchFailed, typeMismatch
        }

        private let kind: Kind

        /// The agent did not pass a snapshot within the timeout of ``LarderProvider/Startup/required(timeout:)``.
        public static let startFailed = Self(kind: .startFailed)
        /// The agent did not confirm a value: it is unreachable, or it returned an error.
        public static let fetchFailed = Self(kind: .fetchFailed)
        /// The value cannot be converted to the requested type. Other values are not affected.
        public static let typeMismatch = Self(kind: .typeMismatch)

        /// The name of the kind.
        public var description: String { kind.rawValue }
    }

    /// The kind of error.
    public let code: Code
    /// The key of the value that the error concerns, in the form of `LookupResult.encodedKey`; nil if ``code`` is
    /// `startFailed`.
    public let key: String?
    /// A description of the error, in one line.
    public let reason: String
    /// The underlying error of the client library; nil without one, as for `typeMismatch`.
    public let clientError: LarderClientError?

    init(_ code: Code, key: String? = nil, _ reason: String, clientError: LarderClientError? = nil) {
        self.code = code
        self.key = key
        self.reason = reason
        self.clientError = clientError
    }

    /// The same as ``reason``.
    public var description: String { reason }
}
