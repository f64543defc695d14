package import LarderJSON

/// The overlays that apply here, each of them a merge patch.
package struct ExperimentLayer: Sendable {
    /// One overlay that applies here.
    package struct Overlay: Sendable, Equatable {
        package var name: String
        package var values: JSONValue
        /// Whether the remote document declares it; otherwise the settings do.
        package var isRemote: Bool

        package init(name: String, values: JSONValue, isRemote: Bool) {
            self.name = name
            self.values = values
            self.isRemote = isRemote
        }
    }

    /// The overlays, lowest first.
    package var overlays: [Overlay] = []
    /// When they last changed, in milliseconds since 1970.
    package var updatedAt: Int?
    /// Why those of a remote document are left out that was held already when the settings said where it declares them;
    /// nil where they are not. It follows from the document and the settings, and is not on disk.
    package var problem: String?

    package init(overlays: [Overlay] = [], updatedAt: Int? = nil) {
        self.overlays = overlays
        self.updatedAt = updatedAt
    }

    /// The size of all values.
    package var bytes: Int { overlays.reduce(0) { $0 + $1.values.textSize } }
}
