import Foundation

/// A seeded pseudo-random number generator (SplitMix64). The same seed produces the same numbers.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    package let seed: UInt64
    private var state: UInt64

    /// The value of `LARDER_TEST_SEED`, or a new random seed at each call.
    package static var randomSeed: UInt64 {
        ProcessInfo.processInfo.environment["LARDER_TEST_SEED"].flatMap { UInt64($0) } ?? .random(in: .min ... .max)
    }

    package init(seed: UInt64 = SeededGenerator.randomSeed) {
        self.seed = seed
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }
}
