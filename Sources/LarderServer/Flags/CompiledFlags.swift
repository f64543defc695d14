import LarderConfig
import LarderConfigModel
import LarderFlagRules
import LarderJSON
import Synchronization

/// The feature flags of one snapshot, compiled.
final class CompiledFlags: Sendable {
    /// The longest definition of a flag, and the longest context, whose evaluation takes only microseconds.
    private static let quickBytes = 2048
    /// The operators that evaluate their operand for each element of an array.
    private static let loops = ["map", "filter", "reduce", "all", "none", "some"].map(ExactText.init)

    struct Traits: OptionSet {
        let rawValue: UInt8
        /// The flag contains a secret, or may refer to one.
        static let secret = Traits(rawValue: 1)
        /// The evaluation may take longer than a time slice of an event loop.
        static let slow = Traits(rawValue: 2)
        /// The outcome may change with time.
        static let timed = Traits(rawValue: 4)
    }

    let revision: Int
    let settingsVersion: Int
    let settings: FlagSettings
    let set: FlagSet
    /// An upper bound of the length of the list, or of the outcomes, of all flags as JSON, in bytes.
    let bytesOfAll: Int
    /// The flags that have a trait. Most flags have none.
    private let traits: [ExactText: Traits]

    /// - Parameter settingsVersion: the version of the settings, read before the settings
    init(_ snapshot: ConfigSnapshot, settingsVersion: Int, _ settings: FlagSettings, _ secrets: SecretPatterns) {
        (revision, self.settingsVersion, self.settings) = (snapshot.revision, settingsVersion, settings)
        let document = snapshot.value
        let definitions = document.value(at: settings.path)
        let shared = document.member("$evaluators")
        set = FlagSet(in: document, member: settings.member)
        bytesOfAll = set.flags.reduce(0) { $0 + Self.replyBytes(of: $1) }
        let isSharedSecret = shared.map { secrets.masked($0, at: JSONPath(["$evaluators"])).1 } ?? false
        let isMetadataSecret = secrets.masked(set.metadata, at: JSONPath(["metadata"])).1
        let (sharedBytes, hasSharedLoop) = (shared?.textSize ?? 0, shared.map(Self.hasLoop) ?? false)
        var traits: [ExactText: Traits] = [:]
        for (name, definition) in definitions?.members ?? JSONValue.emptyObject.members {
            guard let flag = set[name] else { continue }
            var found: Traits = flag.usesTime ? .timed : []
            let path = JSONPath(settings.path.segments + [name])
            if isMetadataSecret || isSharedSecret && flag.hasTargeting || secrets.masked(definition, at: path).1 {
                found.insert(.secret)
            }
            let isLong = definition.textSize + sharedBytes > Self.quickBytes
            if flag.hasTargeting, isLong || hasSharedLoop || Self.hasLoop(definition) { found.insert(.slow) }
            if !found.isEmpty { traits[ExactText(name)] = found }
        }
        self.traits = traits
    }

    private static func hasLoop(_ rule: JSONValue) -> Bool {
        switch rule.kind {
        case .object: rule.members.contains { loops.contains(ExactText($0.0)) || hasLoop($0.1) }
        case .array: rule.elements.contains(where: hasLoop)
        default: false
        }
    }

    /// An upper bound of the length of a flag's outcome, or of its entry in the list, as JSON, in bytes.
    private static func replyBytes(of flag: Flag) -> Int {
        let names = flag.name.utf8.count + (flag.defaultVariant?.utf8.count ?? 0)
        return flag.variants.reduce(flag.metadata.textSize + 12 * names + 1024) {
            $0 + $1.value.textSize + 6 * $1.name.utf8.count + 3
        }
    }

    /// An upper bound of the length of the outcomes of some flags as JSON, in bytes.
    func bytes(of names: [String]) -> Int {
        names.reduce(0) { $0 + (set[$1].map(Self.replyBytes) ?? 12 * $1.utf8.count + set.metadata.textSize + 1024) }
    }

    /// Whether these are the flags of a snapshot, or of a newer one, under the current settings.
    func isOf(_ revision: Int, _ publication: ConfigPublication) -> Bool {
        self.revision >= revision && settingsVersion == publication.settingsVersion
    }

    func traits(of name: String) -> Traits { traits.isEmpty ? [] : traits[ExactText(name)] ?? [] }

    /// Whether a context is so short that evaluating a flag that is not slow takes only microseconds.
    static func isQuick(_ context: JSONValue?) -> Bool { (context?.textSize ?? 0) <= quickBytes }
}

/// The compiled flags of the current snapshots. They are compiled for the first request after a publication, off the event
/// loops, and released when a newer snapshot is published. A namespace without such requests has none.
final class FlagCache: Sendable {
    private enum Entry {
        case compiled(CompiledFlags)
        /// The flags are being compiled. This happens once at a time for each namespace.
        case compiling(Task<CompiledFlags?, Never>)
    }

    /// Keyed by the identity of the publication. The task that releases an entry retains the publication, so the identity
    /// is not reused before. The event loops, and the tasks that compile or release flags, share it.
    private let entries = Mutex<[ObjectIdentifier: Entry]>([:])

    /// The number of namespaces whose flags are compiled.
    var count: Int {
        entries.withLock { $0.values.count { if case .compiled = $0 { true } else { false } } }
    }

    /// Returns the flags of a snapshot if they are compiled, otherwise nil; use ``flags(of:)`` then.
    func compiledFlags(of publication: ConfigPublication, at revision: Int) -> CompiledFlags? {
        entries.withLock { entries -> CompiledFlags? in
            guard case .compiled(let flags) = entries[ObjectIdentifier(publication)], flags.isOf(revision, publication)
            else { return nil }
            return flags
        }
    }

    /// Returns the flags of the current snapshot or of a newer one, once they are compiled; nil if the settings of the
    /// namespace name no flags.
    func flags(of namespace: ConfigNamespace) async -> CompiledFlags? {
        let publication = namespace.publication
        let wanted = publication.current.snapshot.revision
        while namespace.flagSettings != nil {
            if let existing = compiledFlags(of: publication, at: wanted) { return existing }
            let compiling = entries.withLock { entries -> Task<CompiledFlags?, Never> in
                if case .compiling(let compiling) = entries[ObjectIdentifier(publication)] { return compiling }
                let compiling = Task { await self.compile(namespace) }
                entries[ObjectIdentifier(publication)] = .compiling(compiling)
                return compiling
            }
            // The flags may be those of an earlier snapshot or of earlier settings, because their compilation may have
            // begun before this call.
            if let flags = await compiling.value, flags.isOf(wanted, publication) { return flags }
        }
        return nil
    }

    @concurrent
    private func compile(_ namespace: ConfigNamespace) async -> CompiledFlags? {
        let publication = namespace.publication
        let version = publication.settingsVersion
        let flags = namespace.flagSettings.map { settings in
            CompiledFlags(
                publication.current.snapshot, settingsVersion: version, settings.flags, settings.secrets)
        }
        entries.withLock { $0[ObjectIdentifier(publication)] = flags.map(Entry.compiled) }
        if let flags { release(revision: flags.revision, after: publication) }
        return flags
    }

    /// Releases flags when a newer snapshot is published or the namespace ends.
    private func release(revision: Int, after publication: ConfigPublication) {
        Task { [weak self] in
            for await snapshot in publication.snapshots() where snapshot.revision > revision { break }
            self?.entries.withLock { entries in
                guard case .compiled(let flags) = entries[ObjectIdentifier(publication)], flags.revision == revision
                else { return }
                entries[ObjectIdentifier(publication)] = nil
            }
        }
    }
}
