package import LarderImageFormats
package import LarderUpstream

/// The settings of one origin of images.
package struct ImageOrigin: Sendable {
    /// `scheme://host`, with the port unless it is the default port of the scheme.
    package let name: String
    /// The credential for requests to the origin, if any. Images that are fetched with it are cached separately, and
    /// only permitted users can have them.
    package var credential: ImageCredential?
    /// The query members that do not affect the image, such as signatures. Each element is the name of a member, or the
    /// start of names followed by `*`.
    package var ignoredQuery: [String]
    /// The users who may have images fetched with the credential, besides root and the agent's own user.
    package var users: Set<UInt32>
    /// The groups whose members may have images fetched with the credential.
    package var groups: Set<UInt32>

    /// Creates the settings of an origin.
    ///
    /// - Parameter name: an absolute `http` or `https` URL without a path
    /// - Throws: ``ImageError/Code/invalidURL``
    package init(
        _ name: String, credential: ImageCredential? = nil, ignoredQuery: [String] = [], users: Set<UInt32> = [],
        groups: Set<UInt32> = []
    ) throws(ImageError) {
        guard let address = try? FetchURL(parsing: name), address.path == "/", address.query == nil else {
            throw ImageError(
                .invalidURL, "\"\(name)\" is not an origin; write https://host or https://host:port, without a path")
        }
        self.name = address.origin
        self.credential = credential
        self.ignoredQuery = ignoredQuery
        self.users = users
        self.groups = groups
    }

    func ignores(_ member: Substring) -> Bool {
        ignoredQuery.contains { pattern in
            pattern.hasSuffix("*") ? member.hasPrefix(pattern.dropLast()) : member == pattern
        }
    }
}

/// A credential for requests to an origin: returns the header fields to send. Called for each request, because tokens
/// change. May block on the disk.
package typealias ImageCredential = @Sendable () throws(ImageError) -> [(name: String, value: String)]

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

    package init(directory: String, space: SpaceLimits = SpaceLimits()) {
        self.directory = directory
        self.space = space
    }
}
