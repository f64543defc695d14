extension ConfigRollback {
    /// The action of a `config.rollback` request: roll back, or end a rollback.
    public enum Action: Sendable, Equatable {
        /// Roll back to a revision. `hold` decides when documents from the namespace's source take effect again; nil
        /// for the agent's default.
        case goBack(to: Int, hold: Hold? = nil)
        /// End the rollback and resolve the current layers again.
        case release

        init(from reader: MemberReader) throws(WireError) {
            let revision = try reader.int("revision", in: 0...largestRevision)
            let hold = try reader.string("hold").map { (word) throws(WireError) in try Hold(word) }
            switch (revision, try reader.bool("release") ?? false) {
            case (let revision?, false): self = .goBack(to: revision, hold: hold)
            case (nil, true):
                if hold != nil {
                    throw WireError(.invalidParams, "\"hold\" requires \"revision\"; add it, or leave out \"hold\"")
                }
                self = .release
            default:
                throw WireError(.invalidParams, "give either \"revision\" or \"release\": true")
            }
        }

        // The generated code that writes the members of the request reads these properties.

        var revision: Int? {
            if case .goBack(let revision, _) = self { revision } else { nil }
        }

        var hold: Hold? {
            if case .goBack(_, let hold) = self { hold } else { nil }
        }

        var isRelease: Bool { self == .release }
    }
}

extension ConfigRollback.Hold {
    fileprivate init(_ word: String) throws(WireError) {
        guard let hold = Self(rawValue: word) else {
            throw WireError(.invalidParams, "\"hold\" must be \"untilNewer\" or \"untilReleased\"")
        }
        self = hold
    }
}
