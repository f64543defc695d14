import LarderJSON

/// The overlays that apply here, each of them a merge patch.
struct ExperimentLayer: Sendable {
    /// One overlay that applies here.
    struct Overlay: Sendable, Equatable {
        var name: String
        var values: JSONValue
        /// Whether the remote document declares it; otherwise the settings do.
        var isRemote: Bool
    }

    /// The overlays, lowest first.
    var overlays: [Overlay] = []
    /// When they last changed, in milliseconds since 1970.
    var updatedAt: Int?
    /// Why those of a remote document are left out that was held already when the settings said where it declares them;
    /// nil where they are not. It follows from the document and the settings, and is not on disk.
    var problem: String?

    /// The size of all values.
    var bytes: Int { overlays.reduce(0) { $0 + $1.values.textSize } }
}
