import LarderConfigModel
import LarderConfigStorage
import LarderJSON
import LarderPlatform
import Logging

/// Commits the changes of one namespace in batches, and owns the state that commits change: layers, current snapshot,
/// history, schema, expiry times and status.
///
/// It belongs to ``ConfigStore`` and runs on its actor. The store calls ``commit(_:)`` again only after the previous
/// call has returned. Other methods may be called during its suspensions.
final class Committer {
    let core: CommitCore
    var expiry: OverrideExpiry
    var limits: StoreLimits
    /// Finds the file and line of a violation of the schema; nil if that is not possible.
    var locator: ViolationLocator?
    private(set) var gate: SchemaGate
    private(set) var status: SharedStatus
    private let publication: ConfigPublication
    private let storage: NamespaceStorage
    private let clocks: StoreClocks
    private let log: StoreLog
    /// The schema to use from the next batch on; nil if it stays.
    private var nextSchema: NamespaceSchema??
    /// Whether a refused change may be valid now: the layers or the schema have changed since it was refused.
    private var mayAcceptRefused = false
    /// The last published violations, as found and with their lines.
    private var lastLocated: (found: [SchemaProblem], located: [SchemaProblem]) = ([], [])

    init(
        _ opening: StoreOpening, publication: ConfigPublication, status: SharedStatus, storage: NamespaceStorage,
        limits: StoreLimits, clocks: StoreClocks, log: StoreLog, locator: ViolationLocator?
    ) {
        core = CommitCore(
            layers: opening.layers, snapshot: opening.snapshot, history: opening.history, numbering: opening.numbering,
            epoch: opening.epoch)
        expiry = OverrideExpiry(opening.layers.override, clocks)
        gate = opening.gate
        mayAcceptRefused = !opening.gate.refused.isEmpty
        self.publication = publication
        self.status = status
        self.storage = storage
        self.limits = limits
        self.clocks = clocks
        self.log = log
        self.locator = locator
    }

    /// The maximum number of changes in a batch.
    var maxChanges: Int { limits.maxChanges(isExpensive: core.isExpensive) }

    /// Commits changes, and calls their completions. Then tries the changes again that the schema has refused before.
    func commit(_ pending: [ChangeQueue.Pending]) async {
        if let schema = nextSchema.take() { await install(schema) }
        await commitOnce(pending)
        while mayAcceptRefused {
            mayAcceptRefused = false
            // An accepted change sets `mayAcceptRefused`, and the loop then begins again with the lowest layer.
            for refused in gate.inLayerOrder where !mayAcceptRefused && gate.contains(refused) {
                await commitOnce([ChangeQueue.Pending(retrying: refused.change)])
            }
        }
    }

    /// Commits changes as one batch, except for those that the schema refuses.
    private func commitOnce(_ pending: [ChangeQueue.Pending]) async {
        var refused: [(ChangeQueue.Pending, [SchemaProblem])] = []
        var accepted = pending
        if pending.count > 1, gate.schema?.refuses ?? false { (accepted, refused) = await validated(pending) }
        let problems = accepted.isEmpty ? [] : await attempt(accepted, areValidated: accepted.count > 1)
        if !problems.isEmpty { refused += accepted.map { ($0, problems) } }
        for (change, problems) in refused where !(await commitFirst(change)) { await refuse(change, problems) }
    }

    /// Before the first publication no layer has valid content to keep, and the layers may be valid only together. This
    /// method therefore commits a change that is invalid alone together with all refused changes.
    /// - Returns: false if nothing was changed
    private func commitFirst(_ change: ChangeQueue.Pending) async -> Bool {
        let others = companions(of: change.change)
        return others.isEmpty
            ? false : await attempt(others.map(ChangeQueue.Pending.init(retrying:)) + [change]).isEmpty
    }

    /// The refused changes with which a change can make the first publication; empty after the first publication.
    func companions(of change: LayerChange) -> [LayerChange] {
        core.snapshot.revision == 0 ? gate.others(than: change) : []
    }

    /// Validates changes one after another, so that whether a change is valid does not depend on later changes of the
    /// batch.
    /// - Returns: the changes of which each leaves the configuration valid, and the others with their violations
    private func validated(
        _ pending: [ChangeQueue.Pending]
    ) async -> ([ChangeQueue.Pending], [(ChangeQueue.Pending, [SchemaProblem])]) {
        let now = clocks.wallClock.now
        var batch = core.batch(limits: limits.documents, now: now, recordsOperations: false)
        var accepted: [ChangeQueue.Pending] = []
        var refused: [(ChangeQueue.Pending, [SchemaProblem])] = []
        for change in pending {
            var next = batch
            // A change that cannot be applied fails with the same error in the commit.
            if let result = try? next.apply(change.change), result.layerChanged {
                let snapshot = await resolve(next, now: now).snapshot
                var problems = snapshot === core.snapshot ? [] : await violations(of: snapshot, after: next)
                if problems.isEmpty, !change.change.concernsOnlyOverrides {
                    problems = await hiddenViolations(in: next.layers, previous: batch.layers)
                }
                if !problems.isEmpty {
                    refused.append((change, problems))
                    continue
                }
                batch = next
            }
            accepted.append(change)
        }
        return (accepted, refused)
    }

    /// Commits changes as one batch.
    /// - Parameter areValidated: whether ``validated(_:)`` has returned the changes
    /// - Returns: the violations of the schema because of which nothing was changed and no change was completed; empty
    ///   if all changes were completed
    private func attempt(_ pending: [ChangeQueue.Pending], areValidated: Bool = false) async -> [SchemaProblem] {
        let now = clocks.wallClock.now
        let commit = PendingCommit(
            pending,
            to: core.batch(limits: limits.documents, now: now, recordsOperations: limits.durability == .full))
        var resolution = await resolve(commit.batch, now: now)
        var problems: [SchemaProblem] = []
        if gate.schema != nil, resolution.snapshot !== core.snapshot {
            problems = await violations(of: resolution.snapshot, after: commit.batch)
            if !problems.isEmpty, gate.schema?.refuses ?? false {
                if commit.batch.hasChanged { return problems }
                // Nothing has been published yet, and the layers are still invalid.
                let found = await located(problems, isFromFile: true)
                status.change { $0.schema.problems = found }
                (resolution, problems) = (core.unchanged, [])
            } else if !problems.isEmpty {
                problems = await located(problems, isFromFile: !commit.comesFromClient)
            }
        }
        if !areValidated, commit.batch.hasChanged, pending.contains(where: { !$0.change.concernsOnlyOverrides }) {
            let hidden = await hiddenViolations(in: commit.batch.layers, previous: core.layers)
            if !hidden.isEmpty { return hidden }
        }
        let causes = resolution.snapshot === core.snapshot ? [] : commit.batch.causes
        let need = core.need(for: resolution, of: commit.batch, writesJournal: commit.comesFromClient)
        if need != .nothing, await !meet(need, of: commit, resolution, causes) { return [] }
        finish(commit, resolution, causes, met: need, problems, now: now)
        return []
    }

    private func resolve(_ batch: ChangeBatch, now: Int) async -> Resolution {
        let mayPublishEmpty = !status.hasRemote
        return if core.isExpensive {
            await core.resolveConcurrently(batch, mayPublishEmpty: mayPublishEmpty, now: now)
        } else {
            core.resolve(batch, mayPublishEmpty: mayPublishEmpty, now: now)
        }
    }

    /// Makes the disk write that must precede the publication of the snapshot. If it fails, the changes are refused.
    /// - Returns: whether the write succeeded
    private func meet(
        _ need: CommitNeed, of commit: PendingCommit, _ resolution: Resolution, _ causes: [ChangeCause]
    ) async -> Bool {
        do throws(FileError) {
            switch need {
            case .nothing: break
            case .journal(let sequence, let settledBound):
                let (snapshot, digest, operations) = (resolution.snapshot, resolution.digest, commit.batch.operations)
                try await storage.append(after: core.currentGeneration) {
                    JournalRecord(
                        sequence: sequence, revision: snapshot.revision, digest: digest.text,
                        publishedAt: snapshot.publishedAt, released: settledBound, operations: operations,
                        causes: causes)
                }
            case .reservation(let bound): try await storage.reserve(bound)
            }
            return true
        } catch {
            log.storageFailed(error)
            let refusal = ConfigError(
                .storageFailed, "\(error); nothing was changed; free space or repair the disk, then retry")
            report { $0.storageFailed(.commit, refusal, now: $1) }
            commit.refuse(refusal)
            // The status has the error until a write succeeds, and there may be no other change for a long time.
            storage.writer.confirm(with: core.currentGeneration)
            return false
        }
    }

    /// Publishes a commit whose ``CommitNeed`` is on disk, without suspension. Subscribers receive the status with the
    /// snapshot.
    private func finish(
        _ commit: PendingCommit, _ resolution: Resolution, _ causes: [ChangeCause], met need: CommitNeed,
        _ problems: [SchemaProblem], now: Int
    ) {
        if commit.batch.hasChanged, status.current.hasStorageProblem(.commit) {
            status.change { $0.storageWorked(.commit) }
            log.storageWorked()
        }
        commit.note(in: &status, clocks.wallClock)
        if gate.schema != nil || !gate.refused.isEmpty {
            noteSchema(commit, problems, isNew: resolution.snapshot !== core.snapshot)
        }
        let effects = core.commit(commit.batch, resolution, causes: causes, met: need)
        if let problem = effects.experimentProblem { log.experimentsLeftOut(problem) }
        if effects.isNew {
            status.publishes += 1
            publication.publish(core.snapshot, status: StatusRecord(status, holding: core.layers))
            log.published(core.snapshot, causes)
        } else {
            publication.update(StatusRecord(status, holding: core.layers))
        }
        log.note(status, now: now)
        commit.complete(revision: core.snapshot.revision, isNew: effects.isNew)
        guard commit.batch.hasChanged else { return }
        storage.writer.note(core.currentGeneration)
        expiry.note(commit.batch, in: core.layers.override)
    }

    /// Reports whether generations can be written in the background. If so, changes can be written, too.
    func noteWriteProblem() {
        guard let problem = storage.writer.problem else {
            if status.current.hasStorageProblem(.commit) { log.storageWorked() }
            return report { status, _ in
                status.storageWorked(.generations)
                status.storageWorked(.commit)
            }
        }
        let error = ConfigError(
            .storageFailed,
            "\(problem); a restart could lose changes since the last saved snapshot; free space or repair the disk")
        report { $0.storageFailed(.generations, error, now: $1) }
    }

    /// Changes the status, publishes it and then logs it, so that the status is current for a reader of the log line.
    /// - Parameter change: receives the time in milliseconds since 1970
    func report(_ change: (inout NamespaceStatus, _ now: Int) -> Void) {
        let now = clocks.wallClock.now
        status.change { change(&$0, now) }
        publication.update(StatusRecord(status, holding: core.layers))
        log.note(status, now: now)
    }

    // MARK: Schema

    /// The schema from the next batch on; nil for none.
    var latestSchema: NamespaceSchema? { nextSchema ?? gate.schema }

    /// Uses another schema from the next batch on.
    /// - Returns: false if the schema is in use already
    func use(_ schema: NamespaceSchema?) -> Bool {
        if nextSchema == nil, let schema, let current = gate.schema, current.isSame(as: schema) { return false }
        nextSchema = .some(schema)
        return true
    }

    /// Replaces the schema, between two batches. The current snapshot stays published, even if it violates the schema.
    private func install(_ schema: NamespaceSchema?) async {
        gate.replace(schema)
        mayAcceptRefused = true
        var problems: [SchemaProblem] = []
        if let schema, core.snapshot.revision > 0 {
            let (value, layers) = (core.snapshot.value, core.layers)
            problems = await located(
                await schema.problemsConcurrently(of: value, in: layers), isFromFile: true)
            gate.isCurrentValid = problems.isEmpty
        }
        report { status, _ in
            status.schema.digest = schema?.digest
            status.schema.problems = problems
            status.schemaFileProblem = nil
        }
        if !problems.isEmpty { log.violatesSchema(problems) }
    }

    /// The violations of the schema by a new snapshot.
    private func violations(of snapshot: ConfigSnapshot, after batch: ChangeBatch) async -> [SchemaProblem] {
        guard let schema = gate.schema else { return [] }
        if gate.isCurrentValid, let path = batch.changedPath {
            return schema.problems(
                of: snapshot.value, in: batch.layers, previous: core.snapshot.value, changedAt: path)
        }
        // The committer may run on an event loop, and the change may have made a small configuration large.
        return core.isExpensive || snapshot.bytes > CommitCore.expensiveBytes
            ? await schema.problemsConcurrently(of: snapshot.value, in: batch.layers)
            : schema.problems(of: snapshot.value, in: batch.layers)
    }

    /// The violations that a change of lower layers adds behind overrides; empty if the schema refuses nothing.
    func hiddenViolations(in layers: Layers, previous: Layers) async -> [SchemaProblem] {
        guard let schema = gate.schema, schema.refuses else { return [] }
        if layers.override.isEmpty, layers.hold == nil { return [] }
        return core.isExpensive || layers.remoteTextSize > CommitCore.expensiveBytes
            ? await schema.hiddenProblemsConcurrently(in: layers, previous: previous)
            : schema.hiddenProblems(in: layers, previous: previous)
    }

    /// Adds the lines of published violations. With `enforce: "warn"`, every change may find the same ones again, so
    /// the files are read only for others.
    /// - Parameter isFromFile: whether the files may have changed since the last call
    private func located(_ problems: [SchemaProblem], isFromFile: Bool) async -> [SchemaProblem] {
        guard let locator, !problems.isEmpty else { return problems }
        if isFromFile || lastLocated.found != problems {
            lastLocated = (problems, await locator.located(problems))
        }
        return lastLocated.located
    }

    /// Completes a change with the error that it violates the schema. If no client requested the change, it is
    /// retained, and the status and the log report it.
    private func refuse(_ pending: ChangeQueue.Pending, _ problems: [SchemaProblem]) async {
        let problems = await locator?.located(problems) ?? problems
        if let refused = gate.refuse(pending.change, problems, now: clocks.wallClock.now) {
            if !pending.isRetry, case .files(let layer) = refused.change.subject {
                report { $0.filesRead(layer, problem: nil, now: $1) }
            }
            reportRefusal()
            if !refused.isKnown { log.refusedBySchema(refused.change) }
        }
        pending.completion(.failure(ConfigError(pending.change.quoting(problems))))
    }

    /// Forgets a refused document of the remote source, because the source no longer has it.
    func forgetRefusedDocument() {
        gate.forgetRemote()
        reportRefusal()
    }

    /// Forgets a refused change of the remote layer that does not fit the source of new settings.
    /// - Parameter source: the identity of the source; nil for none
    func forgetRefusedDocument(unlessFrom source: String?) {
        gate.forgetRemote(unlessFrom: source)
        reportRefusal()
    }

    /// Adapts the status to the refused changes of the gate.
    private func reportRefusal() {
        guard !status.current.schema.hasRefusal(gate.refused.last) else { return }
        report { status, _ in status.schema.refusal = gate.refused.last }
    }

    /// Updates the gate and the status for a commit that the schema has accepted.
    private func noteSchema(_ commit: PendingCommit, _ problems: [SchemaProblem], isNew: Bool) {
        gate.committed(commit.settledChanges)
        if commit.batch.hasChanged { mayAcceptRefused = !gate.refused.isEmpty }
        if isNew { gate.isCurrentValid = problems.isEmpty }
        let found = isNew ? problems : status.current.schema.problems
        let isReported = status.current.schema.hasRefusal(gate.refused.last)
        let isKnown = status.current.schema.problems == found
        if isReported, isKnown { return }
        status.change { status in
            status.schema.refusal = gate.refused.last
            status.schema.problems = found
        }
        if !isKnown, !problems.isEmpty { log.violatesSchema(problems) }
    }
}

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
