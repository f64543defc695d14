package import LarderConfigModel

/// How current a namespace's configuration is.
package enum Freshness: String, Sendable {
    /// The remote source has not responded yet, and no document of it is on disk.
    case initializing
    /// The last refresh succeeded, or there is no remote source.
    case fresh
    /// A refresh is in progress.
    case refreshing
    /// The last refresh failed, no refresh has succeeded since the start, or the files of a layer cannot be read. The
    /// last good snapshot is served.
    case stale
    /// The last refresh failed, and there is no remote document or it has expired.
    case failed
}

/// The status of a namespace: its freshness, source and layers, the last error and the last refused document. Times are
/// milliseconds since 1970.
package struct ConfigStatusReport: Sendable {
    package struct Problem: Sendable {
        package var error: ConfigError
        package var at: Int
    }

    /// A document that was refused.
    package struct Refusal: Sendable {
        /// Its upstream version; nil if it had none.
        package var version: String?
        package var reason: String
        /// Whether a refresh or push with `force` skips the check that refused it.
        package var canForce: Bool
        package var at: Int
    }

    /// A document that was refused because it would remove more members than the settings allow.
    package struct Quarantine: Sendable {
        /// Its upstream version; nil if it had none.
        package var version: String?
        package var deletion: MassDeletion
        package var at: Int
    }

    /// The hold of a rollback: documents of an earlier revision are served instead of the live ones.
    package struct Hold: Sendable {
        /// The revision whose documents are served.
        package var revision: Int
        /// The upstream version of the remote document that the rollback replaced; nil if it had none.
        package var rejectedVersion: String?
        package var since: Int
        /// The layers that are held, lowest first.
        package var layers: [ConfigLayer]
        /// Which documents end the hold.
        package var rule: HoldRule
        /// Why the hold has this rule, as text.
        package var reason: String
        /// The client that requested the rollback, if known.
        package var peer: Peer?
    }

    /// The remote source.
    package struct Upstream: Sendable {
        /// `http`, `sse`, `file` or `etcd`.
        package var kind: String
        /// URL or path.
        package var location: String
        /// The time of the last request since the start; nil for none.
        package var lastAttemptAt: Int?
        /// The time of the last usable response since the start; nil for none.
        package var lastSuccessAt: Int?
        /// The time of the next poll; nil if none is scheduled.
        package var nextAttemptAt: Int?
        package var consecutiveFailures = 0
        /// Why the connection over which the source reports changes failed last; nil if it works or the source needs
        /// none.
        package var watchError: String?
    }

    package struct Layer: Sendable {
        package var layer: ConfigLayer
        /// Whether the layer has any content.
        package var isPresent: Bool
        /// The size of the layer's document in bytes.
        package var bytes: Int
        /// The location of the layer's source; for the experiment layer, the names of the overlays that apply on this
        /// host.
        package var origin: String
        package var updatedAt: Int?
        /// Why the last read of the layer failed, or why its changes are not watched; for the experiment layer, why the
        /// experiments of the remote document are left out. Nil for no problem.
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

    /// Counters since the start.
    package struct Counters: Sendable {
        /// Published snapshots.
        package var publishes = 0
        /// Requests to the source.
        package var attempted = 0
        /// Responses that changed the remote layer.
        package var changed = 0
        /// Responses without a change: "not modified", or the same document.
        package var notModified = 0
        /// Failed refreshes, including refused documents.
        package var failed = 0
    }

    package var freshness: Freshness
    package var since: Int
    /// The last problem with the source or the disk; nil once both work again.
    package var lastError: Problem?
    /// Why the state of the namespace cannot be written to disk; nil if it can.
    package var writeError: Problem?
    /// Whether there is a remote source but no remote document yet.
    package var awaitsSource = false
    /// The last refused document; nil once another document is accepted.
    package var refused: Refusal?
    /// The last document that was refused because it would remove too many members; nil once another document is
    /// accepted.
    package var quarantine: Quarantine?
    /// The state of the schema.
    package var schema = SchemaStatus()
    /// Why the schema file cannot be used; nil if it can, or if the settings name none. The previous schema, if any,
    /// stays in force.
    package var schemaFileProblem: String?
    /// The hold of a rollback; nil for none.
    package var hold: Hold?
    /// The remote source; nil for none.
    package var upstream: Upstream?
    /// When the remote document was last known to be current: the time of the last successful request or, for a long
    /// poll, of its response. If no request has succeeded since the start, the time at which the document last changed.
    /// The latter time is not used for a document of another origin, such as a push. Nil if no time is known.
    package var confirmedAt: Int?
    /// The upstream version of the remote document; nil for none.
    package var upstreamVersion: String?
    /// The entity tag of the remote document; nil for none.
    package var etag: String?
    /// The layers, lowest first.
    package var layers: [Layer] = []
    package var counters = Counters()
}
