package import LarderConfigModel

/// What a namespace's configuration is worth right now.
package enum Freshness: String, Sendable {
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
package struct ConfigStatusReport: Sendable {
    /// Something that went wrong.
    package struct Problem: Sendable {
        /// What kind of thing.
        package var error: ConfigError
        package var at: Int
    }

    /// A document that was refused.
    package struct Refusal: Sendable {
        /// Its upstream version, where it had one.
        package var version: String?
        package var reason: String
        package var at: Int
    }

    /// A document that was refused because it removes more than the settings allow.
    package struct Quarantine: Sendable {
        /// Its upstream version, where it had one.
        package var version: String?
        /// What it would remove.
        package var deletion: MassDeletion
        /// When it came.
        package var at: Int
    }

    /// What a rollback holds.
    package struct Hold: Sendable {
        /// The revision whose documents are shown.
        package var revision: Int
        /// The upstream version that the rollback refused, where it had one.
        package var refusedVersion: String?
        package var since: Int
        /// The layers that are held, lowest first.
        package var layers: [ConfigLayer]
        /// Which document ends the hold.
        package var rule: HoldRule
        /// Why the hold has this rule, for people.
        package var reason: String
        /// The client that asked for the rollback, if that is known.
        package var peer: Peer?
    }

    /// The remote source.
    package struct Upstream: Sendable {
        /// `http` or `file`.
        package var kind: String
        /// URL or path.
        package var location: String
        /// When it was last asked.
        package var lastAttemptAt: Int?
        /// When it last gave a usable answer.
        package var lastSuccessAt: Int?
        /// When it will be asked next.
        package var nextAttemptAt: Int?
        /// Failures since the last usable answer.
        package var consecutiveFailures = 0
    }

    package struct Layer: Sendable {
        package var layer: ConfigLayer
        /// Whether it holds anything.
        package var isPresent: Bool
        /// The size of its document.
        package var bytes: Int
        /// Where it comes from; for experiments, the names of those that this host takes part in.
        package var origin: String
        /// When it last changed.
        package var updatedAt: Int?
        /// Why it could not be read last time; for experiments, why those of the remote document are left out.
        package var problem: String?

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
    package struct Counters: Sendable {
        /// Snapshots published.
        package var publishes = 0
        /// Requests to the source.
        package var attempted = 0
        /// Answers that changed the remote layer.
        package var changed = 0
        /// Answers that said "not modified", or the same document again.
        package var notModified = 0
        /// Failures and refusals.
        package var failed = 0
    }

    /// The state.
    package var freshness: Freshness
    package var since: Int
    /// What went wrong last with the source or the disk; nil once both work again.
    package var lastError: Problem?
    /// Whether the remote source has given nothing yet, neither now nor before the last start.
    package var awaitsSource = false
    /// What was refused last; nil once a document is taken again.
    package var refused: Refusal?
    /// What was refused last for what it removes; nil once a document is taken again.
    package var quarantine: Quarantine?
    /// What a rollback holds; nil for nothing.
    package var hold: Hold?
    /// The remote source; nil where there is none.
    package var upstream: Upstream?
    /// When the source was asked for what it confirmed last; where it was not asked since the start, when its document
    /// last changed. What is held is no older than that.
    package var confirmedAt: Int?
    /// The upstream version held.
    package var upstreamVersion: String?
    /// The entity tag held.
    package var etag: String?
    /// The layers, lowest first.
    package var layers: [Layer] = []
    /// Counters since the start.
    package var counters = Counters()
}
