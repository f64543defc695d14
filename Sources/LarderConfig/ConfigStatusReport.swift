/// What a namespace's configuration is worth right now.
public enum Freshness: String, Sendable {
    /// The remote source has not answered yet, and nothing of it is on disk.
    case initializing
    /// What is served is what the sources last said.
    case fresh
    /// The remote source is being asked.
    case refreshing
    /// The last attempt failed, or none was made since the start; the last good snapshot is served.
    case stale
    /// The last attempt failed and there never was a usable answer.
    case failed
}

/// What an administrator asks about a namespace: its state, its source, its layers, what went wrong and what was refused.
/// Times are milliseconds since 1970.
public struct ConfigStatusReport: Sendable {
    /// Something that went wrong.
    public struct Problem: Sendable {
        /// What kind of thing.
        public var error: ConfigError
        public var at: Int
    }

    /// A document that was refused.
    public struct Refusal: Sendable {
        /// Its upstream version, where it had one.
        public var version: String?
        public var reason: String
        public var at: Int
    }

    /// A document that was refused because it removes more than the settings allow.
    public struct Quarantine: Sendable {
        /// Its upstream version, where it had one.
        public var version: String?
        /// What it would remove.
        public var deletion: MassDeletion
        /// When it came.
        public var at: Int
    }

    /// What a rollback holds.
    public struct Hold: Sendable {
        /// The revision whose documents are shown.
        public var revision: Int
        /// The upstream version that the rollback refused, where it had one.
        public var refusedVersion: String?
        public var since: Int
        /// The layers that are held, lowest first.
        public var layers: [ConfigLayer]
        /// Which document ends the hold.
        public var rule: HoldRule
        /// Why the hold has this rule, for people.
        public var reason: String
        /// The client that asked for the rollback, if that is known.
        public var peer: Peer?
    }

    /// The remote source.
    public struct Upstream: Sendable {
        /// `http` or `file`.
        public var kind: String
        /// URL or path.
        public var location: String
        /// When it was last asked.
        public var lastAttemptAt: Int?
        /// When it last gave a usable answer.
        public var lastSuccessAt: Int?
        /// When it will be asked next.
        public var nextAttemptAt: Int?
        /// Failures since the last usable answer.
        public var consecutiveFailures = 0
    }

    public struct Layer: Sendable {
        public var layer: ConfigLayer
        /// Whether it holds anything.
        public var isPresent: Bool
        /// The size of its document.
        public var bytes: Int
        /// Where it comes from; for experiments, the names of those that this host takes part in.
        public var origin: String
        /// When it last changed.
        public var updatedAt: Int?
        /// Why it could not be read last time; for experiments, why those of the remote document are left out.
        public var problem: String?

        init(
            _ layer: ConfigLayer, isPresent: Bool, bytes: Int, origin: String, updatedAt: Int?, problem: String? = nil
        ) {
            self.layer = layer
            self.isPresent = isPresent
            self.bytes = bytes
            self.origin = origin
            self.updatedAt = updatedAt
            self.problem = problem
        }
    }

    /// Refreshes since the start.
    public struct Counters: Sendable {
        /// Snapshots published.
        public var publishes = 0
        /// Requests to the source.
        public var attempted = 0
        /// Answers that changed the remote layer.
        public var changed = 0
        /// Answers that said "not modified", or the same document again.
        public var notModified = 0
        /// Failures and refusals.
        public var failed = 0
    }

    /// The state.
    public var freshness: Freshness
    public var since: Int
    /// What went wrong last with the source or the disk; nil once both work again.
    public var lastError: Problem?
    /// Whether the remote source has given nothing yet, neither now nor before the last start.
    public var awaitsSource = false
    /// What was refused last; nil once a document is taken again.
    public var refused: Refusal?
    /// What was refused last for what it removes; nil once a document is taken again.
    public var quarantine: Quarantine?
    /// What a rollback holds; nil for nothing.
    public var hold: Hold?
    /// The remote source; nil where there is none.
    public var upstream: Upstream?
    /// When the source was asked for what it confirmed last; where it was not asked since the start, when its document
    /// last changed. What is held is no older than that.
    public var confirmedAt: Int?
    /// The upstream version held.
    public var upstreamVersion: String?
    /// The entity tag held.
    public var etag: String?
    /// The layers, lowest first.
    public var layers: [Layer] = []
    /// Counters since the start.
    public var counters = Counters()
}
