package import LarderConfigModel
import LarderPlatform

/// What the settings say about how a store takes changes.
package struct StoreLimits: Sendable, Equatable {
    package var durability: Durability
    package var documents: DocumentLimits

    package init(durability: Durability, documents: DocumentLimits) {
        self.durability = durability
        self.documents = documents
    }

    /// The maximum number of changes in a batch. The other work of the thread waits for a batch, unless a write to the disk or
    /// the resolution of a large configuration takes longer than all its changes.
    /// - Parameter isExpensive: whether the configuration is large
    func maxChanges(isExpensive: Bool) -> Int { durability == .full || isExpensive ? 256 : 16 }
}

/// The clocks of a store.
struct StoreClocks: Sendable {
    var wallClock: WallClock
    var clock: any Clock<Duration>
}
