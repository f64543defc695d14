/// A type of image whose header can be read.
package enum ImageType: String, Sendable, Hashable, CaseIterable {
    /// Portable Network Graphics (W3C PNG, third edition), with APNG's animations.
    case png
    /// JPEG (ITU-T T.81) with JFIF or EXIF, or without.
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
    /// Scalable Vector Graphics, not compressed.
    case svg
    /// HEVC images and image sequences (ISO/IEC 23008-12).
    case heic
    /// JPEG XL (ISO/IEC 18181), with or without a container.
    case jxl

    /// The type for `Content-Type` and for clients.
    package var mediaType: String {
        switch self {
        case .ico: "image/vnd.microsoft.icon"
        case .svg: "image/svg+xml"
        default: "image/" + rawValue
        }
    }

    /// The name that people use.
    package var name: String {
        switch self {
        case .webp: "WebP"
        case .jxl: "JPEG XL"
        default: rawValue.uppercased()
        }
    }
}

/// What an image's header says.
package struct ImageHeader: Sendable, Hashable {
    /// The type, by what the bytes are and not by what anybody called them.
    package let type: ImageType
    /// The width in pixels as the image is shown, that is after ``orientation``; at least 1.
    package let width: Int
    /// The height in pixels as the image is shown, at least 1.
    package let height: Int
    /// How many pictures are shown one after the other: 1 for what cannot move, nothing where only the whole file would
    /// tell (GIF, animated WebP, AVIF sequences, icons).
    package let frameCount: Int?
    /// How a decoder has to turn or mirror the picture, 2 to 8 as EXIF counts (tag 0x0112); nothing where it is upright
    /// already. Only JPEG says it like that.
    package let orientation: Int?
    /// Whether the image is an animation; nil if only the whole file shows it (GIF, icons).
    package let isAnimated: Bool?
    /// Whether pixels may be transparent; nil if the header does not show it.
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

    /// The header of the first frame alone.
    package var still: ImageHeader {
        ImageHeader(
            type, width: width, height: height, frameCount: 1, orientation: orientation, hasAlpha: hasAlpha)
    }

    /// How many pixels a decoder would have to hold: width times height times the frames that are known of; nothing
    /// where that is more than 2^63.
    package var pixelCount: Int? {
        let (area, areaOverflows) = width.multipliedReportingOverflow(by: height)
        let (pixels, pixelsOverflow) = area.multipliedReportingOverflow(by: frameCount ?? 1)
        return areaOverflows || pixelsOverflow ? nil : pixels
    }
}

/// What the settings allow an image to be, whatever the size of its file.
package struct ImageLimits: Sendable, Hashable {
    /// The most pixels, all known frames together.
    package var maximumPixels: Int
    /// Types that are refused.
    package var excludedTypes: Set<ImageType>

    /// Makes limits. The default of 1,000 megapixels admits the photos of all phones; nothing is decoded here.
    package init(maximumPixels: Int = 1_000_000_000, excludedTypes: Set<ImageType> = Self.rare) {
        self.maximumPixels = maximumPixels
        self.excludedTypes = excludedTypes
    }

    /// Types that most clients cannot decode. They are excluded unless the settings name other types.
    package static let rare: Set<ImageType> = [.heic, .jxl]

    /// Refuses an image that is over a limit.
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
                "the image is \(header.width) by \(header.height) pixels\(frames), over the limit of \(maximumPixels) "
                    + "pixels; raise the limit or serve a smaller one")
        }
    }
}
