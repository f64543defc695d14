import Synchronization

/// Whether a snapshot is the newest one, as far as this process was told.
public final class SnapshotCurrency: Sendable {
    private let isCurrent = Atomic(true)

    /// Of a snapshot that is the newest one.
    public init() {}

    /// False once it is known that there is a newer one, or once nobody would tell any more.
    public var holds: Bool { isCurrent.load(ordering: .acquiring) }

    /// Says that it does not hold any more.
    public func end() { isCurrent.store(false, ordering: .releasing) }
}
