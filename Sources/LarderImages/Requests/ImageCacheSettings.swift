package import LarderImageFormats
package import LarderUpstream

/// The settings of the image cache. All except the directory can be changed at run time (``ImageCache/update(_:)``).
package struct ImageCacheSettings: Sendable {
    package var directory: String
    package var space: SpaceLimits
    package var images = ImageLimits()
    /// The maximum time in seconds to keep an image after its origin sent or last confirmed it. Nil for no limit.
    /// Pinned images are exempt.
    package var maximumAge: Int?
    package var downloadLimits = DownloadLimits()
    package var failures = FailureLifetimes()
    /// Private addresses from which images may be downloaded.
    package var allowedNetworks: [AddressRange] = []
    package var origins: [ImageOrigin] = []
    /// The proxy for all origins that have no own one; nil for none.
    package var proxy: ProxySettings?

    package init(directory: String, space: SpaceLimits = SpaceLimits()) {
        self.directory = directory
        self.space = space
    }
}
