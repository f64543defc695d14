import LarderImages
import LarderUpstream
import LarderWire

extension WireError {
    /// An error of the image cache in the protocol's words.
    init(_ error: ImageError) {
        switch error.code {
        case .notHeld: self.init(.notFound, error.message)
        case .offline: self.init(.offline, error.message)
        case .forbiddenAddress: self.init(.forbiddenAddress, error.message)
        case .notAnImage, .unsupportedType, .excludedType, .damagedImage, .truncatedImage, .tooManyPixels, .tooLarge,
            .lengthDisagrees, .digestDisagrees:
            self.init(.imageRefused, error.message, reason: error.code.description)
        case .noRoom: self.init(.noRoom, error.message)
        case .upstreamFailed: self.init(.upstreamFailed, error.message, reason: error.cause?.code.description)
        case .storageFailed, .damagedBlob, .indexDamaged: self.init(.storageFailed, error.message)
        case .timeout: self.init(.timeout, error.message)
        case .cancelled: self.init(.cancelled, error.message)
        case .invalidURL: self.init(.invalidParams, error.message)
        case .shuttingDown: self.init(.shuttingDown, error.message)
        default: self.init(.internalError, error.message)
        }
    }
}
