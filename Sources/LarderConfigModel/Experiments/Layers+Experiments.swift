import LarderJSON

extension Layers {
    /// Takes over rules: what is locked, and which experiments this host takes part in. Those of the settings go over
    /// those of the remote document that is shown.
    ///
    /// To be called whenever the rules, the remote layer or what is held change.
    /// - Throws: `rejected` where the remote document declares experiments that are none; nothing is changed then.
    package mutating func follow(_ rules: LayerRules, now: Int) throws(ConfigError) {
        var next = self
        next.declareExperiments(by: rules)
        let declared = try next.remote?.declaredExperiments() ?? []
        next.takeExperiments(ofLive: declared, now: now)
        self = next
    }

    /// Takes over rules, with which a document that is held already need not go: its experiments are then left out, which
    /// ``ExperimentLayer/problem`` says, and it will be asked for anew, and refused.
    package mutating func applyRulesLeniently(_ rules: LayerRules, now: Int) {
        do {
            try follow(rules, now: now)
        } catch {
            declareExperiments(by: rules)
            remote?.validator = nil
            takeExperiments(ofLive: [], problem: error.message, now: now)
        }
    }

    private mutating func declareExperiments(by rules: LayerRules) {
        self.rules = rules
        remote?.declareExperiments(in: rules.experiments.member)
        hold?.remote?.content?.declareExperiments(in: rules.experiments.member)
    }

    /// Takes the experiments of the remote document that is shown.
    /// - Parameters:
    ///   - live: those of the live one
    ///   - problem: why these are not all that it declares
    private mutating func takeExperiments(ofLive live: [ExperimentOverlay], problem: String? = nil, now: Int) {
        var (shown, problem) = (live, problem)
        if let held = hold?.remote {
            // It was checked when it came, but by the settings of then.
            do throws(ConfigError) {
                (shown, problem) = (try held.content?.declaredExperiments() ?? [], nil)
            } catch {
                (shown, problem) = ([], error.message)
            }
        }
        take(shown, now: now)
        experiment.problem = problem
    }

    private mutating func take(_ declared: [ExperimentOverlay], now: Int) {
        let unit = rules.unit
        let overlays =
            declared.filter { $0.includes(unit) }
            .map { ExperimentLayer.Overlay(name: $0.name, values: $0.values, isRemote: true) }
            + rules.experiments.overlays.filter { $0.includes(unit) }
            .map { ExperimentLayer.Overlay(name: $0.name, values: $0.values, isRemote: false) }
        if experiment.overlays != overlays { experiment = ExperimentLayer(overlays: overlays, updatedAt: now) }
    }
}

extension RemoteDocument {
    /// Sees to it that the document has what its source gave but for one member, which declares experiments.
    fileprivate mutating func declareExperiments(in member: String?) {
        if experiments == nil, member.map({ document[$0] == nil }) ?? true { return }
        if let experiments, experiments.member == member { return }
        if let (former, list) = experiments {
            // At its end, which is as good a place as any: the order of members means nothing.
            document = .object(document.members.map { ($0.name, $0.value) } + [(former, list)])
            experiments = nil
        }
        guard let member, let list = document[member] else { return }
        experiments = (member, list.detached())
        document = .object(document.members.filter { $0.name != member }.map { ($0.name, $0.value) })
    }

    /// The overlays that the document declares.
    /// - Throws: `rejected`, naming what is wrong with them.
    fileprivate func declaredExperiments() throws(ConfigError) -> [ExperimentOverlay] {
        guard let (member, list) = experiments else { return [] }
        do throws(ExperimentOverlay.Problem) {
            return try ExperimentOverlay.all(in: list)
        } catch {
            let place = member + (error.index.map { "[\($0)]" } ?? "")
            throw ConfigError(.rejected, "\(place), which declares experiments, \(error.reason)")
        }
    }
}
