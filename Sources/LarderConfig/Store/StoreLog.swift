import LarderConfigModel
import LarderConfigStorage
import LarderPlatform
import Logging

/// The log lines of one store. It is a class, so that calls do not copy its state.
final class StoreLog {
    private let namespace: String
    private let logger: Logger
    private let publications: PublicationLog
    private var sources: SourceLog
    /// The value of ``PublishedStatus/changes`` at the last comparison; nil before the first.
    private var compared: Int?
    private let storageProblems: RateLimitedLog<String, FileError>

    init(namespace: String, clock: any Clock<Duration>, logger: Logger) {
        self.namespace = namespace
        self.logger = logger
        publications = PublicationLog(namespace: namespace, logger: logger, clock: clock)
        sources = SourceLog(namespace: namespace, logger: logger)
        storageProblems = RateLimitedLog(every: .seconds(60), clock: clock) { _, error, count in
            logger.error(
                "namespace \(namespace): cannot write a change to disk; it was refused: \(error)",
                metadata: ["namespace": "\(namespace)", "error": "\(error)", "before": "\(count - 1)"])
        }
    }

    func published(_ snapshot: ConfigSnapshot, _ causes: [ChangeCause]) {
        guard publications.isWanted else { return }
        publications.add(
            PublicationLog.Entry(
                revision: snapshot.revision, digest: snapshot.contentDigest, bytes: snapshot.bytes, causes: causes))
    }

    /// Writes the pending line of ``PublicationLog`` now, if there is one. That line stands for the revisions above its
    /// rate limit.
    func flush() { publications.flush() }

    /// Logs the differences between a status and the one of the previous call.
    func note(_ status: PublishedStatus, now: Int) {
        if compared == status.changes { return }
        compared = status.changes
        sources.note(status.current, now: now)
    }

    func storageFailed(_ error: FileError) { storageProblems.add("\(error.operation) \(error.errno)") { $0 = error } }

    func storageWorked() { storageProblems.reset() }

    func experimentsLeftOut(_ problem: String) {
        logger.warning(
            "namespace \(namespace): the experiments of the remote document are invalid and ignored; correct the document, or the setting experiments.member: \(problem)",
            metadata: ["namespace": "\(namespace)", "error": "\(problem)"])
    }

    /// Logs a change that the schema has refused, and that no client requested.
    func refusedBySchema(_ refused: RefusedChange) {
        let what =
            refused.subject.layer.map { "new content of the layer \($0)" } ?? "the new settings of locks or experiments"
        logger.warning(
            "namespace \(namespace): the schema rejects \(what); the previous content stays in use: \(Self.list(refused.problems))",
            metadata: ["namespace": "\(namespace)", "version": "\(refused.version ?? "none")"])
    }

    func violatesSchema(_ problems: [SchemaProblem]) {
        logger.warning(
            "namespace \(namespace): the published configuration violates the schema: \(Self.list(problems))",
            metadata: ["namespace": "\(namespace)"])
    }

    /// Logs that the schema file cannot be used.
    /// - Parameter previous: the path of the schema in force; nil for none
    func schemaUnusable(_ problem: String, previous: String?) {
        let effect =
            previous.map { "; the schema that was last read from \($0) stays in force" } ?? ", so nothing is validated"
        logger.error(
            "namespace \(namespace): cannot use the schema\(effect): \(problem)",
            metadata: ["namespace": "\(namespace)"])
    }

    private static func list(_ problems: [SchemaProblem]) -> String {
        let shown = problems.prefix(3).map(\.text).joined(separator: "; ")
        return problems.count > 3 ? "\(shown); \(problems.count - 3) more" : shown
    }

    func failed(_ message: String, _ error: any Error, level: Logger.Level = .error) {
        logger.log(
            level: level, "namespace \(namespace): \(message): \(error)",
            metadata: ["namespace": "\(namespace)", "error": "\(error)"])
    }
}
