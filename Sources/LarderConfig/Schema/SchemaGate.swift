import LarderConfigModel

/// The schema of a namespace, and the changes that it has refused. They are tried again after each later change,
/// because that change may make them valid.
struct SchemaGate: Sendable {
    private(set) var schema: NamespaceSchema?
    /// Whether the current snapshot is known to satisfy the schema.
    var isCurrentValid = false
    /// The refused changes, the oldest first; at most one for each subject.
    private(set) var refused: [RefusedChange] = []

    init(_ schema: NamespaceSchema?) { self.schema = schema }

    /// How changes that violate the schema are treated; nil if there is no schema.
    var enforcement: SchemaSettings.Enforcement? { schema?.settings.enforcement }

    /// Whether there is neither a schema nor a refused change.
    var isIdle: Bool { enforcement == nil && refused.isEmpty }

    mutating func replace(_ schema: NamespaceSchema?) {
        self.schema = schema
        isCurrentValid = false
    }

    /// The status of a gate whose current snapshot has been checked.
    /// - Parameter problems: the violations of the schema by the current snapshot
    func status(_ problems: [SchemaProblem]) -> SchemaStatus {
        SchemaStatus(digest: schema?.digest, problems: problems, refusal: refused.last)
    }

    /// Whether a change is still refused, and has not been replaced or forgotten.
    func contains(_ change: RefusedChange) -> Bool {
        refused.contains { $0.subject == change.subject && $0.at == change.at && $0.version == change.version }
    }

    /// Whether the locks and experiments of new settings have been refused.
    var refusesRules: Bool { refused.contains { $0.subject == .rules } }

    /// The refused changes in the order in which they are tried again: that of their layers.
    var inLayerOrder: [RefusedChange] { refused.sorted { $0.subject.position < $1.subject.position } }

    /// The refused changes that a change does not replace, in the order of their layers.
    func others(than change: LayerChange) -> [LayerChange] {
        if refused.isEmpty { return [] }
        let replaced = RefusedChange.Subject.all(of: change)
        return inLayerOrder.filter { !replaced.contains($0.subject) }.map(\.change)
    }

    /// Retains a refused change, unless a client requested it. A change of several overrides that have expired is not
    /// retained, because each of them is tried alone.
    /// - Returns: the retained change, and whether the same change was refused before for the same violations; nil if
    ///   the change is not retained
    mutating func refuse(
        _ change: LayerChange, _ problems: [SchemaProblem], now: Int
    ) -> (change: RefusedChange, isKnown: Bool)? {
        let subjects = RefusedChange.Subject.all(of: change)
        guard !change.comesFromClient, subjects.count == 1 else { return nil }
        let problems = problems.map(\.withoutValue)
        let version = RefusedChange.version(of: change)
        let index = refused.firstIndex {
            $0.subject == subjects[0] && $0.problems == problems && $0.version == version
        }
        let retained = RefusedChange(
            subject: subjects[0], change: change.unforced, problems: problems, at: index.map { refused[$0].at } ?? now)
        if let index {
            refused[index] = retained
        } else {
            refused.removeAll { $0.subject == subjects[0] }
            refused.append(retained)
        }
        return (retained, index != nil)
    }

    /// Forgets the refused changes that committed changes include or replace.
    mutating func committed(_ changes: [LayerChange]) {
        if refused.isEmpty { return }
        let subjects = Set(changes.flatMap(RefusedChange.Subject.all))
        refused.removeAll { subjects.contains($0.subject) }
    }

    /// Forgets a refused change of the remote layer, because the source no longer has the refused document.
    mutating func forgetRemote() { refused.removeAll { $0.subject == .remote } }

    /// Forgets a refused change of the remote layer that does not fit the source of new settings.
    /// - Parameter source: the identity of the source; nil for none
    mutating func forgetRemote(unlessFrom source: String?) {
        refused.removeAll { refused in
            switch refused.change {
            case .remote(let document, let origin, _, _): (document.source ?? origin) != source
            case .dropRemote: source != nil
            default: false
            }
        }
    }

    // MARK: Start

    /// Checks the first configuration of a store. If it violates the schema, the changes since the last known good state
    /// are applied one by one, in the order of their layers. Those that leave the configuration invalid are refused.
    /// - Parameters:
    ///   - layers: the layers of the last known good state with all changes; refused changes are undone
    ///   - lastGood: the layers of the last known good state
    ///   - now: in milliseconds since 1970
    /// - Returns: the violations by the remaining layers; empty if these are valid
    mutating func open(_ layers: inout Layers, lastGood: Layers, now: Int) -> [SchemaProblem] {
        guard let schema else { return [] }
        let new = layers
        let changes = StartChange.all(since: lastGood, in: new)
        var remaining = schema.problems(of: new.resolved(), in: new)
        isCurrentValid = remaining.isEmpty
        if !schema.refuses { return remaining }
        if remaining.isEmpty,
            changes.allSatisfy(\.concernsOnlyOverrides) || schema.hiddenProblems(in: new, previous: lastGood).isEmpty
        {
            return []
        }
        for change in changes { change.undo(in: &layers, lastGood) }
        remaining = schema.problems(of: layers.resolved(), in: layers)
        var waiting = changes.map { (change: $0, problems: [SchemaProblem]()) }
        var index = 0
        while index < waiting.count {
            var next = layers
            waiting[index].change.apply(to: &next, from: new, now: now)
            var problems = schema.problems(of: next.resolved(), in: next)
            if problems.isEmpty, !waiting[index].change.concernsOnlyOverrides {
                problems = schema.hiddenProblems(in: next, previous: layers)
            }
            if problems.isEmpty {
                (layers, remaining) = (next, [])
                waiting.remove(at: index)
                // The changes before this one may be valid now.
                index = 0
            } else if let parts = waiting[index].change.parts {
                waiting.replaceSubrange(index...index, with: parts.map { (change: $0, problems: []) })
            } else {
                waiting[index].problems = problems
                index += 1
            }
        }
        for (change, problems) in waiting { _ = refuse(change.change(in: new), problems, now: now) }
        isCurrentValid = remaining.isEmpty
        return remaining
    }

    /// Adds the file and line of each violation to the refused changes.
    mutating func locate(with locator: ViolationLocator) async {
        for index in refused.indices { refused[index].problems = await locator.located(refused[index].problems) }
    }
}

extension LayerChange {
    /// The change without `force`, which a client requested for the first attempt only.
    fileprivate var unforced: LayerChange {
        guard case .remote(let document, let origin, _, let isPush) = self else { return self }
        return .remote(document, origin: origin, force: false, isPush: isPush)
    }
}
