package import LarderConfigModel

/// The settings that determine how a store accepts changes.
package struct StoreLimits: Sendable, Equatable {
    package var durability: Durability
    package var documents: DocumentLimits
}
