internal import LarderImageFormats
package import LarderUpstream

/// An error of the image cache. Its message says what failed and what to do next.
package struct ImageError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error.
    package enum Code: String, Sendable {
        /// The bytes are not an image. The message names the format that they resemble.
        case notAnImage
        /// The bytes are an image of a type that is not supported.
        case unsupportedType
        /// The settings exclude this image type.
        case excludedType
        /// The header contradicts itself or the rules of the format.
        case damagedImage
        /// The bytes end before the image does.
        case truncatedImage
        /// The decoded image would have more pixels than the limit.
        case tooManyPixels
        /// The image has more bytes than the limit for one image.
        case tooLarge
        /// The body is shorter or longer than its declared length.
        case lengthMismatch
        /// The SHA-256 of the body differs from the expected one.
        case digestMismatch
        /// The client's file changed while it was read.
        case fileChanged
        /// The client's file is not in memory or cannot be read.
        case unusableFile
        /// The limits of the cache or the disk leave no room. Cached images are not affected.
        case cacheFull
        /// The file of a cached image was missing or damaged. A damaged file was removed.
        case damagedBlob
        /// The cache directory could not be read or written.
        case storageFailed
        /// The index database is damaged. ``ImageIndex/open(in:now:)`` restores it at the next start.
        case indexDamaged
        /// A newer version of the agent wrote the index.
        case newerIndex
        /// Another process has locked the cache directory.
        case cacheInUse
        /// The URL cannot be fetched: it is not absolute, its scheme is not `http` or `https`, or URL parsers may
        /// disagree about its host.
        case invalidURL
        /// The host of the URL, or of a redirect, has an address that the settings do not allow.
        case forbiddenAddress
        /// The origin cannot be reached, and no usable image is cached.
        case offline
        /// The origin was reached but sent no usable response. See ``ImageError/cause``.
        case upstreamFailed
        /// The request forbids the network, and no usable image is cached.
        case notCached
        /// The client is not permitted to have the image, or lost the permission during the request.
        case denied
        /// The deadline of the request has passed. The download may continue for other requests.
        case timeout
        case cancelled
        case shuttingDown
    }

    package let code: Code
    /// One line that says what happened and what to do. It contains no secrets.
    package let message: String
    /// For ``Code/cacheFull``: the minimum disk space and number of images to evict. Nil if no eviction would help.
    package let shortage: SpaceShortage?
    /// The failure of the request to the origin, if that failure caused this error.
    package let cause: UpstreamError?
    /// The number of seconds for which the origin allows its response to be reused. 0 if the response must not be
    /// stored; nil if the origin does not specify the time.
    let lifetime: Int?

    package init(
        _ code: Code, _ message: String, shortage: SpaceShortage? = nil, cause: UpstreamError? = nil,
        lifetime: Int? = nil
    ) {
        self.code = code
        self.message = message
        self.shortage = shortage
        self.cause = cause
        self.lifetime = lifetime
    }

    /// The same error, for a response that may be reused for `lifetime` seconds.
    func with(lifetime: Int?) -> ImageError {
        ImageError(code, message, shortage: shortage, cause: cause, lifetime: lifetime)
    }

    package var description: String { message }

    static let notCached = ImageError(
        .notCached, "the image is not cached, and the policy of the request forbids the network; use another policy")
    static let cancelled = ImageError(.cancelled, "the request was cancelled")
    static let shuttingDown = ImageError(.shuttingDown, "the agent is shutting down; retry after it has restarted")

    /// Converts the failure of a request to the origin.
    package init(_ cause: UpstreamError) {
        let code: Code =
            switch cause.code {
            case .invalidURL, .invalidRequest: .invalidURL
            case .forbiddenAddress: .forbiddenAddress
            case .connectFailed, .tlsFailed, .timeout, .tooSlow: .offline
            case .tooLarge: .tooLarge
            case .cancelled: .cancelled
            case .shutDown: .shuttingDown
            default: .upstreamFailed
            }
        // Some messages of the HTTP client end with the text `kept`, which is true for configuration documents. It
        // would be false for an image that is not cached, so it is removed here.
        let kept = "; the last good document stays in use"
        let message = cause.message.hasSuffix(kept) ? String(cause.message.dropLast(kept.count)) : cause.message
        self.init(code, message, cause: cause)
    }

    init(_ error: InvalidURL) { self.init(.invalidURL, "the url \(error.reason)") }

    /// Converts the rejection of an image because of its bytes.
    init(_ error: ImageFormatError) {
        let code: Code =
            switch error.reason {
            case .notAnImage: .notAnImage
            case .unsupportedType: .unsupportedType
            case .excludedType: .excludedType
            case .damagedImage: .damagedImage
            case .truncatedImage: .truncatedImage
            case .tooManyPixels: .tooManyPixels
            }
        self.init(code, error.message)
    }
}
