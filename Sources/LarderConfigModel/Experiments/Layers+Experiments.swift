package import LarderJSON

extension Layers {
    /// Applies rules: the locks, and the experiments that this host takes part in. Overlays of the settings are above
    /// those of the remote document.
    ///
    /// Must be called after every change of the rules, the remote layer or the hold.
    /// - Throws: `rejected` if the remote document declares invalid experiments; nothing has changed then.
    package mutating func follow(_ rules: LayerRules, now: Int) throws(ConfigError) {
        var next = self
        next.declareExperiments(by: rules)
        let declared = try next.remote?.declaredExperiments() ?? []
        next.takeExperiments(ofLive: declared, now: now)
        self = next
    }

    /// Applies rules, and keeps a remote document whose experiments are invalid under them. The experiments are left
    /// out, and ``ExperimentLayer/problem`` says why. The document loses its validator, so that the next poll fetches
    /// it again and, if it is still invalid, rejects it.
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

    /// Replaces the experiment layer with the overlays of the remote document that is shown and those of the settings.
    /// - Parameters:
    ///   - live: the overlays that the live remote document declares
    ///   - problem: why `live` lacks overlays that the document declares; nil if it has all of them
    private mutating func takeExperiments(ofLive live: [ExperimentOverlay], problem: String? = nil, now: Int) {
        var (shown, problem) = (live, problem)
        if let held = hold?.remote {
            // The held document was checked when it arrived, but perhaps under other settings. Its experiments may be
            // invalid now.
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
    /// Moves the member that declares experiments out of the document. If the settings named another member before,
    /// that one is moved back.
    fileprivate mutating func declareExperiments(in member: String?) {
        if experiments == nil, member.map({ document[$0] == nil }) ?? true { return }
        if let experiments, let member, experiments.member.isSpelled(as: member) { return }
        if let (former, list) = experiments {
            // The member is added at the end, because the order of members has no meaning.
            document = .object(document.members.map { ($0.name, $0.value) } + [(former, list)])
            experiments = nil
        }
        guard let member, let list = document[member] else { return }
        experiments = (member, list.detached())
        document = .object(document.members.filter { !$0.name.isSpelled(as: member) }.map { ($0.name, $0.value) })
    }

    /// The overlays that the document declares.
    /// - Throws: `rejected`, saying what is wrong with them.
    fileprivate func declaredExperiments() throws(ConfigError) -> [ExperimentOverlay] {
        guard let (member, list) = experiments else { return [] }
        do throws(ExperimentOverlay.Problem) {
            return try ExperimentOverlay.all(in: list)
        } catch {
            let place = member + (error.index.map { "[\($0)]" } ?? "")
            throw ConfigError(.rejected, "invalid experiments: \(place) \(error.reason)")
        }
    }
}

/// The overlays that apply on this host. Each of them is a merge patch.
package struct ExperimentLayer: Sendable {
    package struct Overlay: Sendable, Equatable {
        @ComparedAsBytes package var name: String
        package var values: JSONValue
        /// Whether the remote document declares the overlay. Otherwise the settings do.
        package var isRemote: Bool

        package init(name: String, values: JSONValue, isRemote: Bool) {
            self.name = name
            self.values = values
            self.isRemote = isRemote
        }
    }

    /// The overlays, lowest first.
    package var overlays: [Overlay] = []
    /// When the overlays last changed, in milliseconds since 1970.
    package var updatedAt: Int?
    /// Why the experiments of the remote document are left out; nil if they are not. A new document with invalid
    /// experiments is rejected, so this happens only to a document that was accepted under other settings. The problem
    /// follows from the document and the settings and is not stored on disk.
    package var problem: String?

    package init(overlays: [Overlay] = [], updatedAt: Int? = nil) {
        self.overlays = overlays
        self.updatedAt = updatedAt
    }

    /// The overlay that takes effect at a path: the last one with an effect there; nil for none.
    package func overlay(at path: [String]) -> Overlay? { overlays.last { $0.values.effect(at: path) != .unchanged } }

    /// The size of all values as text, in bytes.
    package var bytes: Int { overlays.reduce(0) { $0 + $1.values.textSize } }
}

/// The settings for a namespace's experiments.
package struct ExperimentRules: Sendable, Equatable {
    /// The unit for which the overlays of this host are selected; nil if the host itself is the unit.
    @ComparedAsBytes package var unit: String?
    /// The member of the remote document that declares more overlays; nil for none.
    @ComparedAsBytes package var member: String?
    /// The overlays in the settings.
    package var overlays: [ExperimentOverlay]

    package init(unit: String? = nil, member: String? = nil, overlays: [ExperimentOverlay] = []) {
        self.unit = unit
        self.member = member
        self.overlays = overlays
    }
}
