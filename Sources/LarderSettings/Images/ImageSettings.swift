import LarderConfigModel
import LarderConfigSources
package import LarderImageFormats
package import LarderImages
import LarderJSON5
package import LarderUpstream
package import Logging

/// `images`: the limits, networks, origins and users of the image cache.
///
/// The directory of the images is not part of these settings. It is `images` below `cache.directory`.
package struct ImageSettings: Sendable, Equatable {
    /// `enabled`: whether there is an image cache. Default: true.
    package var isEnabled = true
    /// `maximumBytes`: the maximum disk space of all images, 64 KiB to 1 PiB. `maximumImages`: the maximum number of
    /// images, 1 to 10,000,000. `minimumFreeBytes`: the disk space that must stay free, 0 to 1 PiB.
    /// `maximumImageBytes`: the maximum size of one image, 1 KiB to 4 GiB less one byte and at most `maximumBytes`.
    package var space = SpaceLimits()
    /// `maximumImagePixels`, the maximum number of pixels of an image in all known frames together, 1 to 2^40; and
    /// `excludedTypes`, the media types that are rejected.
    package var limits = ImageLimits()
    /// `maximumAgeSeconds`: how long an unused image stays cached, one minute to ten years. Default: no limit.
    package var maximumAge: Int?
    /// `allowNetworks`: addresses and address blocks from which images may be fetched although they are not globally
    /// routable. Default: none.
    package var allowedNetworks: [AddressRange] = []
    /// `concurrency`, `concurrencyPerOrigin` and `concurrencyPerUser`: the maximum number of concurrent downloads in
    /// total, from one origin and for one user, each from 1 to 256. `minimumBytesPerSecond` and
    /// `minimumBytesPerSecondWhileAwaited`: the minimum rate of a download in bytes per second, at any time and while
    /// another user waits for the slot of this download, each from 1 to 1,000,000,000. `maximumSilenceSeconds`: how long
    /// the origin of a download may send nothing, 1 s to ten minutes.
    package var downloadLimits = DownloadLimits()
    /// `failures`: how long the cache remembers that a download failed, by kind of failure, 0 s (not at all) to a day.
    package var failures = FailureLifetimes()
    /// `leaseSeconds`: how long a lease lasts if the client does not specify it, 1 s to a day. Default: 300.
    package var leaseSeconds = 300
    /// `origins`: the settings of individual origins. The key is scheme, host and port in lower case, such as
    /// `https://img.example.org`. Default: none.
    package var origins: [String: ImageOriginSettings] = [:]
    /// The proxy of the whole agent (`proxy`, outside this section); nil for none.
    package var proxy: ProxySettings?

    package init() {}
}

extension ImageSettings {
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        let reader = try SettingsReader(
            value, at: path,
            knowing: [
                "enabled", "maximumBytes", "maximumImages", "maximumAgeSeconds", "minimumFreeBytes",
                "maximumImageBytes", "maximumImagePixels", "excludedTypes", "allowNetworks", "concurrency",
                "concurrencyPerOrigin", "concurrencyPerUser", "minimumBytesPerSecond",
                "minimumBytesPerSecondWhileAwaited", "maximumSilenceSeconds", "failures", "leaseSeconds", "origins",
            ])
        isEnabled = try reader.truth("enabled") ?? isEnabled
        space = try Self.space(reader)
        maximumAge = try reader.integer("maximumAgeSeconds", in: 60...315_360_000)
        limits.maximumPixels = try reader.integer("maximumImagePixels", in: 1...1 << 40) ?? limits.maximumPixels
        let types = ImageType.allCases.map(\.rawValue)
        let excluded = try reader.strings(
            "excludedTypes", each: "one of \(types.map { "\"\($0)\"" }.joined(separator: ", "))",
            where: types.contains)
        if let excluded { limits.excludedTypes = Set(excluded.compactMap(ImageType.init(rawValue:))) }
        let networks = try reader.strings(
            "allowNetworks", each: "an address or a block of addresses such as \"10.0.0.0/8\" or \"fd00::/8\"",
            where: { AddressRange($0) != nil })
        allowedNetworks = (networks ?? []).compactMap(AddressRange.init)
        let total = try reader.integer("concurrency", in: 1...256) ?? downloadLimits.total
        let perOrigin = try reader.integer("concurrencyPerOrigin", in: 1...256) ?? downloadLimits.perOrigin
        let perUser = try reader.integer("concurrencyPerUser", in: 1...256)
        let rates = 1...1_000_000_000
        downloadLimits = DownloadLimits(
            total: total, perOrigin: min(total, perOrigin), perUser: perUser.map { min(total, $0) },
            minimumRate: try reader.integer("minimumBytesPerSecond", in: rates) ?? downloadLimits.minimumRate,
            minimumRateWhileAwaited: try reader.integer("minimumBytesPerSecondWhileAwaited", in: rates)
                ?? downloadLimits.minimumRateWhileAwaited,
            maxSilenceSeconds: try reader.integer("maximumSilenceSeconds", in: 1...600)
                ?? downloadLimits.maxSilenceSeconds)
        failures = try reader.section("failures", Self.failures) ?? failures
        leaseSeconds = try reader.integer("leaseSeconds", in: 1...86400) ?? leaseSeconds
        origins = try reader.section("origins", ImageOriginSettings.all) ?? origins
    }

    private static func failures(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> FailureLifetimes {
        let reader = try SettingsReader(
            value, at: path, knowing: ["notFoundSeconds", "rejectedSeconds", "serverErrorSeconds", "networkSeconds"])
        var lifetimes = FailureLifetimes()
        lifetimes.notFound = try reader.integer("notFoundSeconds", in: 0...86_400) ?? lifetimes.notFound
        lifetimes.rejected = try reader.integer("rejectedSeconds", in: 0...86_400) ?? lifetimes.rejected
        lifetimes.serverError = try reader.integer("serverErrorSeconds", in: 0...86_400) ?? lifetimes.serverError
        lifetimes.network = try reader.integer("networkSeconds", in: 0...86_400) ?? lifetimes.network
        return lifetimes
    }

    private static func space(_ reader: SettingsReader) throws(SettingsError) -> SpaceLimits {
        let defaults = SpaceLimits()
        let bytes = try reader.integer("maximumBytes", in: 1 << 16...1 << 50) ?? defaults.bytes
        let bytesPerImage =
            try reader.integer("maximumImageBytes", in: 1024...Int(UInt32.max)) ?? min(defaults.bytesPerImage, bytes)
        guard bytesPerImage <= bytes else {
            throw reader.failure(
                "maximumImageBytes", "is \(bytesPerImage), more than maximumBytes (\(bytes)); lower it")
        }
        return SpaceLimits(
            bytes: bytes, count: try reader.integer("maximumImages", in: 1...10_000_000) ?? defaults.count,
            freeBytes: try reader.integer("minimumFreeBytes", in: 0...1 << 50) ?? defaults.freeBytes,
            bytesPerImage: bytesPerImage)
    }
}

extension ImageSettings {
    /// Converts the settings to those of the cache. Names of accounts become IDs. A file with a credential is not read
    /// here, but when the agent sends the credential.
    ///
    /// An account that does not exist on this host is logged and ignored.
    ///
    /// - Parameter directory: the directory of the images
    /// - Throws: ``ImageError/Code/invalidURL`` if the name of an origin is invalid
    package func cacheSettings(directory: String, logger: Logger) throws(ImageError) -> ImageCacheSettings {
        var origins: [ImageOrigin] = []
        for (name, settings) in self.origins.sorted(by: { $0.key < $1.key }) {
            let path = SettingsPath.root.appending("images").appending("origins").appending(name)
            do throws(UpstreamError) {
                origins.append(
                    try ImageOrigin(
                        name, credential: settings.hasCredential ? settings.access : nil, tls: settings.access.tls,
                        proxy: settings.access.proxy,
                        ignoredQuery: settings.ignoredQuery,
                        users: Self.numbers(settings.users, .user, "\(path).users", logger),
                        groups: Self.numbers(settings.groups, .group, "\(path).groups", logger)))
            } catch {
                throw ImageError(.invalidURL, error.message)
            }
        }
        var settings = ImageCacheSettings(directory: directory, space: space)
        settings.images = limits
        settings.maximumAge = maximumAge
        settings.downloadLimits = downloadLimits
        settings.failures = failures
        settings.allowedNetworks = allowedNetworks
        settings.origins = origins
        settings.proxy = proxy
        return settings
    }

    private static func numbers(
        _ accounts: [Account], _ kind: AccountNumbers.Kind, _ setting: String, _ logger: Logger
    ) -> Set<UInt32> {
        let numbers = AccountNumbers(kind: kind, setting: setting, logger: logger)
        return Set(accounts.compactMap(numbers.number))
    }
}
