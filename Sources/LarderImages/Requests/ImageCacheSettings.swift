public import LarderImageFormats
public import LarderUpstream

/// What the settings say of the image cache. All but the directory can be changed while it runs
/// (``ImageCache/update(_:)``).
public struct ImageCacheSettings: Sendable {
    /// Where the images are.
    public var directory: String
    /// How much there may be.
    public var space: SpaceLimits
    /// What an image may be.
    public var images: ImageLimits
    /// For how many seconds after its origin sent it, or said that it is current, an image is kept; nothing for as long as
    /// there is room. Pinned ones stay.
    public var maximumAge: Int?
    /// How many images are fetched at once.
    public var flights: DownloadLimits
    /// How long failures are remembered.
    public var failures: FailureLifetimes
    /// Addresses that are fetched from although they are not of the Internet.
    public var allowedNetworks: [AddressRange]
    /// What is said of single origins.
    public var origins: [ImageOrigin]

    /// Makes settings.
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
