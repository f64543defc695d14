public import LarderImages
public import LarderUpstream

/// `images`: what the image cache may hold, from where, and for whom.
///
/// The directory is no part of it: images are in `images` below `cache.directory`.
public struct ImageSettings: Sendable, Equatable {
    /// `enabled`: whether there is an image cache. Default: true.
    public var isEnabled = true
    /// `maximumBytes`: all images together, 64 KiB to 1 PiB. Default: 1 GiB.
    public var maximumBytes = 1 << 30
    /// `maximumImages`: how many, 1 to 10,000,000. Default: 100,000.
    public var maximumImages = 100_000
    /// `maximumAgeSeconds`: how long an image that nobody uses is held, a minute to ten years. Default: for ever.
    public var maximumAge: Int?
    /// `minimumFreeBytes`: what the file system keeps free for others, 0 to 1 PiB. Default: 256 MiB.
    public var minimumFreeBytes = 256 << 20
    /// `imageBytes`: the largest file of an image, 1 KiB to 4 GiB less one byte, at most ``maximumBytes``.
    /// Default: 64 MiB, or ``maximumBytes`` where that is less.
    public var imageBytes = 64 << 20
    /// `imagePixels`: the most pixels of an image, 1 to 2^40. Default: 50 million.
    public var imagePixels = 50_000_000
    /// `excludedTypes`: types that are refused, such as "svg". Default: none.
    public var excludedTypes: Set<ImageType> = []
    /// `allowNetworks`: addresses, and blocks of them, that are not of the Internet and may be asked all the same. Default: none.
    public var allowedNetworks: [AddressRange] = []
    /// `concurrency`: downloads at a time, 1 to 256. Default: 16.
    public var concurrency = 16
    /// `concurrencyPerOrigin`: of these at one origin, 1 to 256. Default: 6.
    public var concurrencyPerOrigin = 6
    /// `leaseSeconds`: how long a file stays for a client that does not say, 1 s to a day. Default: 300.
    public var leaseSeconds = 300
    /// `origins`: what is special about some, by their scheme, host and port in lower case, such as
    /// `https://img.example.org`. Default: nothing.
    public var origins: [String: ImageOriginSettings] = [:]

    public init() {}
}

extension ImageSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "enabled", "maximumBytes", "maximumImages", "maximumAgeSeconds", "minimumFreeBytes", "imageBytes",
                "imagePixels", "excludedTypes", "allowNetworks", "concurrency", "concurrencyPerOrigin", "leaseSeconds",
                "origins",
            ])
        isEnabled = try reader.truth("enabled") ?? isEnabled
        maximumBytes = try reader.integer("maximumBytes", in: 1 << 16...1 << 50) ?? maximumBytes
        maximumImages = try reader.integer("maximumImages", in: 1...10_000_000) ?? maximumImages
        maximumAge = try reader.integer("maximumAgeSeconds", in: 60...315_360_000)
        minimumFreeBytes = try reader.integer("minimumFreeBytes", in: 0...1 << 50) ?? minimumFreeBytes
        imageBytes =
            try reader.integer("imageBytes", in: 1024...Int(UInt32.max)) ?? min(imageBytes, maximumBytes)
        imagePixels = try reader.integer("imagePixels", in: 1...1 << 40) ?? imagePixels
        let types = ImageType.allCases.map(\.rawValue)
        let excluded = try reader.strings(
            "excludedTypes", each: "one of \(types.map { "\"\($0)\"" }.joined(separator: ", "))",
            where: types.contains)
        excludedTypes = Set((excluded ?? []).compactMap(ImageType.init(rawValue:)))
        let networks = try reader.strings(
            "allowNetworks", each: "an address or a block of them such as \"10.0.0.0/8\" or \"fd00::/8\"",
            where: { AddressRange($0) != nil })
        allowedNetworks = (networks ?? []).compactMap(AddressRange.init)
        concurrency = try reader.integer("concurrency", in: 1...256) ?? concurrency
        concurrencyPerOrigin = try reader.integer("concurrencyPerOrigin", in: 1...256) ?? concurrencyPerOrigin
        leaseSeconds = try reader.integer("leaseSeconds", in: 1...86400) ?? leaseSeconds
        origins = try reader.section("origins", ImageOriginSettings.all) ?? origins
        guard imageBytes <= maximumBytes else {
            throw reader.failure(
                "imageBytes", "is \(imageBytes), more than maximumBytes (\(maximumBytes)) has room for; lower it")
        }
    }
}
