import LarderConfigModel
import LarderConfigSources
import Logging

/// Logs when a source or the files of a layer become unusable, when the reason changes, and when they are usable again.
/// Consecutive failures with the same reason are logged once.
struct SourceLog: Sendable {
    private enum Condition: Hashable {
        case answering
        case failing(Failure)
    }

    private struct Failure: Hashable {
        let state: Freshness
        /// Whether the agent still serves an earlier document of the source.
        let isServed: Bool
        /// Whether only the connection failed on which the source reports changes. Polls may succeed.
        var lacksChanges = false
        let code: ConfigError.Code
        /// The error message without digits, so that errors that differ only in byte counts or versions count as the
        /// same failure.
        let reason: String
    }

    /// The minimum time between two lines about the same failure, in milliseconds.
    private static let repetition = 600_000
    /// The maximum number of different failures that are logged within ``repetition``.
    private static let maxLines = 8

    private let namespace: String
    private let logger: Logger
    private var logged: Condition?
    /// When each failure of the current outage was last logged, in milliseconds since 1970.
    private var failuresLoggedAt: [Failure: Int] = [:]
    /// The number of consecutive failures in the status that was last passed to ``note(_:now:)``. If the next status
    /// has the same number and it is not 0, no refresh was attempted in between.
    private var comparedFailures = 0
    /// The beginning of the outage, in milliseconds since 1970; nil while the source responds.
    private var failingSince: Int?
    private var fileProblems: [FileLayer: String] = [:]

    init(namespace: String, logger: Logger) {
        self.namespace = namespace
        self.logger = logger
    }

    /// Logs the differences between `status` and the status that was passed to the previous call.
    /// - Parameter now: in milliseconds since 1970
    mutating func note(_ status: NamespaceStatus, now: Int) {
        noteSource(status, now)
        if status.fileProblems != fileProblems { noteFiles(status) }
    }

    private mutating func noteSource(_ status: NamespaceStatus, _ now: Int) {
        // This method is also called after a publication. If no refresh was attempted since the previous call, there is
        // nothing new to log.
        let failures = status.source?.consecutiveFailures ?? 0
        if failures > 0, failures == comparedFailures { return }
        comparedFailures = failures
        guard let source = status.source, let condition = Self.condition(source, status.settled), condition != logged
        else { return }
        var metadata: Logger.Metadata = [
            "namespace": "\(namespace)", "source": "\(source.location)", "state": "\(status.settled.rawValue)",
        ]
        switch condition {
        case .failing(let failure):
            failuresLoggedAt = failuresLoggedAt.filter { now - $0.value < Self.repetition }
            guard failuresLoggedAt[failure] == nil, failuresLoggedAt.count < Self.maxLines else { return }
            failuresLoggedAt[failure] = now
            let error = source.lastError?.error.message ?? ""
            metadata["error"] = "\(error)"
            failingSince = failingSince ?? now
            let problem =
                failure.lacksChanges
                ? "the source does not report changes; polls continue"
                : "no valid document from the source; \(Self.consequence(of: failure))"
            logger.warning("namespace \(namespace): \(problem): \(error)", metadata: metadata)
        case .answering:
            if let failingSince {
                let time = Self.text(seconds: (now - failingSince) / 1000)
                logger.notice("namespace \(namespace): the source works again after \(time)", metadata: metadata)
            } else {
                logger.info("namespace \(namespace): the source works", metadata: metadata)
            }
            failingSince = nil
            failuresLoggedAt = [:]
        }
        logged = condition
    }

    private mutating func noteFiles(_ status: NamespaceStatus) {
        for layer in FileLayer.allCases where status.fileProblems[layer] != fileProblems[layer] {
            let metadata: Logger.Metadata = ["namespace": "\(namespace)", "layer": "\(layer)"]
            guard let problem = status.fileProblems[layer] else {
                logger.notice(
                    "namespace \(namespace): the files of layer \(layer) are readable again", metadata: metadata)
                continue
            }
            logger.warning(
                "namespace \(namespace): cannot read files of layer \(layer); its last good content stays: \(problem)",
                metadata: metadata.merging(["error": "\(problem)"]) { $1 })
        }
        fileProblems = status.fileProblems
    }

    /// The condition of a source; nil before its first response or failure, and while the result of a refresh is not
    /// recorded yet.
    private static func condition(_ source: NamespaceStatus.Source, _ settled: Freshness) -> Condition? {
        if let error = source.lastError?.error {
            let reason = error.message.filter { !$0.isNumber }
            // A rejected document ends the connection, too, but then the document is the problem.
            if settled == .stale, error.code == .upstreamFailed, source.following.failure?.message == error.message {
                return .failing(
                    Failure(state: .stale, isServed: true, lacksChanges: true, code: error.code, reason: reason))
            }
            if source.consecutiveFailures > 0 {
                return .failing(
                    Failure(
                        state: settled == .failed ? .failed : .stale, isServed: source.isHolding, code: error.code,
                        reason: reason))
            }
        }
        // ``NamespaceStatus/follows(_:)`` is called before the result of the refresh is recorded, which may be a failure.
        guard settled == .fresh, source.lastSuccessAt != nil, case .working = source.following else { return nil }
        return .answering
    }

    private static func consequence(of failure: Failure) -> String {
        switch (failure.state, failure.isServed) {
        case (.failed, true): "the last document has expired (staleIfErrorSeconds) and is still served"
        case (.failed, false): "it has not delivered a valid document yet"
        default: "the last good snapshot stays"
        }
    }

    private static func text(seconds: Int) -> String {
        switch max(seconds, 0) {
        case ..<120: "\(max(seconds, 0)) s"
        case ..<7200: "\(seconds / 60) min"
        default: "\(seconds / 3600) h"
        }
    }
}
