import LarderJSON
package import LarderProtocol

/// The changes of one `config.apply`, within the limits of a request.
package struct ChangePortion: Sendable {
    /// The maximum size of the encoded changes. It is half of the agent's default limit for a line (`lineBytes`), so
    /// that the other parameters fit, too.
    package static let maxBytes = 512 << 10

    /// The changes, in the order in which they were added.
    package private(set) var changes: [ConfigApply.Change] = []
    private var byteCount = 0

    package init() {}

    /// Adds changes that belong together, unless the portion would then exceed a limit. An empty portion accepts any
    /// changes, because they could not be sent otherwise.
    /// - Parameter added: their size; see ``byteCount(of:)``.
    /// - Returns: whether the changes were added.
    package mutating func add(_ more: [ConfigApply.Change], byteCount added: Int) -> Bool {
        let fits = changes.count + more.count <= ConfigApply.Parameters.maxChanges && byteCount + added <= Self.maxBytes
        guard fits || changes.isEmpty else { return false }
        changes += more
        byteCount += added
        return true
    }

    /// The size in bytes of encoded changes, rounded up by less than 100 bytes.
    package static func byteCount(of changes: [ConfigApply.Change]) -> Int {
        var writer = JSONWriter()
        ConfigApply.Parameters(changes).write(to: &writer)
        return writer.bytes.count
    }
}
