/// The lifetime of an override that was set.
package struct OverrideLifetime: Sendable, Hashable {
    /// When the override expires, in milliseconds since 1970; nil for never.
    package var expiresAt: Int?
    /// Whether the override replaced one at the same path whose ``expiresAt`` was different.
    package var changed: Bool
}

extension OverrideLifetime {
    /// - Parameter old: the previous node at the path; nil for none
    init(of entry: OverrideEntry, replacing old: OverrideNode?) {
        expiresAt = entry.expiresAt
        changed = old.map { $0.hasEntry && $0.expiresAt != entry.expiresAt } ?? false
    }
}
