internal import LarderConfig
public import LarderImages
public import Logging

extension ImageSettings {
    /// The settings as the cache takes them: accounts by their numbers, credentials to be read when they are shown.
    ///
    /// An account that this host does not know is nobody's, and logged: it may be one that was removed.
    ///
    /// - Parameter directory: where the images are
    /// - Throws: ``ImageError/Code/invalidURL`` for an origin that is none
    public func cacheSettings(directory: String, logger: Logger) throws(ImageError) -> ImageCacheSettings {
        var origins: [ImageOrigin] = []
        for (name, settings) in self.origins.sorted(by: { $0.key < $1.key }) {
            let path = SettingsPath.root.appending("images").appending("origins").appending(name)
            origins.append(
                try ImageOrigin(
                    name, credential: settings.credential, ignoredQuery: settings.ignoredQuery,
                    users: Self.numbers(settings.users, .user, "\(path).users", logger),
                    groups: Self.numbers(settings.groups, .group, "\(path).groups", logger)))
        }
        return ImageCacheSettings(
            directory: directory,
            space: SpaceLimits(
                bytes: maximumBytes, count: maximumImages, freeBytes: minimumFreeBytes, bytesPerImage: imageBytes),
            images: ImageLimits(maximumPixels: imagePixels, excludedTypes: excludedTypes), maximumAge: maximumAge,
            flights: FlightLimits(total: concurrency, perOrigin: min(concurrency, concurrencyPerOrigin)),
            allowedNetworks: allowedNetworks, origins: origins)
    }

    private static func numbers(
        _ accounts: [Account], _ kind: AccountNumbers.Kind, _ setting: String, _ logger: Logger
    ) -> Set<UInt32> {
        let numbers = AccountNumbers(kind: kind, setting: setting, logger: logger)
        return Set(accounts.compactMap(numbers.number))
    }
}

extension ImageOriginSettings {
    /// What the origin is shown; nil for nothing.
    fileprivate var credential: ImageCredential? {
        guard hasCredential else { return nil }
        let access = access
        return ImageCredential { () throws(ImageError) in
            do throws(ConfigError) {
                return try access.fields()
            } catch {
                throw ImageError(.upstreamFailed, error.message)
            }
        }
    }
}
