/// What a namespace's configuration is worth right now. A value that this version does not know is kept as it came.
public struct ConfigState: RawRepresentable, Sendable, Hashable, CustomStringConvertible {
    public let rawValue: String
    /// Makes a state from its name on the wire.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The remote source has not answered yet, and nothing of it is on disk.
    public static let initializing = Self(rawValue: "initializing")
    /// What is served is what the sources last said.
    public static let fresh = Self(rawValue: "fresh")
    /// The remote source is being asked.
    public static let refreshing = Self(rawValue: "refreshing")
    /// The last attempt failed; the last good snapshot is served.
    public static let stale = Self(rawValue: "stale")
    /// The last attempt failed, and there never was a usable answer, or what is held is older than the settings say by
    /// `staleIfErrorSeconds`; it is served all the same.
    public static let failed = Self(rawValue: "failed")

    public var description: String { rawValue }
}

/// The namespace that always exists and that a request without `namespace` means.
public let defaultNamespace = "default"

/// No revision is ever larger: every reader of JSON knows numbers up to this exactly.
let largestRevision = (1 << 53) - 1
