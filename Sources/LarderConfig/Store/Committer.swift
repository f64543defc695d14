import LarderConfigModel
import LarderConfigStorage
import LarderJSON
import LarderPlatform

/// Commits the changes of one namespace in batches, and owns the state that commits change: layers, current snapshot,
/// history, schema, expiry times and status.
///
/// A batch takes these steps, in the order of ``commitBatch(_:together:)``:
/// - *queue*: ``ChangeQueue/take(atMost:)`` returns the changes that have waited longest.
/// - *apply*: ``ChangeBatch/add(_:)`` applies each change to the result of the changes before it.
/// - *resolve*: ``ChangeBatch/resolve()`` merges the layers into the next snapshot.
/// - *validate*: the schema checks the snapshot (``validate(_:after:_:)``). Up to here nothing has changed.
/// - *write*: ``perform(_:before:_:_:)`` waits until the ``RequiredWrite`` of the next state is on disk. If the write
///   fails, overrides that have expired are kept for another attempt.
/// - *publish*: ``publish(_:_:_:)`` replaces the state and the published snapshot, without suspension.
/// - *acknowledge*: ``acknowledge(_:_:)`` completes the changes, queues the generation for the disk, and notes when
///   overrides expire.
/// - *reject*: ``reject(_:_:)`` completes the changes that the schema rejects. Those that no client requested are
///   retained, and take the same steps again after each later change. If the schema rejects the removal of several
///   overrides that have expired, each removal takes the steps alone.
///
/// It belongs to ``ConfigStore`` and runs on its actor. The store calls ``commit(_:)`` again only after the previous
/// call has returned. Other methods may be called during its suspensions.
final class Committer {
    /// Changes that were applied, resolved and validated.
    private struct Candidate {
        var batch: ChangeBatch
        var resolution: Resolution
        /// The violations of the schema with which the snapshot is published nevertheless.
        var problems: [SchemaProblem] = []

        init(_ batch: ChangeBatch) { (self.batch, resolution) = (batch, batch.unchanged) }
    }

    private(set) var state: CommittedState
    /// The newest snapshots since the start, including the current one.
    private(set) var history: GenerationHistory
    var expiry: OverrideExpiry
    var limits: StoreLimits
    /// Finds the file and line of a violation of the schema; nil if that is not possible.
    var locator: ViolationLocator?
    private(set) var gate: SchemaGate
    private(set) var status: PublishedStatus
    private let publication: ConfigPublication
    private let storage: NamespaceStorage
    private let clocks: StoreClocks
    private let log: StoreLog
    /// Whether overrides that expire were set or restored since the last ``takeNewExpiries()``.
    private var hasNewExpiries = false
    /// The schema to use from the next batch on; nil if it stays.
    private var nextSchema: NamespaceSchema??
    /// Whether a rejected change may be valid now: the layers or the schema have changed since it was rejected.
    private var mayAcceptRejected: Bool
    /// The last published violations, as found and with their lines.
    private var lastLocated: (found: [SchemaProblem], located: [SchemaProblem]) = ([], [])

    init(
        _ opening: InitialStoreState, publication: ConfigPublication, status: PublishedStatus,
        storage: NamespaceStorage,
        limits: StoreLimits, clocks: StoreClocks, log: StoreLog, locator: ViolationLocator?
    ) {
        state = CommittedState(
            layers: opening.layers, snapshot: opening.snapshot, history: opening.history, numbering: opening.numbering,
            epoch: opening.epoch)
        history = opening.history
        expiry = OverrideExpiry(opening.layers.override, clocks)
        gate = opening.gate
        mayAcceptRejected = !opening.gate.rejected.isEmpty
        self.publication = publication
        self.status = status
        self.storage = storage
        self.limits = limits
        self.clocks = clocks
        self.log = log
        self.locator = locator
    }

    /// The maximum number of changes in a batch. A batch delays other work on the thread. It is therefore small, unless
    /// a disk write or the resolution of a large configuration takes longer than applying all changes of the batch.
    var maxChanges: Int { limits.durability == .full || state.isExpensive ? 256 : 16 }

    /// The limits and the time for a batch that begins now.
    /// - Parameter recordsOperations: whether the journal may have to record the changes
    func context(recordsOperations: Bool) -> ChangeContext {
        ChangeContext(
            limits: limits.documents, now: clocks.wallClock.now, recordsOperations: recordsOperations,
            mayPublishEmpty: !status.hasSource)
    }

    // MARK: Batches

    /// Commits changes, and calls their completions. Then tries the changes again that the schema has rejected before.
    func commit(_ pending: [ChangeQueue.Pending]) async {
        if nextSchema != nil { await installNextSchema() }
        await commitBatch(pending)
        while mayAcceptRejected {
            mayAcceptRejected = false
            // An accepted change sets `mayAcceptRejected`, and the loop then begins again with the lowest layer.
            for rejected in gate.inLayerOrder where !mayAcceptRejected && gate.contains(rejected) {
                await commitBatch([ChangeQueue.Pending(retrying: rejected.change)])
            }
        }
    }

    /// Commits changes as one batch, except for those that the schema rejects.
    /// - Parameters:
    ///   - pending: at least one change
    ///   - together: whether to commit all of the changes, or none if the schema rejects the result of all of them
    /// - Returns: false if no change was committed or completed, because the schema rejects changes that belong together
    @discardableResult
    private func commitBatch(_ pending: [ChangeQueue.Pending], together: Bool = false) async -> Bool {
        let enforcement = gate.enforcement
        var candidate = Candidate(
            ChangeBatch(on: state, context(recordsOperations: limits.durability == .full)))
        // A schema that rejects changes validates one after another, so that whether a change is valid does not depend
        // on later changes of the batch.
        let count = enforcement == .reject && !together ? 1 : pending.count
        for start in stride(from: 0, to: pending.count, by: count) {
            let (changes, previous) = (pending[start..<start + count], enforcement == nil ? nil : candidate)
            for change in changes { candidate.batch.add(change.change) }
            candidate.resolution =
                state.isExpensive ? await candidate.batch.resolveConcurrently() : candidate.batch.resolve()
            if let previous { await validate(&candidate, after: previous, changes) }
        }
        if candidate.batch.rejections < pending.count {
            let (next, write) = candidate.batch.committed(with: candidate.resolution)
            let isWritten = write == .nothing ? true : await perform(write, before: next, candidate, pending)
            if isWritten {
                publish(next, candidate, pending)
                acknowledge(candidate, pending)
            }
        } else if together {
            return false
        }
        if candidate.batch.rejections > 0 { await reject(candidate.batch.results, pending) }
        return true
    }

    /// Makes the disk write that must precede the publication of the next state. If it fails, the changes are rejected.
    /// - Returns: whether the write succeeded
    private func perform(
        _ write: RequiredWrite, before next: CommittedState, _ candidate: Candidate, _ pending: [ChangeQueue.Pending]
    ) async -> Bool {
        do throws(FileError) {
            switch write {
            case .nothing: break
            case .journal(let sequence, let settledBound):
                let (generation, operations) = (next.generation, candidate.batch.operations)
                let causes = candidate.resolution.isNew ? generation.causes : []
                try await storage.append(after: state.generation) {
                    JournalRecord(
                        sequence: sequence, revision: generation.revision, digest: generation.digest.text,
                        publishedAt: generation.publishedAt, released: settledBound, operations: operations,
                        causes: causes)
                }
            case .reservation(let bound): try await storage.reserve(bound)
            }
            return true
        } catch {
            log.storageFailed(error)
            let rejection = ConfigError(
                .storageFailed, "\(error); nothing was changed; free space or repair the disk, then retry")
            report { $0.storageFailed(.commit, rejection, now: $1) }
            for (change, result) in zip(pending, candidate.batch.results) {
                switch result {
                case .success:
                    if case .expireOverrides(let expired) = change.change, !change.isRetry { expiry.keep(expired) }
                    change.completion(.failure(rejection))
                // The conditions of changes were compared with the result of the batch, which does not take effect.
                case .failure(let error) where error.code == .conflict: change.completion(.failure(rejection))
                case .failure(let error) where error.code != .schemaViolation: change.completion(.failure(error))
                case .failure: break
                }
            }
            // The status has the error until a write succeeds, and there may be no other change for a long time.
            storage.writer.confirm(with: state.generation)
            return false
        }
    }

    /// Publishes the state after a commit whose ``RequiredWrite`` is on disk, without suspension. Subscribers receive
    /// the status with the snapshot.
    private func publish(_ next: CommittedState, _ candidate: Candidate, _ pending: [ChangeQueue.Pending]) {
        let batch = candidate.batch
        let isNew = candidate.resolution.isNew
        assert(batch.base === state, "another batch was committed during the write")
        if batch.hasChanged, status.current.hasStorageProblem(.commit) {
            change { $0.storageWorked(.commit) }
            log.storageWorked()
        }
        if !batch.concernsOnlyOverrides { noteSources(batch, pending) }
        if !gate.isIdle { noteSchema(candidate, pending) }
        state = next
        let published = status.committed(next.layers, isPublication: isNew)
        status = published
        if isNew {
            history.append(next.generation)
            publication.publish(next.snapshot, status: published)
            let digest = next.snapshot.contentDigest
            if digest.isLarge { Task { await digest.computeConcurrently() } }
            log.published(next.snapshot, next.generation.causes)
        } else {
            history.update(next.generation)
            publication.update(published)
        }
        log.note(published, now: batch.now)
    }

    /// Updates the status with the results of changes to the remote layer and the file layers. A change that is tried
    /// again is left out, because the source or the files may be in another state now.
    private func noteSources(_ batch: ChangeBatch, _ pending: [ChangeQueue.Pending]) {
        let now = clocks.wallClock.now
        for (pending, result) in zip(pending, batch.results) where !pending.isRetry {
            guard case .success(let result) = result else { continue }
            switch pending.change.unconditional {
            case .remote(_, _, _, isPush: true): change { $0.remotePushed(now: now) }
            case .remote: change { $0.remoteAnswered(changed: result.layerChanged, now: now) }
            case .files(let layer, _): change { $0.filesRead(layer, problem: nil, now: now) }
            case .set, .unset, .expireOverrides, .rules, .dropRemote, .rollback, .release, .increment, .several,
                .recheck, .requested:
                break
            }
        }
        let problem = batch.layers.experiment.problem
        if let problem, problem != state.layers.experiment.problem { log.experimentsLeftOut(problem) }
    }

    /// Completes the changes of the published batch, except for those that the schema rejects. Conflicts come last, so
    /// that the caller then reads the value that caused the conflict: earlier changes of the batch may have set it.
    private func acknowledge(_ candidate: Candidate, _ pending: [ChangeQueue.Pending]) {
        let batch = candidate.batch
        let (revision, isNew) = (state.snapshot.revision, candidate.resolution.isNew)
        for (index, result) in batch.results.enumerated() {
            guard case .success(let result) = result else { continue }
            let outcome = CommitOutcome(
                revision: revision, changed: isNew && result.layerChanged, layerChanged: result.layerChanged,
                hold: result.hold, lifetime: result.lifetime, number: result.number)
            pending[index].completion(.success(outcome))
        }
        if batch.hasFailures {
            for (change, result) in zip(pending, batch.results) {
                if case .failure(let error) = result, error.code != .schemaViolation {
                    change.completion(.failure(error))
                }
            }
        }
        guard batch.hasChanged else { return }
        storage.writer.note(state.generation)
        if batch.changesExpiries {
            expiry.note(batch, in: state.layers.override)
            hasNewExpiries = true
        }
    }

    /// Whether the timer may have to be set, because overrides that expire were set or restored since the last call.
    func takeNewExpiries() -> Bool {
        defer { hasNewExpiries = false }
        return hasNewExpiries
    }

    // MARK: Shutdown

    /// Marks all reserved revisions as settled. Nothing may be committed afterwards.
    func settleReservations() { state = state.settled }

    // MARK: Status

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
        self.change { change(&$0, now) }
        publication.update(status)
        log.note(status, now: now)
    }

    /// Changes the status, and does not publish it.
    private func change(_ change: (inout NamespaceStatus) -> Void) {
        // A copy is changed, so that no access to `status` contains a call. Otherwise each access would be checked for
        // overlaps, which takes 63 instructions.
        var next = status
        next.change(change)
        status = next
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
    private func installNextSchema() async {
        guard let schema = nextSchema.take() else { return }
        gate.replace(schema)
        mayAcceptRejected = true
        var problems: [SchemaProblem] = []
        if let schema, state.snapshot.revision > 0 {
            let (value, layers) = (state.snapshot.value, state.layers)
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

    /// Validates the snapshot of a candidate. If the schema rejects it, the candidate is replaced by the previous one,
    /// and the changes are marked as rejected.
    /// - Parameters:
    ///   - previous: the candidate before the changes
    ///   - changes: the changes that `previous` does not contain
    private func validate(
        _ candidate: inout Candidate, after previous: Candidate, _ changes: ArraySlice<ChangeQueue.Pending>
    ) async {
        guard let schema = gate.schema else { return }
        let (batch, isChanged) = (candidate.batch, candidate.batch.changeCount > previous.batch.changeCount)
        var problems: [SchemaProblem] = []
        if let snapshot = candidate.resolution.snapshot, isChanged || !previous.resolution.isNew {
            let before = previous.resolution.snapshot ?? state.snapshot
            let isValid = previous.resolution.isNew || gate.isCurrentValid
            let path = isValid && changes.count == 1 ? changes.first?.change.changedPath : nil
            problems = await violations(of: snapshot, in: batch.layers, since: before, changedAt: path)
        }
        if !schema.rejects {
            candidate.problems = await located(problems, isFromFile: !batch.comesFromClient)
            return
        }
        if problems.isEmpty, isChanged, changes.contains(where: { !$0.change.concernsOnlyOverrides }) {
            problems = await hiddenViolations(in: batch.layers, previous: previous.batch.layers)
        }
        if problems.isEmpty { return }
        if isChanged {
            candidate = previous
            for _ in changes { candidate.batch.reject(problems) }
        } else {
            // Nothing has been published yet, and the layers are still invalid.
            let found = await located(problems, isFromFile: true)
            change { $0.schema.problems = found }
            candidate.resolution = batch.unchanged
        }
    }

    /// The violations of the schema by a new snapshot.
    /// - Parameters:
    ///   - previous: the snapshot before the change
    ///   - path: if the previous snapshot satisfies the schema, the only path at which the two differ; otherwise nil
    private func violations(
        of snapshot: ConfigSnapshot, in layers: Layers, since previous: ConfigSnapshot, changedAt path: [String]?
    ) async -> [SchemaProblem] {
        guard let schema = gate.schema else { return [] }
        if let path {
            return schema.problems(of: snapshot.value, in: layers, previous: previous.value, changedAt: path)
        }
        // The committer may run on an event loop, and the change may have made a small configuration large.
        return state.isExpensive || snapshot.bytes > CommittedState.expensiveBytes
            ? await schema.problemsConcurrently(of: snapshot.value, in: layers)
            : schema.problems(of: snapshot.value, in: layers)
    }

    /// The violations that a change of lower layers adds behind overrides; empty if the schema rejects nothing.
    func hiddenViolations(in layers: Layers, previous: Layers) async -> [SchemaProblem] {
        guard let schema = gate.schema, schema.rejects else { return [] }
        if layers.override.isEmpty, layers.hold == nil { return [] }
        return state.isExpensive || layers.remoteTextSize > CommittedState.expensiveBytes
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

    /// Completes the changes that the schema rejects.
    /// - Parameter results: the results of the changes
    private func reject(_ results: [Result<ChangeResult, ConfigError>], _ pending: [ChangeQueue.Pending]) async {
        for (change, result) in zip(pending, results) {
            guard case .failure(let error) = result, error.code == .schemaViolation else { continue }
            if !(await commitFirst(change)) { await reject(change, error.schemaProblems) }
        }
    }

    /// Before the first publication no layer has valid content to keep, and the layers may be valid only together. This
    /// method therefore commits a change that is invalid alone together with all rejected changes.
    /// - Returns: false if nothing was changed
    private func commitFirst(_ change: ChangeQueue.Pending) async -> Bool {
        let others = companions(of: change.change)
        if others.isEmpty { return false }
        return await commitBatch(others.map(ChangeQueue.Pending.init(retrying:)) + [change], together: true)
    }

    /// The rejected changes with which a change can make the first publication; empty after the first publication.
    func companions(of change: LayerChange) -> [LayerChange] {
        state.snapshot.revision == 0 ? gate.others(than: change) : []
    }

    /// Completes a change with the error that it violates the schema. If no client requested the change, it is
    /// retained, and the status and the log report it.
    private func reject(_ pending: ChangeQueue.Pending, _ problems: [SchemaProblem]) async {
        if case .expireOverrides(let expired) = pending.change, expired.count > 1 {
            for override in expired { await commitBatch([ChangeQueue.Pending(.expireOverrides([override]))]) }
        }
        let problems = await locator?.located(problems) ?? problems
        if let rejected = gate.reject(pending.change, problems, now: clocks.wallClock.now) {
            if !pending.isRetry, case .files(let layer) = rejected.change.subject {
                report { $0.filesRead(layer, problem: nil, now: $1) }
            }
            reportRejection()
            if !rejected.isKnown { log.rejectedBySchema(rejected.change) }
        }
        pending.completion(.failure(ConfigError(pending.change.quoting(problems))))
    }

    /// Forgets a rejected document of the remote source, because the source no longer has it.
    func forgetRejectedDocument() {
        gate.forgetRemote()
        reportRejection()
    }

    /// Forgets a rejected change of the remote layer that does not fit the source of new settings.
    /// - Parameter source: the identity of the source; nil for none
    func forgetRejectedDocument(unlessFrom source: String?) {
        gate.forgetRemote(unlessFrom: source)
        reportRejection()
    }

    /// Adapts the status to the rejected changes of the gate.
    private func reportRejection() {
        guard !status.current.schema.hasRejection(gate.rejected.last) else { return }
        report { status, _ in status.schema.rejection = gate.rejected.last }
    }

    /// Updates the gate and the status for a commit that the schema has accepted.
    private func noteSchema(_ candidate: Candidate, _ pending: [ChangeQueue.Pending]) {
        let (batch, isNew) = (candidate.batch, candidate.resolution.isNew)
        // A change that failed for a reason other than the schema when it was tried again is not tried once more.
        gate.committed(
            zip(pending, batch.results).compactMap { pending, result -> LayerChange? in
                switch result {
                case .success: pending.change
                case .failure(let error): pending.isRetry && error.code != .schemaViolation ? pending.change : nil
                }
            })
        if batch.hasChanged { mayAcceptRejected = !gate.rejected.isEmpty }
        if isNew { gate.isCurrentValid = candidate.problems.isEmpty }
        let found = isNew ? candidate.problems : status.current.schema.problems
        let isReported = status.current.schema.hasRejection(gate.rejected.last)
        let isKnown = status.current.schema.problems == found
        if isReported, isKnown { return }
        change { status in
            status.schema.rejection = gate.rejected.last
            status.schema.problems = found
        }
        if !isKnown, !candidate.problems.isEmpty { log.violatesSchema(candidate.problems) }
    }
}
