/// How long an override lasts that was set.
package struct OverrideLifetime: Sendable, Hashable {
    /// When it ends, in milliseconds since 1970; nil for never.
    package var expiresAt: Int?
    /// Whether it replaced an override at the same path that would have ended at another time, or never.
    package var changed: Bool
}

extension OverrideLifetime {
    /// - Parameter old: the override that was at the same path; nil if there was none
    init(of entry: OverrideEntry, replacing old: OverrideNode?) {
        expiresAt = entry.expiresAt
        changed = old.map { $0.hasEntry && $0.expiresAt != entry.expiresAt } ?? false
    }
}
