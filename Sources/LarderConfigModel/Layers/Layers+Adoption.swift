extension Layers {
    /// Replaces the location of a source by the identity of the source in state that an earlier version of this program
    /// wrote. The validator, the seen versions and the hold of a rollback then stay valid after an update.
    /// - Parameters:
    ///   - identity: the identity of the source in the settings
    ///   - location: its location
    /// - Returns: whether anything was replaced; such state must be written to disk, because the settings may name
    ///   another source at the same location at the next start
    package mutating func adopt(_ identity: String, at location: String) -> Bool {
        var hasChanged = false
        func adopt(_ source: inout String) {
            if source != location { return }
            source = identity
            hasChanged = true
        }
        func adopt(_ remote: inout RemoteDocument) {
            adopt(&remote.source)
            if var source = remote.seenVersions.source {
                adopt(&source)
                remote.seenVersions.source = source
            }
        }
        if var remote {
            adopt(&remote)
            if hasChanged { self.remote = remote }
        }
        if var hold {
            let before = hasChanged
            hasChanged = false
            if var refused = hold.refused {
                adopt(&refused.source)
                hold.refused = refused
            }
            if var content = hold.remote?.content {
                adopt(&content)
                hold.remote?.content = content
            }
            if hasChanged { self.hold = hold }
            hasChanged = hasChanged || before
        }
        return hasChanged
    }
}
