/// What can go wrong with a configuration, said so that an administrator knows what to do next.
package struct ConfigError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which kind of error; new kinds may be added.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case upstreamFailed, rejected, storageFailed, cancelled, stopped, invalidChange, locked, notFound
        }

        private let kind: Kind

        /// The source gave no usable answer.
        package static let upstreamFailed = Self(kind: .upstreamFailed)
        /// A document was refused: it is no object, or older than the one held.
        package static let rejected = Self(kind: .rejected)
        /// The state directory could not take the change.
        package static let storageFailed = Self(kind: .storageFailed)
        /// The caller cancelled; nothing was written after that.
        package static let cancelled = Self(kind: .cancelled)
        /// The namespace is being stopped.
        package static let stopped = Self(kind: .stopped)
        /// The change makes no sense for the configuration held.
        package static let invalidChange = Self(kind: .invalidChange)
        /// The change is of something that the settings lock.
        package static let locked = Self(kind: .locked)
        /// No snapshot of that revision is known, or no longer.
        package static let notFound = Self(kind: .notFound)

        package var description: String { kind.rawValue }
    }

    package let code: Code
    /// What happened and what to do, in one line.
    package let message: String
    /// How long the source asked to be left alone (`Retry-After`).
    package let retryAfter: Duration?

    /// What a document would remove that was rejected for that.
    package let deletion: MassDeletion?

    package init(_ code: Code, _ message: String, retryAfter: Duration? = nil, deletion: MassDeletion? = nil) {
        self.code = code
        self.message = message
        self.retryAfter = retryAfter
        self.deletion = deletion
    }

    package var description: String { message }
}
