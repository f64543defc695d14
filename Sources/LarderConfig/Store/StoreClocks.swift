import LarderPlatform

/// The clocks of a store.
struct StoreClocks: Sendable {
    var wallClock: WallClock
    var clock: any Clock<Duration>
}
