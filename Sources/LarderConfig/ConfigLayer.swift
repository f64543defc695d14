/// The layers of a namespace, lowest first.
public enum ConfigLayer: String, Sendable, Hashable, CaseIterable {
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
    var isOfFiles: Bool { FileLayer(rawValue: rawValue) != nil }
}

/// The layers that are read from files of this machine.
public enum FileLayer: String, Sendable, Hashable, CaseIterable {
    /// What programs are shipped with.
    case defaults
    /// The administrator's files.
    case host

    /// The same among all layers.
    public var layer: ConfigLayer {
        switch self {
        case .defaults: .defaults
        case .host: .host
        }
    }
}

/// A value for each layer of files.
struct PerFileLayer<Value: Sendable>: Sendable {
    private var defaults: Value
    private var host: Value

    init(_ value: (FileLayer) -> Value) {
        defaults = value(.defaults)
        host = value(.host)
    }

    subscript(layer: FileLayer) -> Value {
        get {
            switch layer {
            case .defaults: defaults
            case .host: host
            }
        }
        set {
            switch layer {
            case .defaults: defaults = newValue
            case .host: host = newValue
            }
        }
    }
}
