import LarderConfigModel
import LarderPlatform

/// Changes that are committed together, and the callers that wait for them.
struct PendingCommit {
    let batch: ChangeBatch
    private let accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)]
    /// The changes whose condition did not hold. Earlier changes of the batch may be the reason. The changes with a
    /// conflict are therefore completed after the commit, so that their callers then read the value that caused the
    /// conflict.
    private let conflicts: [(pending: ChangeQueue.Pending, error: ConfigError)]

    /// Applies changes to a batch. Refused changes are completed with their error.
    init(_ changes: [ChangeQueue.Pending], to batch: consuming ChangeBatch) {
        var accepted: [(pending: ChangeQueue.Pending, result: ChangeBatch.Result)] = []
        accepted.reserveCapacity(changes.count)
        var conflicts: [(pending: ChangeQueue.Pending, error: ConfigError)] = []
        for pending in changes {
            do {
                accepted.append((pending, try batch.apply(pending.change)))
            } catch {
                if error.code == .conflict {
                    conflicts.append((pending, error))
                } else {
                    pending.completion(.failure(error))
                }
            }
        }
        batch.finish()
        self.batch = batch
        self.accepted = accepted
        self.conflicts = conflicts
    }

    /// Whether a client requested one of the changes.
    var comesFromClient: Bool { accepted.contains { $0.pending.change.comesFromClient } }

    /// Updates the status with the results of changes to the remote layer and the file layers.
    func note(in status: inout SharedStatus, _ wallClock: WallClock) {
        for (pending, result) in accepted {
            switch pending.change.unconditional {
            case .remote(_, _, _, isPush: true): status.change { $0.remotePushed(now: wallClock.now) }
            case .remote:
                status.change { $0.remoteAnswered(changed: result.layerChanged, now: wallClock.now) }
            case .files(let layer, _):
                status.change { $0.filesRead(layer, problem: nil, now: wallClock.now) }
            case .set, .unset, .expireOverrides, .rules, .dropRemote, .rollback, .release, .increment, .several,
                .requested:
                break
            }
        }
    }

    /// Completes the changes with an error.
    func refuse(_ error: ConfigError) {
        for (pending, _) in accepted { pending.completion(.failure(error)) }
        // The conditions of these changes were compared with the result of the batch, which does not take effect.
        for (pending, _) in conflicts { pending.completion(.failure(error)) }
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
        for (pending, error) in conflicts { pending.completion(.failure(error)) }
    }
}
