public import LarderProtocol

/// What every operation of this library throws.
///
/// ```swift
/// do {
///     limit = try await client.config.value(at: "search.limit", as: Int.self)
/// } catch let error as LarderClientError where error.remoteError?.code == .notFound {
///     limit = 10
/// }
/// ```
public struct LarderClientError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of failure. Newer versions may add kinds, so a `switch` over it needs a `default`.
    public struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case unreachable, disconnected, timeout, cancelled, protocolViolation, decodingFailed, remote, closed
            case invalidArgument
        }

        private let kind: Kind

        /// No connection could be made; ``LarderClientError/systemError`` says why.
        public static let unreachable = Self(kind: .unreachable)
        /// The connection broke while the call waited; whether the agent carried it out is not known.
        public static let disconnected = Self(kind: .disconnected)
        /// The call's time was over; the agent was asked to stop working on it.
        public static let timeout = Self(kind: .timeout)
        /// The task was cancelled; the agent was asked to stop working on the call.
        public static let cancelled = Self(kind: .cancelled)
        /// What came from the socket is not the protocol; the connection was closed.
        public static let protocolViolation = Self(kind: .protocolViolation)
        /// The value is there, but it is not of the type that was asked for.
        public static let decodingFailed = Self(kind: .decodingFailed)
        /// The agent answered with an error, which is ``LarderClientError/remoteError``.
        public static let remote = Self(kind: .remote)
        /// The client was used after its scope or its `run()` had ended.
        public static let closed = Self(kind: .closed)
        /// A path or value is not one that can be sent.
        public static let invalidArgument = Self(kind: .invalidArgument)

        /// The kind's name.
        public var description: String { kind.rawValue }
    }

    /// The kind of failure.
    public let code: Code
    /// What happened, in one line.
    public let reason: String
    /// What to do next, in one line; nil where the reason says it or nothing can be done.
    public let advice: String?
    /// The agent's own error where ``code`` is `remote`.
    public let remoteError: WireError?
    /// The `errno` of connect(2) where ``code`` is `unreachable`.
    public let systemError: Int32?

    init(
        _ code: Code, _ reason: String, advice: String? = nil, remoteError: WireError? = nil, systemError: Int32? = nil
    ) {
        self.code = code
        self.reason = reason
        self.advice = advice
        self.remoteError = remoteError
        self.systemError = systemError
    }

    /// Makes the error for what the agent answered; also for tests of programs that handle it.
    public init(remote error: WireError) {
        self.init(.remote, error.description, remoteError: error)
    }

    /// Whether the same operation may succeed later without any change.
    public var isRetryable: Bool {
        switch code {
        case .unreachable, .disconnected, .timeout: true
        case .remote: remoteError?.code.isRetryable ?? false
        default: false
        }
    }

    /// The reason and the advice in one line.
    public var description: String {
        advice.map { "\(reason); \($0)" } ?? reason
    }
}
