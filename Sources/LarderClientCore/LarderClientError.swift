public import LarderProtocol

/// The error type of this library.
///
/// ```swift
/// var limit = 10
/// do {
///     limit = try await client.config.value(at: "search.limit", as: Int.self)
/// } catch {
///     guard error.remoteError?.code == .notFound else { throw error }
///     print("no limit is set")
/// }
/// ```
public struct LarderClientError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. Later versions may add kinds, so a `switch` over it needs a `default`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case unreachable, disconnected, timeout, cancelled, protocolViolation, decodingFailed, remote, closed
            case invalidArgument
        }

        private let kind: Kind

        /// No connection could be made; ``LarderClientError/systemError`` has the cause.
        public static let unreachable = Self(kind: .unreachable)
        /// The connection broke before the reply arrived. The agent may have executed the call.
        public static let disconnected = Self(kind: .disconnected)
        /// The call took longer than its timeout. The agent was asked to cancel it.
        public static let timeout = Self(kind: .timeout)
        /// The task was cancelled. The agent was asked to cancel the call.
        public static let cancelled = Self(kind: .cancelled)
        /// The data from the socket violates the protocol. The connection was closed.
        public static let protocolViolation = Self(kind: .protocolViolation)
        /// The value does not match the requested type, or a snapshot without a value was decoded.
        public static let decodingFailed = Self(kind: .decodingFailed)
        /// The agent returned an error; see ``LarderClientError/remoteError``.
        public static let remote = Self(kind: .remote)
        /// The client was used after it was closed, because its `withConnection` or `run()` had ended.
        public static let closed = Self(kind: .closed)
        /// A path is malformed, or a value or file cannot be sent.
        public static let invalidArgument = Self(kind: .invalidArgument)

        /// The name of the kind.
        public var description: String { kind.rawValue }
    }

    /// The kind of error.
    public let code: Code
    /// A description of the error, in one line.
    public let reason: String
    /// Advice on how to resolve the error, in one line; nil without advice.
    public let advice: String?
    /// The agent's error if ``code`` is `remote`, else nil.
    public let remoteError: WireError?
    /// The `errno` of connect(2) if ``code`` is `unreachable`. Nil for other codes, and if the connection failed for a
    /// reason other than a system error.
    public let systemError: Int32?
    /// The number of models that `Repository.importAll` had saved before the error. Nil for other operations.
    public let savedCount: Int?

    /// Creates an error from its properties, for example for tests.
    public init(
        _ code: Code, _ reason: String, advice: String? = nil, remoteError: WireError? = nil,
        systemError: Int32? = nil, savedCount: Int? = nil
    ) {
        self.code = code
        self.reason = reason
        self.advice = advice
        self.remoteError = remoteError
        self.systemError = systemError
        self.savedCount = savedCount
    }

    /// Creates an error of the kind `remote` from an error of the agent, for example for tests.
    /// - Parameter error: the error of the agent.
    public init(remote error: WireError) {
        self.init(.remote, error.description, remoteError: error)
    }

    /// Whether the same call may succeed later, with the same arguments and without a change of the settings.
    public var isRetryable: Bool {
        switch code {
        case .unreachable, .disconnected, .timeout: true
        case .remote: remoteError?.code.isRetryable ?? false
        default: false
        }
    }

    /// The reason of the error and, if there is one, the advice, in one line.
    public var description: String {
        advice.map { "\(reason); \($0)" } ?? reason
    }
}
