/// The reason why bytes are rejected as an image.
package struct ImageFormatError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Reason: String, Sendable, Hashable {
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
    }

    package let reason: Reason
    /// One line that describes the problem and what to do about it.
    package let message: String

    package init(_ reason: Reason, _ message: String) {
        self.reason = reason
        self.message = message
    }

    package var description: String { message }
}

extension ImageFormatError {
    static func damaged(_ type: ImageType, _ what: String) -> ImageFormatError {
        ImageFormatError(.damagedImage, "the \(type.name) image is damaged: \(what); serve or store an intact image")
    }

    /// The error for an image that ends within its header.
    static func truncated(_ type: ImageType) -> ImageFormatError {
        ImageFormatError(
            .truncatedImage, "the \(type.name) image ends within its header; serve or store the whole image")
    }

    /// The error for an image that ends after its header, but before the end that its format defines.
    package static func cutOff(_ type: ImageType, after bytes: Int) -> ImageFormatError {
        ImageFormatError(
            .truncatedImage,
            "the \(type.name) image is cut off after \(bytes) bytes; serve or store the whole image")
    }

    static func notAnImage(_ looksLike: String) -> ImageFormatError {
        ImageFormatError(
            .notAnImage, "this is not an image (it looks like \(looksLike)); use the URL of an image, or store an image"
        )
    }

    static func unsupported(_ name: String) -> ImageFormatError {
        let known = ImageType.allCases.map(\.name).joined(separator: ", ")
        return ImageFormatError(.unsupportedType, "\(name) is not supported; serve one of \(known)")
    }
}
