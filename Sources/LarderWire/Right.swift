/// What a peer may be allowed to do. Section 12 of `Protocol/README.md` says which method needs which.
public enum Right: String, Sendable, Hashable, CaseIterable {
    /// To read the configuration, and how it came about.
    case read
    /// To set and remove overrides.
    case write
    /// To hand over the remote layer, and to have the source's answer taken by force.
    case push
    /// To do what concerns all clients: rollbacks, the list of clients, what stays in the image cache.
    case administer
    /// To be shown the values that the settings declare secret where others get a mask.
    case secrets
    /// To be given images.
    case images
}
