package import LarderConfigModel
import LarderPlatform

/// The settings that determine how a store accepts changes.
package struct StoreLimits: Sendable, Equatable {
    package var durability: Durability
    package var documents: DocumentLimits
}

/// The clocks of a store.
struct StoreClocks: Sendable {
    var wallClock: WallClock
    var clock: any Clock<Duration>
}
