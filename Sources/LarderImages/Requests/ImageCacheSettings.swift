public import LarderImageFormats
public import LarderUpstream

/// The settings of the image cache. All but the directory can be changed while it runs (``ImageCache/update(_:)``).
public struct ImageCacheSettings: Sendable {
    public var directory: String
    public var space: SpaceLimits
    public var images: ImageLimits
    /// For how many seconds after its origin sent or confirmed it an image is kept; nil for as long as there is room. Pinned
    /// images stay.
    public var maximumAge: Int?
    public var flights: DownloadLimits
    public var failures: FailureLifetimes
    /// Private addresses that images may be downloaded from.
    public var allowedNetworks: [AddressRange]
    public var origins: [ImageOrigin]

    public init(
        directory: String, space: SpaceLimits = SpaceLimits(), images: ImageLimits = ImageLimits(),
        maximumAge: Int? = nil, flights: DownloadLimits = DownloadLimits(),
        failures: FailureLifetimes = FailureLifetimes(),
        allowedNetworks: [AddressRange] = [], origins: [ImageOrigin] = []
    ) {
        self.directory = directory
        self.space = space
        self.images = images
        self.maximumAge = maximumAge
        self.flights = flights
        self.failures = failures
        self.allowedNetworks = allowedNetworks
        self.origins = origins
    }
}
