import LarderJSON
package import LarderProtocol

/// The changes of one `config.apply`, within the limits of a request.
package struct ChangePortion: Sendable {
    /// The maximum size of the encoded changes. The agent's default limit for a line (`lineBytes`) is twice
    /// as large, so that the other parameters fit, too.
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

    /// Divides changes into portions, in order.
    /// - Parameter groups: the changes that belong together.
    package static func portions(of groups: some Sequence<[ConfigApply.Change]>) -> [ChangePortion] {
        var portions: [ChangePortion] = []
        for group in groups {
            let size = byteCount(of: group)
            if let last = portions.indices.last, portions[last].add(group, byteCount: size) { continue }
            var portion = ChangePortion()
            _ = portion.add(group, byteCount: size)
            portions.append(portion)
        }
        return portions
    }

    /// The size in bytes of encoded changes, rounded up by less than 100 bytes.
    package static func byteCount(of changes: [ConfigApply.Change]) -> Int {
        var writer = JSONWriter()
        ConfigApply.Parameters(changes).write(to: &writer)
        return writer.bytes.count
    }
}
