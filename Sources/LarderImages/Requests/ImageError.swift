internal import LarderImageFormats
package import LarderUpstream

/// An error of the image cache. Its message says what failed and what to do next.
package struct ImageError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The kind of error. New kinds may be added, so compare with the static members.
    package struct Code: Sendable, Hashable, CustomStringConvertible {
        private enum Kind: String {
            case notAnImage, unsupportedType, excludedType, damagedImage, truncatedImage, tooManyPixels
            case tooLarge, lengthDisagrees, digestDisagrees, fileChanged, unusableFile, noRoom, damagedBlob,
                storageFailed, indexDamaged,
                newerIndex, cacheInUse
            case invalidURL, forbiddenAddress, offline, upstreamFailed, notHeld, denied, timeout, cancelled,
                shuttingDown
        }
        private let kind: Kind

        /// The bytes are not an image. The message names the format that they resemble.
        package static let notAnImage = Self(kind: .notAnImage)
        /// The bytes are an image of a type that is not supported.
        package static let unsupportedType = Self(kind: .unsupportedType)
        /// The settings exclude this image type.
        package static let excludedType = Self(kind: .excludedType)
        /// The header contradicts itself or the rules of the format.
        package static let damagedImage = Self(kind: .damagedImage)
        /// The bytes end before the image does.
        package static let truncatedImage = Self(kind: .truncatedImage)
        /// The decoded image would have more pixels than the limit.
        package static let tooManyPixels = Self(kind: .tooManyPixels)
        /// The image has more bytes than the limit for one image.
        package static let tooLarge = Self(kind: .tooLarge)
        /// The body is shorter or longer than its declared length.
        package static let lengthDisagrees = Self(kind: .lengthDisagrees)
        /// The SHA-256 of the body differs from the expected one.
        package static let digestDisagrees = Self(kind: .digestDisagrees)
        /// The client's file changed while it was read.
        package static let fileChanged = Self(kind: .fileChanged)
        /// The client's file is not in memory or cannot be read.
        package static let unusableFile = Self(kind: .unusableFile)
        /// The limits of the cache or the disk leave no room. Cached images are not affected.
        package static let noRoom = Self(kind: .noRoom)
        /// The file of a cached image was missing or damaged. A damaged file was removed.
        package static let damagedBlob = Self(kind: .damagedBlob)
        /// The cache directory could not be read or written.
        package static let storageFailed = Self(kind: .storageFailed)
        /// The index database is damaged. ``ImageIndex/open(in:now:)`` restores it at the next start.
        package static let indexDamaged = Self(kind: .indexDamaged)
        /// A newer version of the agent wrote the index.
        package static let newerIndex = Self(kind: .newerIndex)
        /// Another process has locked the cache directory.
        package static let cacheInUse = Self(kind: .cacheInUse)
        /// The URL cannot be fetched: it is not absolute, its scheme is not `http` or `https`, or URL parsers may
        /// disagree about its host.
        package static let invalidURL = Self(kind: .invalidURL)
        /// The host of the URL, or of a redirect, has an address that the settings do not allow.
        package static let forbiddenAddress = Self(kind: .forbiddenAddress)
        /// The origin cannot be reached, and no usable image is cached.
        package static let offline = Self(kind: .offline)
        /// The origin was reached but sent no usable response. See ``ImageError/cause``.
        package static let upstreamFailed = Self(kind: .upstreamFailed)
        /// The request forbids the network, and no usable image is cached.
        package static let notHeld = Self(kind: .notHeld)
        /// The client is not permitted to have the image, or lost the permission during the request.
        package static let denied = Self(kind: .denied)
        /// The deadline of the request has passed. The download may continue for other requests.
        package static let timeout = Self(kind: .timeout)
        package static let cancelled = Self(kind: .cancelled)
        package static let shuttingDown = Self(kind: .shuttingDown)

        package var description: String { kind.rawValue }
    }

    package let code: Code
    /// One line that says what happened and what to do. It contains no secrets.
    package let message: String
    /// For ``Code/noRoom``: the minimum disk space and number of images to evict. Nil if no eviction would help.
    package let shortage: SpaceShortage?
    /// The failure of the request to the origin, if that failure caused this error.
    package let cause: UpstreamError?
    /// The number of seconds for which the origin allows its response to be reused. 0 if the response must not be
    /// stored; nil if the origin does not specify the time.
    let lifetime: Int?

    package init(_ code: Code, _ message: String, shortage: SpaceShortage? = nil, cause: UpstreamError? = nil) {
        self.init(code, message, shortage: shortage, cause: cause, lifetime: nil)
    }

    init(_ code: Code, _ message: String, shortage: SpaceShortage? = nil, cause: UpstreamError? = nil, lifetime: Int?) {
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
}

extension ImageError {
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
