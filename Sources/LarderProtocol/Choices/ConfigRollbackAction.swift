extension ConfigRollback {
    /// What to do.
    public enum Action: Sendable, Equatable {
        /// Go back to a revision, and hold what the sources say now by a rule; nil for the agent's default.
        case goBack(to: Int, hold: Hold? = nil)
        /// Show what the sources say again.
        case release

        init(from reader: MemberReader) throws(WireError) {
            let revision = try reader.int("revision", in: 0...largestRevision)
            let hold = try reader.string("hold").map { (word) throws(WireError) in try Hold(word) }
            switch (revision, try reader.bool("release") ?? false) {
            case (let revision?, false): self = .goBack(to: revision, hold: hold)
            case (nil, true):
                if hold != nil { throw WireError(.invalidParams, "give \"hold\" with \"revision\" only") }
                self = .release
            default:
                throw WireError(.invalidParams, "give either \"revision\" or \"release\": true, and not both")
            }
        }

        // The members that the generated code writes.

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
