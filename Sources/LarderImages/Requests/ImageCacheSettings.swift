package import LarderImageFormats
package import LarderUpstream

/// The settings of the image cache. All but the directory can be changed while it runs (``ImageCache/update(_:)``).
package struct ImageCacheSettings: Sendable {
    package var directory: String
    package var space: SpaceLimits
    package var images: ImageLimits
    /// For how many seconds after its origin sent or confirmed it an image is kept; nil for as long as there is room. Pinned
    /// images stay.
    package var maximumAge: Int?
    package var flights: DownloadLimits
    package var failures: FailureLifetimes
    /// Private addresses that images may be downloaded from.
    package var allowedNetworks: [AddressRange]
    package var origins: [ImageOrigin]

    package init(
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
