import LarderConfigModel
import LarderPlatform

/// Changes that are committed together, and the callers that wait for them. Its initializer completes no change: if the
/// schema refuses the batch, its changes may be applied again in other batches.
struct PendingCommit {
    let batch: ChangeBatch
    private let accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)]
    /// The changes that were refused. They are completed after the commit, so that the caller of a change with a
    /// conflict then reads the value that caused it: earlier changes of the batch may have set that value.
    private let failed: [(pending: ChangeQueue.Pending, error: ConfigError)]

    /// Applies changes to a batch.
    init(_ changes: [ChangeQueue.Pending], to batch: consuming ChangeBatch) {
        var accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)] = []
        accepted.reserveCapacity(changes.count)
        var failed: [(pending: ChangeQueue.Pending, error: ConfigError)] = []
        for pending in changes {
            do {
                accepted.append((pending, try batch.apply(pending.change)))
            } catch {
                failed.append((pending, error))
            }
        }
        batch.finish()
        self.batch = batch
        self.accepted = accepted
        self.failed = failed
    }

    /// Whether a client requested one of the changes.
    var comesFromClient: Bool { accepted.contains { $0.pending.change.comesFromClient } }

    /// Updates the status with the results of changes to the remote layer and the file layers. A change that is tried
    /// again says nothing about the current state of the source or the files.
    func note(in status: inout SharedStatus, _ wallClock: WallClock) {
        for (pending, result) in accepted where !pending.isRetry {
            switch pending.change.unconditional {
            case .remote(_, _, _, isPush: true): status.change { $0.remotePushed(now: wallClock.now) }
            case .remote:
                status.change { $0.remoteAnswered(changed: result.layerChanged, now: wallClock.now) }
            case .files(let layer, _):
                status.change { $0.filesRead(layer, problem: nil, now: wallClock.now) }
            case .set, .unset, .expireOverrides, .rules, .dropRemote, .rollback, .release, .increment, .several,
                .recheck, .requested:
                break
            }
        }
    }

    /// Completes the changes with an error.
    func refuse(_ error: ConfigError) {
        for (pending, _) in accepted { pending.completion(.failure(error)) }
        // The conditions of changes were compared with the result of the batch, which does not take effect.
        for (pending, failure) in failed { pending.completion(.failure(failure.code == .conflict ? error : failure)) }
    }

    /// Completes the changes.
    /// - Parameters:
    ///   - revision: the current revision, which contains the changes
    ///   - isNew: whether the revision was published for these changes
    func complete(revision: Int, isNew: Bool) {
        for (pending, result) in accepted {
            let outcome = CommitOutcome(
                revision: revision, changed: isNew && result.layerChanged, layerChanged: result.layerChanged,
                hold: result.hold, lifetime: result.lifetime, number: result.number)
            pending.completion(.success(outcome))
        }
        for (pending, error) in failed { pending.completion(.failure(error)) }
    }

    /// The changes that must not be tried again: those that were accepted, and those that failed for a reason other
    /// than the schema when they were tried again.
    var settledChanges: [LayerChange] {
        accepted.map(\.pending.change) + failed.filter { $0.pending.isRetry }.map(\.pending.change)
    }
}
