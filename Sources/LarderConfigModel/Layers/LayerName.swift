/// The layers of a namespace, lowest first.
package enum ConfigLayer: String, Sendable, Hashable, CaseIterable {
    /// What programs are shipped with.
    case defaults
    /// The administrator's files.
    case host
    /// The remote source, or what was pushed.
    case remote
    /// What experiments that this host takes part in say.
    case experiment
    /// What was set over the socket.
    case override

    /// Whether it is read from files of this machine.
    package var isOfFiles: Bool { FileLayer(rawValue: rawValue) != nil }
}

/// The layers that are read from files of this machine.
package enum FileLayer: String, Sendable, Hashable, CaseIterable {
    /// What programs are shipped with.
    case defaults
    /// The administrator's files.
    case host

    /// The same among all layers.
    package var layer: ConfigLayer {
        switch self {
        case .defaults: .defaults
        case .host: .host
        }
    }
}
