import LarderImageFormats
import LarderImages
import LarderSettings
import LarderUpstream
import Logging
import Testing

@Suite("Image settings")
struct ImageSettingsTests {
    private func images(_ members: String) throws -> ImageSettings { try settings("{images: {\(members)}}").images }

    @Test("all image settings have defaults")
    func defaults() throws {
        #expect(try settings("{}").images == ImageSettings())
        #expect(try images("") == ImageSettings())
        let defaults = ImageSettings()
        #expect(defaults.isEnabled && defaults.space.bytes == 1 << 30 && defaults.space.count == 100_000)
        #expect(defaults.maximumAge == nil && defaults.leaseSeconds == 300)
        #expect(defaults.limits.maximumPixels == 1_000_000_000)
    }

    @Test("every image setting is read")
    func everything() throws {
        let images = try images(
            """
            enabled: false, maximumBytes: 1e9, maximumImages: 10, maximumAgeSeconds: 3600, minimumFreeBytes: 0,
            maximumImageBytes: 1048576, maximumImagePixels: 1000000, excludedTypes: ['svg', 'ico'],
            allowNetworks: ['10.0.0.0/8', '::1/128'], concurrency: 4, concurrencyPerOrigin: 2, concurrencyPerUser: 3,
            minimumBytesPerSecond: 100, minimumBytesPerSecondWhileAwaited: 200, maximumSilenceSeconds: 30,
            failures: {notFoundSeconds: 0, rejectedSeconds: 1, serverErrorSeconds: 2, networkSeconds: 3}, leaseSeconds: 60,
            origins: {'https://img.example.org': {ignoreQuery: ['sig', 'X-Amz-*']}}
            """)
        #expect(!images.isEnabled && images.space.bytes == 1_000_000_000 && images.space.count == 10)
        #expect(images.maximumAge == 3600 && images.space.freeBytes == 0 && images.space.bytesPerImage == 1 << 20)
        #expect(images.limits.maximumPixels == 1_000_000 && images.limits.excludedTypes == [.svg, .ico])
        #expect(images.allowedNetworks.map(\.description) == ["10.0.0.0/8", "::1/128"])
        let downloadLimits = DownloadLimits(
            total: 4, perOrigin: 2, perUser: 3, minimumRate: 100, minimumRateWhileAwaited: 200, maxSilenceSeconds: 30)
        #expect(images.downloadLimits == downloadLimits && images.leaseSeconds == 60)
        #expect(images.failures == FailureLifetimes(notFound: 0, rejected: 1, serverError: 2, network: 3))
        #expect(images.origins["https://img.example.org"]?.ignoredQuery == ["sig", "X-Amz-*"])
        #expect(images.origins["https://img.example.org"]?.hasCredential == false)
    }

    @Test("by default, one user may have half of the concurrent downloads, rounded up")
    func userShare() throws {
        #expect(try images("").downloadLimits.perUser == 8)
        #expect(try images("concurrency: 5").downloadLimits.perUser == 3)
        #expect(try images("concurrency: 4, concurrencyPerUser: 200").downloadLimits.perUser == 4)
    }

    @Test("an origin is read with its credential and the users and groups that may get its images")
    func credential() throws {
        let origin = try images(
            """
            origins: {'HTTPS://Img.example.org:443': {
                headers: {'X-Key': 'k'}, tokenFile: '/t', users: ['alice', 1000], groups: ['www-data', 33]}}
            """
        ).origins["https://img.example.org"]
        #expect(origin?.access == HTTPAccess(headers: ["X-Key": "k"], token: .file("/t")))
        #expect(origin?.users == [.name("alice"), .number(1000)])
        #expect(origin?.groups == [.name("www-data"), .number(33)])
        #expect(origin?.hasCredential == true)
    }

    @Test("in a small cache, an image may by default be as large as the whole cache")
    func smallCache() throws {
        #expect(try images("maximumBytes: 1000000").space.bytesPerImage == 1_000_000)
    }

    @Test(
        "an invalid image setting is reported with its name and a fix",
        arguments: [
            ("maximumByte: 1", ".maximumByte is not a setting; did you mean \"maximumBytes\"?"),
            ("maximumBytes: 1", ".maximumBytes must be a whole number from 65536 to"),
            (
                "maximumBytes: 100000, maximumImageBytes: 100001",
                ".maximumImageBytes is 100001, more than maximumBytes (100000)"
            ),
            ("excludedTypes: ['svgz']", ".excludedTypes[0] must be one of \"png\""),
            ("allowNetworks: ['10.0.0.0/33']", ".allowNetworks[0] must be an address or a block of addresses such as"),
            ("allowNetworks: '10.0.0.0/8'", ".allowNetworks must be an array of strings"),
            ("failures: {notFoundSeconds: -1}", ".notFoundSeconds must be a whole number from 0 to 86400"),
            ("failures: {notFound: 1}", ".notFound is not a setting; did you mean \"notFoundSeconds\"?"),
            ("concurrencyPerUser: 0", ".concurrencyPerUser must be a whole number from 1 to 256"),
            ("leaseSeconds: 0", ".leaseSeconds must be a whole number from 1 to 86400"),
            ("origins: {'img.example.org': {}}", "[\"img.example.org\"] is not an absolute http or https URL"),
            ("origins: {'http://h/a': {}}", "must end after the host and port"),
            ("origins: {'http://h?x': {}}", "must end after the host and port"),
            ("origins: {'http://h': {}, 'http://H:80': {}}", "is the same origin as another one here"),
            ("origins: {'http://h': {user: ['a']}}", ".user is not a setting; did you mean \"users\"?"),
            ("origins: {'http://h': {users: ['a']}}", ".users has no effect without \"headers\""),
            (
                "origins: {'http://h': {tokenFile: '/t', users: 'a'}}",
                ".users must be an array of names such as \"alice\" and numbers, not \"a\""
            ),
            (
                "origins: {'http://h': {tokenFile: '/t', groups: [-1]}}",
                ".groups must contain names such as \"www-data\" and numbers, not -1"
            ),
            ("origins: {'http://h': {tokenFile: '/t', users: [1.5]}}", ".users must contain names"),
            ("origins: {'http://h': {ignoreQuery: ['*']}}", ".ignoreQuery[0] must be the name of a query member"),
            ("origins: {'http://h': {ignoreQuery: ['a&b']}}", ".ignoreQuery[0] must be the name of a query member"),
            ("origins: {'http://h': {certificateAuthority: '/c'}}", ".certificateAuthority has no effect without TLS"),
            ("origins: {'https://h': {certificate: '/c'}}", ".certificate needs \"privateKey\" too"),
            (
                "origins: {'https://h': {certificateAuthority: '/c', users: ['a']}}",
                ".users has no effect without \"headers\""
            ),
        ])
    func refused(members: String, message: String) {
        let error = #expect(throws: SettingsError.self) { try images(members) }
        #expect(error?.description.contains(message) == true, "\(error?.description ?? "")")
    }

    @Test("a client certificate is a credential, and a certificate authority alone is not")
    func certificates() throws {
        let settings = try images(
            "origins: {'https://a': {certificateAuthority: '/ca'}, "
                + "'https://b': {certificateAuthority: '/ca', certificate: '/c', privateKey: '/k', users: [7]}}")
        let origins = try settings.cacheSettings(directory: "/d", logger: Logger(label: "x")).origins
        #expect(origins.map(\.name) == ["https://a", "https://b"])
        #expect(origins.map { $0.credential == nil } == [true, false])
        #expect(origins.map(\.tls.certificateAuthority) == ["/ca", "/ca"])
        #expect(origins.map(\.tls.privateKey) == [nil, "/k"])
        #expect(origins.map(\.users) == [[], [7]])
    }

    @Test("header values do not appear in descriptions of settings or in errors")
    func secrets() throws {
        let error = #expect(throws: SettingsError.self) {
            try images("origins: {'http://h': {headers: {Authorization: 'hidden '}}}")
        }
        #expect(error?.description.contains("hidden") == false)
        let read = try images("origins: {'http://h': {headers: {Authorization: 'hidden'}}}")
        #expect(!"\(read)".contains("hidden"))
    }
}
