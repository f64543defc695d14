import LarderEventLoop
import Foundation
import LarderHTTPSemantics
import LarderConfig
import LarderJSON
import LarderPlatform
import LarderUpstream
import LarderProtocol
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import LarderImages
@testable import LarderServer

/// Connections on real sockets, with an image cache and an origin inside the test.
final class ImageFixture: Sendable {
    /// An image of 7 by 5 pixels.
    static let png: [UInt8] = Array(
        Data(
            base64Encoded: """
                iVBORw0KGgoAAAANSUhEUgAAAAcAAAAFCAIAAAAG+GGPAAAAeUlEQVR4nAFuAJH/AAAHDhUcIyoxOD9GTVRbYmlwd36FjAAN\
                FBsiKTA3PkVMU1phaG92fYSLkpkAGiEoLzY9REtSWWBnbnV8g4qRmJ+mACcuNTxDSlFYX2ZtdHuCiZCXnqWsswA0O0JJUFde\
                ZWxzeoGIj5adpKuyucAilSdhXkUtgAAAAABJRU5ErkJggg==
                """) ?? Data())

    let images: ImageService
    let settings: ImageCacheSettings
    let context: ServerContext
    let gate: Gate
    private let directory: String

    /// Delays the responses of the origin while the gate is shut.
    final class Gate: Sendable {
        private struct State {
            var isShut = false
            var arrived = 0
            var waiting: [CheckedContinuation<Void, Never>] = []
            var watchers: [CheckedContinuation<Void, Never>] = []
        }
        private let state = Mutex(State())

        func shut() { state.withLock { $0.isShut = true } }

        func open() {
            let waiting = state.withLock { state in
                state.isShut = false
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }

        /// Returns once the origin has received at least one request since the start of the test.
        func waitForRequest() async {
            await withCheckedContinuation { continuation in
                let isThere = state.withLock { state in
                    if state.arrived > 0 { return true }
                    state.watchers.append(continuation)
                    return false
                }
                if isThere { continuation.resume() }
            }
        }

        func pass() async {
            let watchers = state.withLock { state in
                state.arrived += 1
                defer { state.watchers = [] }
                return state.watchers
            }
            for watcher in watchers { watcher.resume() }
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    if state.isShut { state.waiting.append(continuation) }
                    return !state.isShut
                }
                if isOpen { continuation.resume() }
            }
        }
    }

    /// Serves an image at each URL once the gate is open.
    private struct GatedOrigin: ImageOriginClient {
        let disk: ImageDiskCache
        let gate: Gate

        var requestFields: [(name: String, value: String)] { [] }

        func update(allowedNetworks: [AddressRange]) {}

        @concurrent
        func download(
            _ order: DownloadOrder, _ progress: DownloadProgress, for owner: any DownloadOwner
        ) async throws(ImageError) -> DownloadOutcome {
            await gate.pass()
            if order.url.contains("missing") { throw ImageError(.upstreamFailed, "404") }
            let writer = try disk.writers.begin()
            let bytes = ImageFixture.png + Array(order.url.utf8)
            progress.begin(total: bytes.count)
            try writer.append(bytes)
            progress.add(bytes.count)
            let control = order.url.contains("no-store") ? "no-store" : "max-age=3600"
            let now = ImageClock.system.now
            let response = StoredResponse(
                status: 200, fields: ResponseFields([(name: "Cache-Control", value: control)]), url: order.url,
                request: [], requestTime: now, responseTime: now)
            return .published(try await disk.publish(writer), response, url: order.url)
        }
    }

    /// The origin has a different image at each URL. A URL that contains `missing` fails, and one that contains
    /// `no-store` may not be stored.
    init(_ origins: [ImageOrigin] = []) async throws {
        directory = NSTemporaryDirectory() + "/larder-images-" + UUID().uuidString
        var settings = ImageCacheSettings(directory: directory, space: SpaceLimits(freeBytes: 0))
        settings.origins = origins
        let (blocking, gate) = (BlockingThreadPool(.singleton), Gate())
        let disk = ImageDiskCache(try BlobStore(path: directory, limits: settings.space), blocking)
        let cache = ImageCache.start(
            settings, disk: disk, origin: GatedOrigin(disk: disk, gate: gate), clock: .system,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await cache.opened()
        (self.gate, self.settings) = (gate, settings)
        images = ImageService(cache, directory: directory, leaseSeconds: 300, blocking: blocking)
        let plain = try await ConnectionFixture.serverContext()
        // The access rules grant all peers the same rights, so peers differ only in whether an origin lists them as
        // users.
        var access = AccessRules()
        access.general.others = Rights([.images, .administer])
        context = ServerContext(
            namespaces: plain.namespaces, identity: plain.identity, settings: plain.settings,
            limits: ConnectionLimits(), access: access, images: images, logger: plain.logger)
    }

    /// Runs `body` with the client of a connection, then stops the cache and deletes all files.
    static func with<Result: Sendable>(
        _ origins: [ImageOrigin] = [], peer: PeerCredentials = .own,
        limits: ConnectionLimits = ConnectionLimits(), _ body: (ImageFixture, ImageClient) async throws -> Result
    ) async throws -> Result {
        let fixture = try await ImageFixture(origins)
        let result: Swift.Result<Result, any Error>
        do {
            let client = try await fixture.connect(peer: peer, limits: limits)
            result = .success(try await body(fixture, client))
        } catch {
            result = .failure(error)
        }
        fixture.gate.open()
        await fixture.images.cache.stop()
        await fixture.context.namespaces.stop()
        try? FileManager.default.removeItem(atPath: fixture.directory)
        try? FileManager.default.removeItem(atPath: fixture.context.identity.stateDirectory)
        return try result.get()
    }

    /// Starts a connection and returns its client.
    func connect(
        peer: PeerCredentials = .own, limits: ConnectionLimits = ConnectionLimits()
    ) async throws -> ImageClient {
        var ends: [CInt] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else { throw Failure.socket }
        let context = context
        let end = ends[0]
        let registry = ConnectionRegistry()
        try await Self.loop.submit {
            let server = LoopServer(
                LoopLoad(eventLoop: Self.loop), Self.loop.epoll, server: context, methods: .agent, registry: registry)
            registry.add(NIOLoopBound(server, eventLoop: Self.loop))
            _ = ConnectionProbe.start(end, on: server, peer: peer, limits: limits)
        }.get()
        return ImageClient(ends[1], registry)
    }

    private static let loop: EpollLoop = {
        do { return try EpollLoop(name: "images") } catch { fatalError("\(error)") }
    }()

    /// The number of references to the image of a URL, including the reference from the row of the image in the index.
    func references(to url: String) throws -> Int {
        let image = try #require(images.cache.view.peek(ImageRequest(url: url), now: images.clock.now))
        return images.cache.accounts.read { Int($0.entries[image.digest]?.references ?? 0) }
    }

    enum Failure: Error { case socket, end, descriptor }
}

extension ImageCache {
    /// Applies settings to the catalog without enforcing limits, which is the first step of ``update(_:)``.
    func applyToCatalog(_ settings: ImageCacheSettings) {
        catalog.update(settings)
        view.settingsChanged()
    }
}
