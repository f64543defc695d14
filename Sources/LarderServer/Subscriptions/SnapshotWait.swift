import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore

/// A request that is answered once a condition holds in the current snapshot. The ``SnapshotChannel`` of the event loop
/// checks the condition only when a snapshot is published, so a pending wait takes no processor time between
/// publications.
final class SnapshotWait {
    let publication: ConfigPublication
    let timeout: TimeAmount?
    private let path: JSONPath
    private let condition: Condition
    /// Called with the result or an error when the wait ends; nil afterwards.
    private var onEnd: ((Result<ConfigWait.Result, WireError>) -> Void)?

    private enum Condition {
        // Values are kept as text. Parsed, they can take nine times the memory, and would retain the whole request.
        case equals(JSONText)
        case notEquals(JSONText)
        case exists(Bool)
        case revisionAtLeast(Int, epoch: String?)
    }

    init(_ parameters: ConfigWait.Parameters, _ publication: ConfigPublication) {
        self.publication = publication
        timeout = parameters.timeoutMilliseconds.map { .milliseconds(Int64($0)) }
        path = parameters.path
        condition =
            switch parameters.condition {
            case .equals(let value): .equals(JSONText(value))
            case .notEquals(let value): .notEquals(JSONText(value))
            case .exists(let isWanted): .exists(isWanted)
            case .revisionAtLeast(let revision, let epoch): .revisionAtLeast(revision, epoch: epoch)
            }
    }

    /// The memory of the path and of the condition in bytes.
    var retainedBytes: Int {
        let bytes =
            switch condition {
            case .equals(let value), .notEquals(let value): value.count
            case .exists: 0
            case .revisionAtLeast(_, let epoch): epoch?.utf8.count ?? 0
            }
        return path.byteCount + bytes
    }

    /// The result if the condition holds, otherwise nil. No condition holds before the first snapshot.
    func result(in current: ConfigPublication.Current) -> ConfigWait.Result? {
        guard current.snapshot.revision > 0 else { return nil }
        let value = current.snapshot.value.value(at: path)
        guard isMet(by: value, current.snapshot.revision) else { return nil }
        return ConfigWait.Result(
            value: value, revision: current.snapshot.revision, epoch: publication.epoch,
            state: ConfigState(current.freshness))
    }

    private func isMet(by value: JSONValue?, _ revision: Int) -> Bool {
        switch condition {
        case .equals(let wanted): value.map { wanted.isEqual(to: $0) } ?? false
        case .notEquals(let unwanted): !(value.map { unwanted.isEqual(to: $0) } ?? false)
        case .exists(let isWanted): (value != nil) == isWanted
        // A revision of another epoch can never be reached. The condition then holds at once, so that the wait ends.
        case .revisionAtLeast(let wanted, let epoch):
            revision >= wanted || epoch ?? publication.epoch != publication.epoch
        }
    }

    /// Starts to wait.
    /// - Parameter onEnd: called once, with the result or an error
    func begin(onEnd: @escaping (Result<ConfigWait.Result, WireError>) -> Void) { self.onEnd = onEnd }

    /// Ends the wait if the condition holds.
    func evaluate(at current: ConfigPublication.Current) {
        if onEnd != nil, let result = result(in: current) { end(.success(result)) }
    }

    /// Ends the wait with an error.
    func fail(_ reason: WireError) { end(.failure(reason)) }

    private func end(_ result: Result<ConfigWait.Result, WireError>) {
        guard let onEnd else { return }
        self.onEnd = nil
        onEnd(result)
    }

    /// The error for a wait whose timeout has passed.
    var timedOut: WireError {
        let milliseconds = (timeout?.nanoseconds ?? 0) / 1_000_000
        return WireError(
            .timeout,
            "\"\(path.description.excerpt)\" in namespace \"\(publication.namespace)\" did not meet the condition "
                + "within \(milliseconds) ms; check the path and its value, or allow a longer timeout")
    }
}

extension WireError {
    /// The error for a request whose namespace was removed from the settings while the request waited.
    static var namespaceRemoved: WireError {
        WireError(.unknownNamespace, "the namespace was removed from the settings while the request waited")
    }
}
