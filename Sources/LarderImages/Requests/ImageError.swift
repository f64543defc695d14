internal import LarderImageFormats
package import LarderUpstream

/// What can go wrong with an image or with its place in the cache, said so that somebody knows what to do next.
package struct ImageError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Which kind of error; new kinds may be added, so compare with the static members.
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

        /// The bytes are something else; the message says what they look like.
        package static let notAnImage = Self(kind: .notAnImage)
        /// An image of a type that the cache does not know how to check.
        package static let unsupportedType = Self(kind: .unsupportedType)
        /// An image of a type that the settings exclude.
        package static let excludedType = Self(kind: .excludedType)
        /// The header contradicts itself or the format's rules.
        package static let damagedImage = Self(kind: .damagedImage)
        /// The bytes end before the image does.
        package static let truncatedImage = Self(kind: .truncatedImage)
        /// Decoded, the image would have more pixels than the limit.
        package static let tooManyPixels = Self(kind: .tooManyPixels)
        /// More bytes than one image may have.
        package static let tooLarge = Self(kind: .tooLarge)
        /// The body is not as long as was declared.
        package static let lengthDisagrees = Self(kind: .lengthDisagrees)
        /// The body is not what was expected by its digest.
        package static let digestDisagrees = Self(kind: .digestDisagrees)
        /// A file changed while it was read.
        package static let fileChanged = Self(kind: .fileChanged)
        /// A file that is not a regular one, or that cannot be read.
        package static let unusableFile = Self(kind: .unusableFile)
        /// A limit of the cache or of the disk leaves no room; nothing that is held was harmed.
        package static let noRoom = Self(kind: .noRoom)
        /// A file on disk is not what its name says; it was removed.
        package static let damagedBlob = Self(kind: .damagedBlob)
        /// The cache directory could not be read or written.
        package static let storageFailed = Self(kind: .storageFailed)
        /// The index's database is damaged; ``ImageIndex/open(in:now:)`` restores it.
        package static let indexDamaged = Self(kind: .indexDamaged)
        /// A newer agent wrote the index.
        package static let newerIndex = Self(kind: .newerIndex)
        /// Another process holds the cache directory.
        package static let cacheInUse = Self(kind: .cacheInUse)
        /// The URL cannot be fetched: it is not absolute, not `http` or `https`, or its host is written in a trick.
        package static let invalidURL = Self(kind: .invalidURL)
        /// The host of the URL, or of a redirect, is at an address that the settings do not allow.
        package static let forbiddenAddress = Self(kind: .forbiddenAddress)
        /// The origin cannot be reached, and nothing is held that would do.
        package static let offline = Self(kind: .offline)
        /// The origin was reached and gave no usable answer; ``ImageError/cause`` says more.
        package static let upstreamFailed = Self(kind: .upstreamFailed)
        /// The request wanted no network, and nothing is held that would do.
        package static let notHeld = Self(kind: .notHeld)
        /// The requester has no access to the image, or lost it.
        package static let denied = Self(kind: .denied)
        /// The request's deadline passed; what it waited for may go on for others.
        package static let timeout = Self(kind: .timeout)
        /// The request was cancelled.
        package static let cancelled = Self(kind: .cancelled)
        /// The agent is stopping.
        package static let shuttingDown = Self(kind: .shuttingDown)

        package var description: String { kind.rawValue }
    }

    package let code: Code
    /// What happened and what to do, in one line, without secrets.
    package let message: String
    /// What would have to go to make room, with ``Code/noRoom``; nothing where no removal would help.
    package let shortage: SpaceShortage?
    /// What asking the origin ended with, where that is the reason.
    package let cause: UpstreamError?
    /// For how many seconds the origin allows its response to be reused: 0 if it must not be kept, nil if it does not say.
    let lifetime: Int?

    /// Makes an error.
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

    /// The same error of a response that may be reused for so many seconds.
    func with(lifetime: Int?) -> ImageError {
        ImageError(code, message, shortage: shortage, cause: cause, lifetime: lifetime)
    }

    package var description: String { message }
}

extension ImageError {
    /// What asking the origin ended with, as whoever wants the image sees it.
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
        // Fetchers of documents say so; of an image nothing may be held.
        let kept = "; what was held before stays in use"
        let message = cause.message.hasSuffix(kept) ? String(cause.message.dropLast(kept.count)) : cause.message
        self.init(code, message, cause: cause)
    }

    /// A refusal by what the bytes are.
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
