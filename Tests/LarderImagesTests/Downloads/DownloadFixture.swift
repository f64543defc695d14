import Foundation
import LarderHTTPSemantics
import LarderUpstream
import NIOPosix
import Synchronization
import TestSupport

@testable import LarderImages

/// A resolver that returns the given lists of addresses in order, one for each lookup, and the last list for all
/// further lookups.
final class ScriptedResolver: HostResolver {
    private let answers: Mutex<[[String]]>
    private let count = Mutex(0)

    init(_ answers: [String]...) { self.answers = Mutex(answers) }

    /// The number of lookups.
    var lookups: Int { count.withLock { $0 } }

    func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] {
        count.withLock { $0 += 1 }
        return answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }.compactMap { IPAddress($0) }
    }
}

/// A store in an empty directory, and a fetcher that permits 127.0.0.1 but no other local address.
final class DownloadFixture: Sendable {
    static let now = 1_700_000_000

    let path: String
    let disk: ImageDiskCache
    let fetcher: ImageFetcher
    /// The waits between attempts that the downloads requested. Each wait ends immediately.
    let waits = Mutex<[Duration]>([])
    /// Counts the bytes that all downloads received.
    let received = ByteCounter()

    private init(
        _ path: String, _ limits: SpaceLimits, _ resolver: any HostResolver, _ timeouts: FetchTimeouts
    ) throws {
        self.path = path
        disk = ImageDiskCache(try BlobStore(counting: path, limits: limits), CacheFixture.blocking)
        let configuration = HTTPFetcher.Configuration(version: "1.2.3", connectTimeout: .seconds(300))
        fetcher = ImageFetcher(configuration: configuration, resolver: resolver, timeouts: timeouts)
        fetcher.update(allowedNetworks: [AddressRange("127.0.0.1/32")].compactMap { $0 })
    }

    /// Long timeouts, for busy machines.
    static let patient = FetchTimeouts(idle: .seconds(300), whole: .seconds(900))

    static func run<Value>(
        limits: SpaceLimits = SpaceLimits(freeBytes: 0, bytesPerImage: 1 << 20),
        resolver: any HostResolver = SystemResolver(.singleton), timeouts: FetchTimeouts = patient,
        _ body: (DownloadFixture) async throws -> Value
    ) async throws -> Value {
        let directory = try TemporaryDirectory()
        defer { withExtendedLifetime(directory) {} }
        let fixture = try DownloadFixture(directory.path + "/cache", limits, resolver, timeouts)
        do {
            let value = try await body(fixture)
            await fixture.fetcher.shutdown()
            return value
        } catch {
            await fixture.fetcher.shutdown()
            throw error
        }
    }

    func download(
        _ url: String, headers: [(name: String, value: String)] = [], cached: StoredResponse? = nil,
        expectedDigest: BlobDigest? = nil, limits: DownloadLimits? = nil,
        reclaim: @escaping @Sendable (SpaceShortage) async -> Bool = { _ in false },
        sleep: (@Sendable (Duration) async throws -> Void)? = nil
    ) -> TestDownload {
        let clock = ImageClock(
            now: { Self.now }, uptime: { Self.now },
            sleep: sleep ?? { wait in self.waits.withLock { $0.append(wait) } })
        return TestDownload(
            downloader: ImageDownloader(fetcher: fetcher, disk: disk, clock: clock),
            order: DownloadOrder(
                id: TransferID(number: 1), url: url, headers: headers, cached: cached, expectedDigest: expectedDigest,
                limits: limits),
            progress: DownloadProgress(total: received), owner: TestOwner(makeRoom: reclaim))
    }

    /// Whether downloads have left no file and no reservation.
    var isEmpty: Bool {
        disk.accounts.usage == SpaceUsage(bytes: 0, count: 0, reservedBytes: 0)
            && filesBelow(path).keys.sorted() == ["lock"]
    }

    /// The names in `tmp/`.
    var temporaryFiles: [String] { filesBelow(path).keys.filter { $0.hasPrefix("tmp/") } }
}

/// One download, and the owner from which it requests space.
struct TestDownload: Sendable {
    let downloader: ImageDownloader
    let order: DownloadOrder
    let progress: DownloadProgress
    let owner: TestOwner

    func run() async throws(ImageError) -> DownloadOutcome {
        try await downloader.download(order, progress, for: owner)
    }
}

struct TestOwner: DownloadOwner {
    let makeRoom: @Sendable (SpaceShortage) async -> Bool

    func reclaim(_ shortage: SpaceShortage, for id: TransferID) async throws(ImageError) -> Bool {
        await makeRoom(shortage)
    }

    func spaceFound(by id: TransferID) async {}

    func attemptFailed(_ id: TransferID, _ error: ImageError) async {}
}

/// A stored response of a URL with an entity tag.
func stored(_ tag: String, _ url: String) -> StoredResponse {
    StoredResponse(
        status: 200, fields: ResponseFields([("ETag", tag), ("Cache-Control", "max-age=1")]), url: url, request: [],
        requestTime: 1, responseTime: 1)
}

extension RawOrigin.Step {
    static func text(_ text: String) -> Self { .send(Array(text.utf8)) }

    /// A response head with these lines, beginning with the status line.
    static func head(_ lines: String...) -> Self { .text(lines.map { $0 + "\r\n" }.joined() + "\r\n") }

    /// A complete response.
    static func ok(_ body: [UInt8], _ lines: String...) -> Self {
        let head = ["HTTP/1.1 200 OK", "Content-Length: \(body.count)"] + lines
        return .send(Array((head.map { $0 + "\r\n" }.joined() + "\r\n").utf8) + body)
    }

    /// A status without a body.
    static func status(_ status: String, _ lines: String...) -> Self {
        .text((["HTTP/1.1 \(status)", "Content-Length: 0"] + lines).map { $0 + "\r\n" }.joined() + "\r\n")
    }

    static func chunk(_ bytes: [UInt8]) -> Self {
        .send(Array((String(bytes.count, radix: 16) + "\r\n").utf8) + bytes + [13, 10])
    }
}
