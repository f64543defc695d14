import LarderConfigModel
import LarderJSON
import LarderConfig
import LarderProtocol
import NIOCore

/// A request that is answered when a condition holds in the current snapshot. The channel of its event loop checks it when a
/// snapshot is published; until then it costs nothing.
final class SnapshotWait {
    let publication: ConfigPublication
    let timeout: TimeAmount?
    private let path: JSONPath
    private let condition: ConfigWait.Condition
    /// Answers it; nil after that.
    private var onEnd: ((Result<ConfigWait.Result, WireError>) -> Void)?

    init(_ parameters: ConfigWait.Parameters, _ publication: ConfigPublication) {
        self.publication = publication
        timeout = parameters.timeoutMilliseconds.map { .milliseconds(Int64($0)) }
        path = parameters.path
        // A value would keep the whole request in memory.
        condition =
            switch parameters.condition {
            case .equals(let value): .equals(value.detached())
            case .notEquals(let value): .notEquals(value.detached())
            case .exists, .revisionAtLeast: parameters.condition
            }
    }

    /// The result if the condition holds, otherwise nil. Before there is a snapshot no condition holds.
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
        // A revision of another epoch will never come.
        case .revisionAtLeast(let wanted, let epoch):
            revision >= wanted || epoch ?? publication.epoch != publication.epoch
        }
    }

    /// Begins to wait.
    /// - Parameter onEnd: called once
    func begin(onEnd: @escaping (Result<ConfigWait.Result, WireError>) -> Void) { self.onEnd = onEnd }

    /// Ends the wait if the condition holds now.
    func look(at current: ConfigPublication.Current) {
        if onEnd != nil, let result = result(in: current) { end(.success(result)) }
    }

    /// Ends the wait although the condition does not hold.
    func giveUp(_ reason: WireError) { end(.failure(reason)) }

    private func end(_ result: Result<ConfigWait.Result, WireError>) {
        guard let onEnd else { return }
        self.onEnd = nil
        onEnd(result)
    }

    /// The error after the timeout.
    var timedOut: WireError {
        let milliseconds = (timeout?.nanoseconds ?? 0) / 1_000_000
        return WireError(
            .timeout,
            "what was waited for at \"\(path)\" of namespace \"\(publication.namespace)\" did not come about within "
                + "\(milliseconds) ms")
    }
}

extension WireError {
    /// The error of a request whose namespace is removed from the settings while it waits.
    static var namespaceRemoved: WireError {
        WireError(.unknownNamespace, "the namespace was removed from the settings while the request waited")
    }
}
