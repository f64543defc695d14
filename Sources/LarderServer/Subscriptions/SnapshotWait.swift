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
    private let condition: ConfigWait.Condition
    /// Called with the result or an error when the wait ends; nil afterwards.
    private var onEnd: ((Result<ConfigWait.Result, WireError>) -> Void)?

    init(_ parameters: ConfigWait.Parameters, _ publication: ConfigPublication) {
        self.publication = publication
        timeout = parameters.timeoutMilliseconds.map { .milliseconds(Int64($0)) }
        path = parameters.path
        // The value is detached from the request, because it would otherwise keep the whole request in memory.
        condition =
            switch parameters.condition {
            case .equals(let value): .equals(value.detached())
            case .notEquals(let value): .notEquals(value.detached())
            case .exists, .revisionAtLeast: parameters.condition
            }
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
        case .equals(let wanted): value == wanted
        case .notEquals(let unwanted): value != unwanted
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
                + "within \(milliseconds) ms")
    }
}

extension WireError {
    /// The error for a request whose namespace was removed from the settings while the request waited.
    static var namespaceRemoved: WireError {
        WireError(.unknownNamespace, "the namespace was removed from the settings while the request waited")
    }
}
