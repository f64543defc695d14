/// The layers of a namespace, lowest first.
package enum ConfigLayer: String, Sendable, Hashable, CaseIterable {
    /// Files that are shipped with programs.
    case defaults
    /// The administrator's files.
    case host
    /// The document of the remote source or of a push.
    case remote
    /// The overlays of the experiments that this host takes part in.
    case experiment
    /// The values that clients set over the socket.
    case override

    /// This layer as a ``FileLayer``; nil if it is not read from files on this machine.
    package var fileLayer: FileLayer? { FileLayer(rawValue: rawValue) }
}

/// The layers that are read from files on this machine, lowest first.
package enum FileLayer: String, Sendable, Hashable, CaseIterable {
    /// Files that are shipped with programs.
    case defaults
    /// The administrator's files.
    case host

    /// This layer as a ``ConfigLayer``.
    package var layer: ConfigLayer {
        switch self {
        case .defaults: .defaults
        case .host: .host
        }
    }
}
