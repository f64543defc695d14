/// An image type whose header can be parsed.
package enum ImageType: String, Sendable, Hashable, CaseIterable {
    /// Portable Network Graphics (W3C PNG, third edition), including APNG animations.
    case png
    /// JPEG (ITU-T T.81), with or without JFIF or EXIF.
    case jpeg
    /// GIF 87a and 89a.
    case gif
    /// WebP (RFC 9649): lossy, lossless and extended.
    case webp
    /// AV1 images and image sequences (AVIF 1.1, over ISO/IEC 23008-12).
    case avif
    /// Windows and OS/2 bitmaps.
    case bmp
    /// Windows icons and cursors.
    case ico
    /// Scalable Vector Graphics, uncompressed.
    case svg
    /// HEVC images and image sequences (ISO/IEC 23008-12).
    case heic
    /// JPEG XL (ISO/IEC 18181), with or without a container.
    case jxl

    /// The media type, as in `Content-Type`.
    package var mediaType: String {
        switch self {
        case .ico: "image/vnd.microsoft.icon"
        case .svg: "image/svg+xml"
        default: "image/" + rawValue
        }
    }

    /// The common name, for messages.
    package var name: String {
        switch self {
        case .webp: "WebP"
        case .jxl: "JPEG XL"
        default: rawValue.uppercased()
        }
    }
}

/// The properties that an image's header gives.
package struct ImageHeader: Sendable, Hashable {
    /// The type detected from the bytes; the file name and the declared media type are ignored.
    package let type: ImageType
    /// The width in pixels as displayed, that is, after ``orientation`` has been applied. At least 1.
    package let width: Int
    /// The height in pixels as displayed. At least 1.
    package let height: Int
    /// The number of frames: 1 for a still image. Nil if the header does not show it (GIF, icons, and animations in
    /// WebP, AVIF, HEIC and JPEG XL).
    package let frameCount: Int?
    /// How a decoder must rotate or mirror the picture: 2 to 8, numbered as in EXIF (tag 0x0112). Nil if the picture
    /// needs no change. Only JPEG has such a value; decoders of other formats apply the rotation themselves.
    package let orientation: Int?
    /// Whether the image is an animation. Nil if the header does not show it (GIF, icons).
    package let isAnimated: Bool?
    /// Whether the image has an alpha channel or transparent colors. Nil if the header does not show it.
    package let hasAlpha: Bool?

    package init(
        _ type: ImageType, width: Int, height: Int, frameCount: Int?, orientation: Int? = nil,
        isAnimated: Bool? = nil, hasAlpha: Bool? = nil
    ) {
        self.type = type
        self.width = width
        self.height = height
        self.frameCount = frameCount
        self.orientation = orientation
        self.isAnimated = isAnimated ?? frameCount.map { $0 > 1 }
        self.hasAlpha = hasAlpha
    }

    /// The same header with at most `frames` frames, and at least one. The number of frames must be known.
    package func limited(toFrames frames: Int) -> ImageHeader {
        ImageHeader(
            type, width: width, height: height, frameCount: max(1, min(frameCount ?? 1, frames)),
            orientation: orientation, hasAlpha: hasAlpha)
    }

    /// The number of pixels that a decoder must hold in memory: width times height times the number of frames, if
    /// known. Nil if the product is 2^63 or more.
    package var pixelCount: Int? {
        let (area, areaOverflows) = width.multipliedReportingOverflow(by: height)
        let (pixels, pixelsOverflow) = area.multipliedReportingOverflow(by: frameCount ?? 1)
        return areaOverflows || pixelsOverflow ? nil : pixels
    }
}

/// Limits on images besides the file size.
package struct ImageLimits: Sendable, Hashable {
    /// The maximum of ``ImageHeader/pixelCount``, which counts the pixels of all known frames.
    package var maximumPixels: Int
    /// Types that are rejected.
    package var excludedTypes: Set<ImageType>

    /// Creates limits. The default of 1,000 megapixels admits the photos of all phones. The agent decodes no image, so
    /// the limit does not affect its own memory.
    package init(maximumPixels: Int = 1_000_000_000, excludedTypes: Set<ImageType> = Self.rare) {
        self.maximumPixels = maximumPixels
        self.excludedTypes = excludedTypes
    }

    /// Types that most clients cannot decode. They are excluded by default; the settings may name other types instead.
    package static let rare: Set<ImageType> = [.heic, .jxl]

    /// Throws if the image exceeds a limit.
    ///
    /// - Throws: ``ImageFormatError/Reason/excludedType``, ``ImageFormatError/Reason/tooManyPixels``
    package func check(_ header: ImageHeader) throws(ImageFormatError) {
        guard !excludedTypes.contains(header.type) else {
            throw ImageFormatError(
                .excludedType,
                "the settings exclude \(header.type.name) images; remove \"\(header.type.rawValue)\" from images.excludedTypes or request another type"
            )
        }
        guard let pixels = header.pixelCount, pixels <= maximumPixels else {
            let frames = header.frameCount.map { $0 > 1 ? " in \($0) frames" : "" } ?? ""
            throw ImageFormatError(
                .tooManyPixels,
                "the image is \(header.width) by \(header.height) pixels\(frames), more than \(maximumPixels) pixels "
                    + "(images.maximumImagePixels); raise the limit or serve a smaller image")
        }
    }
}

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
