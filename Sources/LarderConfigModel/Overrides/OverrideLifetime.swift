/// How long an override lasts that was set.
package struct OverrideLifetime: Sendable, Hashable {
    /// When it ends, in milliseconds since 1970; nil for never.
    package var expiresAt: Int?
    /// Whether it replaced an override at the same path that would have ended at another time, or never.
    package var changed: Bool
}

extension OverrideLifetime {
    init(of entry: OverrideEntry, replacing old: OverrideEntry?) {
        expiresAt = entry.expiresAt
        changed = old.map { $0.expiresAt != entry.expiresAt } ?? false
    }
}
