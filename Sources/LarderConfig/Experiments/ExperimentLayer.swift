import JSON

/// The overlays that apply here, each of them a merge patch.
struct ExperimentLayer: Sendable {
    /// One overlay that applies here.
    struct Overlay: Sendable, Equatable {
        var name: String
        var values: JSONValue
        /// Whether the remote document declares it; otherwise the settings do.
        var isRemote: Bool
    }

    /// The overlays, lowest first.
    var overlays: [Overlay] = []
    /// When they last changed, in milliseconds since 1970.
    var updatedAt: Int?

    /// The size of all values.
    var bytes: Int { overlays.reduce(0) { $0 + $1.values.textSize } }
}

extension Layers {
    /// Takes over rules: what is locked, and which experiments this host takes part in. Those of the settings go over
    /// those of the remote document.
    ///
    /// To be called whenever the rules or the remote layer change.
    /// - Throws: `rejected` where the remote document declares overlays that are none; nothing is changed then.
    mutating func follow(_ rules: LayerRules, now: Int) throws(ConfigError) {
        var remote = remote
        remote?.declareExperiments(in: rules.experiments.member)
        var declared: [ExperimentOverlay] = []
        if let (member, list) = remote?.experiments {
            do throws(ExperimentOverlay.Problem) {
                declared = try ExperimentOverlay.all(in: list)
            } catch {
                let place = member + (error.index.map { "[\($0)]" } ?? "")
                throw ConfigError(.rejected, "\(place), which declares experiments, \(error.reason)")
            }
        }
        self.remote = remote
        take(rules, declared, now: now)
    }

    /// Takes over rules with a remote document that does not go with them: without its experiments. It will be asked for
    /// anew and refused.
    mutating func followWithoutRemoteExperiments(_ rules: LayerRules, now: Int) {
        remote?.declareExperiments(in: rules.experiments.member)
        remote?.validator = nil
        take(rules, [], now: now)
    }

    private mutating func take(_ rules: LayerRules, _ declared: [ExperimentOverlay], now: Int) {
        self.rules = rules
        let overlays =
            declared.filter { $0.includes(rules.unit) }
            .map { ExperimentLayer.Overlay(name: $0.name, values: $0.values, isRemote: true) }
            + rules.experiments.overlays.filter { $0.includes(rules.unit) }
            .map { ExperimentLayer.Overlay(name: $0.name, values: $0.values, isRemote: false) }
        if experiment.overlays != overlays { experiment = ExperimentLayer(overlays: overlays, updatedAt: now) }
    }
}

extension Layers.Remote {
    /// Sees to it that the document has what its source gave but for one member, which declares experiments.
    fileprivate mutating func declareExperiments(in member: String?) {
        if experiments?.member == member, member == nil || document[member ?? ""] == nil { return }
        if let (former, list) = experiments {
            // At its end, which is as good a place as any: the order of members means nothing.
            document = .object(document.members.map { ($0.name, $0.value) } + [(former, list)])
            experiments = nil
        }
        guard let member, let list = document[member] else { return }
        experiments = (member, list.detached())
        document = .object(document.members.filter { $0.name != member }.map { ($0.name, $0.value) })
    }
}
