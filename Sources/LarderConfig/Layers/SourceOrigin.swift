/// Origins of remote documents that are not sources of the settings.
enum SourceOrigin {
    /// The origin of a document that a local process pushed.
    static let push = "push"
}
