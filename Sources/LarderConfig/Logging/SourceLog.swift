import LarderConfigModel
import Logging

/// Writes one line each time that a source, or the files of a layer, become unusable or usable again, and when the reason
/// becomes another; not for each attempt in between.
struct SourceLog: Sendable {
    private enum Condition: Hashable {
        case answering
        case failing(Failure)
    }

    private struct Failure: Hashable {
        let state: Freshness
        /// Whether an earlier document of the source is served.
        let isServed: Bool
        let code: ConfigError.Code
        /// The message without its numbers, which may be others at each attempt: bytes received, versions.
        let reason: String
    }

    /// A source that fails for several reasons in turn gets a line for each of them once in this time, in milliseconds.
    private static let repetition = 600_000
    /// The maximum number of lines about failures in that time.
    private static let maximumLines = 8

    private let namespace: String
    private let logger: Logger
    private var told: Condition?
    /// When the failures of this outage were logged, in milliseconds since 1970.
    private var failuresToldAt: [Failure: Int] = [:]
    /// The number of failures in a row when a status was compared last.
    private var comparedFailures = 0
    /// Since when it fails, in milliseconds since 1970.
    private var failingSince: Int?
    private var fileProblems: [FileLayer: String] = [:]

    init(namespace: String, logger: Logger) {
        self.namespace = namespace
        self.logger = logger
    }

    /// Compares a status with the last one that was logged.
    /// - Parameter now: in milliseconds since 1970
    mutating func note(_ status: NamespaceStatus, now: Int) {
        noteSource(status, now)
        if status.fileProblems != fileProblems { noteFiles(status) }
    }

    private mutating func noteSource(_ status: NamespaceStatus, _ now: Int) {
        // The status is compared at each publication, too.
        if status.consecutiveFailures > 0, status.consecutiveFailures == comparedFailures { return }
        comparedFailures = status.consecutiveFailures
        guard let source = status.source, let condition = Self.condition(status), condition != told else { return }
        var metadata: Logger.Metadata = [
            "namespace": "\(namespace)", "source": "\(source.location)", "state": "\(status.settled.rawValue)",
        ]
        switch condition {
        case .failing(let failure):
            failuresToldAt = failuresToldAt.filter { now - $0.value < Self.repetition }
            guard failuresToldAt[failure] == nil, failuresToldAt.count < Self.maximumLines else { return }
            failuresToldAt[failure] = now
            let error = status.lastError?.error.message ?? ""
            metadata["error"] = "\(error)"
            failingSince = failingSince ?? now
            logger.warning(
                "namespace \(namespace): the source gave no usable answer; \(Self.consequence(of: failure)): \(error)",
                metadata: metadata)
        case .answering:
            if let failingSince {
                let time = Self.text(seconds: (now - failingSince) / 1000)
                logger.notice("namespace \(namespace): the source answers again, after \(time)", metadata: metadata)
            } else {
                logger.info("namespace \(namespace): the source answers", metadata: metadata)
            }
            failingSince = nil
            failuresToldAt = [:]
        }
        told = condition
    }

    private mutating func noteFiles(_ status: NamespaceStatus) {
        for layer in FileLayer.allCases where status.fileProblems[layer] != fileProblems[layer] {
            let metadata: Logger.Metadata = ["namespace": "\(namespace)", "layer": "\(layer)"]
            guard let problem = status.fileProblems[layer] else {
                logger.notice(
                    "namespace \(namespace): the files of layer \(layer) can be read again", metadata: metadata)
                continue
            }
            logger.warning(
                "namespace \(namespace): files of layer \(layer) cannot be read; its last good content stays: \(problem)",
                metadata: metadata.merging(["error": "\(problem)"]) { $1 })
        }
        fileProblems = status.fileProblems
    }

    /// The condition of a source; nil before its first answer or failure.
    private static func condition(_ status: NamespaceStatus) -> Condition? {
        if status.consecutiveFailures > 0, let problem = status.lastError {
            return .failing(
                Failure(
                    state: status.settled == .failed ? .failed : .stale, isServed: status.isHolding,
                    code: problem.error.code, reason: problem.error.message.filter { !$0.isNumber }))
        }
        return status.lastSuccessAt != nil ? .answering : nil
    }

    private static func consequence(of failure: Failure) -> String {
        switch (failure.state, failure.isServed) {
        case (.failed, true): "the last document has expired (staleIfErrorSeconds) and is still served"
        case (.failed, false): "it has never given a document that could be served"
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
