package import LarderJSON

/// The overlays that apply on this host. Each of them is a merge patch.
package struct ExperimentLayer: Sendable {
    package struct Overlay: Sendable, Equatable {
        @ComparedAsBytes package var name: String
        package var values: JSONValue
        /// Whether the remote document declares the overlay. Otherwise the settings do.
        package var isRemote: Bool

        package init(name: String, values: JSONValue, isRemote: Bool) {
            self.name = name
            self.values = values
            self.isRemote = isRemote
        }
    }

    /// The overlays, lowest first.
    package var overlays: [Overlay] = []
    /// When the overlays last changed, in milliseconds since 1970.
    package var updatedAt: Int?
    /// Why the experiments of the remote document are left out; nil if they are not. A new document with invalid
    /// experiments is rejected, so this happens only to a document that was accepted under other settings. The problem
    /// follows from the document and the settings and is not stored on disk.
    package var problem: String?

    package init(overlays: [Overlay] = [], updatedAt: Int? = nil) {
        self.overlays = overlays
        self.updatedAt = updatedAt
    }

    /// The overlay that takes effect at a path: the last one with an effect there; nil for none.
    package func overlay(at path: [String]) -> Overlay? { overlays.last { $0.values.effect(at: path) != .unchanged } }

    /// The size of all values as text, in bytes.
    package var bytes: Int { overlays.reduce(0) { $0 + $1.values.textSize } }
}
