package import LarderConfigModel
import LarderPlatform

/// The settings that determine how a store accepts changes.
package struct StoreLimits: Sendable, Equatable {
    package var durability: Durability
    package var documents: DocumentLimits

    /// The maximum number of changes in a batch. A batch delays other work on the thread. It is therefore small, unless
    /// a disk write or the resolution of a large configuration takes longer than applying all changes of the batch.
    /// - Parameter isExpensive: whether the configuration is large
    func maxChanges(isExpensive: Bool) -> Int { durability == .full || isExpensive ? 256 : 16 }
}

/// The clocks of a store.
struct StoreClocks: Sendable {
    var wallClock: WallClock
    var clock: any Clock<Duration>
}
