/// The reason why bytes are refused as an image.
package struct ImageFormatError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Reason: String, Sendable, Hashable {
        /// The bytes are something else; the message says what they look like.
        case notAnImage
        /// The image has a type that has no header parser.
        case unsupportedType
        /// The settings exclude images of the type.
        case excludedType
        /// The header contradicts itself or the rules of the format.
        case damagedImage
        /// The bytes end before the image does.
        case truncatedImage
        /// The decoded image would have more pixels than the limit.
        case tooManyPixels
    }

    package let reason: Reason
    /// What happened and what to do, in one line.
    package let message: String

    package init(_ reason: Reason, _ message: String) {
        self.reason = reason
        self.message = message
    }

    package var description: String { message }
}

extension ImageFormatError {
    /// The header contradicts itself or the rules of the format.
    static func damaged(_ type: ImageType, _ what: String) -> ImageFormatError {
        ImageFormatError(.damagedImage, "the \(type.name) image is damaged: \(what); serve or store a whole one")
    }

    /// The bytes end within the header.
    static func truncated(_ type: ImageType) -> ImageFormatError {
        ImageFormatError(
            .truncatedImage, "the \(type.name) image ends within its header; serve or store a whole one")
    }

    /// The bytes end before the image does.
    package static func cutOff(_ type: ImageType, after bytes: Int) -> ImageFormatError {
        ImageFormatError(
            .truncatedImage,
            "the \(type.name) image does not come to its end in its \(bytes) bytes; serve or store a whole one")
    }

    /// The header does not end within the limit.
    static func headerTooLong(_ type: ImageType, limit: Int) -> ImageFormatError {
        damaged(type, "its size is not among its first \(limit) bytes")
    }

    /// The bytes are not an image.
    static func notAnImage(_ looksLike: String) -> ImageFormatError {
        ImageFormatError(
            .notAnImage, "this is not an image but looks like \(looksLike); use the URL of an image, or store an image")
    }

    /// The image has a type that has no header parser.
    static func unsupported(_ name: String) -> ImageFormatError {
        let known = ImageType.allCases.map(\.name).joined(separator: ", ")
        return ImageFormatError(.unsupportedType, "\(name) is not supported; serve one of \(known)")
    }
}
