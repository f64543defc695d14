internal import Glibc
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
                    users: Self.numbers(settings.users, "\(path).users", logger, Accounts.user),
                    groups: Self.numbers(settings.groups, "\(path).groups", logger, Accounts.group)))
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
        _ accounts: [ImageOriginSettings.Account], _ setting: String, _ logger: Logger, _ find: (String) -> UInt32?
    ) -> Set<UInt32> {
        var numbers: Set<UInt32> = []
        for account in accounts {
            switch account {
            case .number(let number): numbers.insert(UInt32(number))
            case .name(let name):
                guard let number = find(name) else {
                    logger.warning(
                        "the settings name an account that this host does not have; nobody is let in by it",
                        metadata: ["setting": "\(setting)", "name": "\(name)"])
                    continue
                }
                numbers.insert(number)
            }
        }
        return numbers
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

/// The numbers of users and groups by name (getpwnam(3), getgrnam(3)): asked for one at a time, at the start and when the
/// settings are read again.
private enum Accounts {
    static func user(_ name: String) -> UInt32? {
        var (record, buffer) = (passwd(), [CChar](repeating: 0, count: 1 << 16))
        var found: UnsafeMutablePointer<passwd>?
        guard getpwnam_r(name, &record, &buffer, buffer.count, &found) == 0, let found else { return nil }
        return found.pointee.pw_uid
    }

    static func group(_ name: String) -> UInt32? {
        var (record, buffer) = (Glibc.group(), [CChar](repeating: 0, count: 1 << 16))
        var found: UnsafeMutablePointer<Glibc.group>?
        guard getgrnam_r(name, &record, &buffer, buffer.count, &found) == 0, let found else { return nil }
        return found.pointee.gr_gid
    }
}
