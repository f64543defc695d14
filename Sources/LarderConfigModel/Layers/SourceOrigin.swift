/// Origins of remote documents that are not sources of the settings.
package enum SourceOrigin {
    /// The origin of a document that a local process pushed.
    package static let push = "push"
}
