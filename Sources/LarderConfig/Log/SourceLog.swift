import Logging

/// Writes one line each time that a source, or the files of a layer, become unusable or usable again; not for each
/// attempt in between.
struct SourceLog: Sendable {
    private enum Condition: Equatable {
        case answering
        case failing(Freshness, ConfigError.Code)
    }

    private let namespace: String
    private let logger: Logger
    private var told: Condition?
    /// Since when it fails, in milliseconds since 1970.
    private var failingSince: Int?
    private var fileProblems: [FileLayer: String] = [:]

    init(namespace: String, logger: Logger) {
        self.namespace = namespace
        self.logger = logger
    }

    /// Compares a status with what was told last.
    /// - Parameter now: in milliseconds since 1970
    mutating func note(_ status: NamespaceStatus, now: Int) {
        noteSource(status, now)
        if status.fileProblems != fileProblems { noteFiles(status) }
    }

    private mutating func noteSource(_ status: NamespaceStatus, _ now: Int) {
        guard let source = status.source, let condition = Self.condition(status), condition != told else { return }
        var metadata: Logger.Metadata = [
            "namespace": "\(namespace)", "source": "\(source.location)", "state": "\(status.settled.rawValue)",
        ]
        switch condition {
        case .failing:
            let error = status.lastError?.error.message ?? ""
            metadata["error"] = "\(error)"
            failingSince = failingSince ?? now
            let rest =
                switch status.settled {
                case .stale: "the last good snapshot stays"
                default: "there is none that could be served for it"
                }
            logger.warning(
                "namespace \(namespace): the source gave no usable answer; \(rest): \(error)", metadata: metadata)
        case .answering:
            if let failingSince {
                let time = Self.text(seconds: (now - failingSince) / 1000)
                logger.notice("namespace \(namespace): the source answers again, after \(time)", metadata: metadata)
            } else {
                logger.info("namespace \(namespace): the source answers", metadata: metadata)
            }
            failingSince = nil
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

    /// What there is to be told of a source; nil as long as it has said nothing.
    private static func condition(_ status: NamespaceStatus) -> Condition? {
        if status.consecutiveFailures > 0, let problem = status.lastError {
            return .failing(status.settled == .failed ? .failed : .stale, problem.error.code)
        }
        return status.lastSuccessAt != nil ? .answering : nil
    }

    private static func text(seconds: Int) -> String {
        switch max(seconds, 0) {
        case ..<120: "\(max(seconds, 0)) s"
        case ..<7200: "\(seconds / 60) min"
        default: "\(seconds / 3600) h"
        }
    }
}
