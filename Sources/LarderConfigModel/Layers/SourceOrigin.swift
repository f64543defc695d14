/// Origins of remote documents that do not come from a source in the settings.
package enum SourceOrigin {
    /// A local process pushed the document.
    package static let push = "push"
}
