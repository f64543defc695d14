import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization

/// Reads and watches the keys of the settings, at the endpoint that works.
final class EtcdClient: Sendable {
    private let configuration: EtcdSourceSettings
    private let keys: EtcdKeys
    private let endpoints: EtcdEndpoints
    private let gateway: EtcdGateway
    private let fetcher: HTTPFetcher
    private let clock: any Clock<Duration>
    /// The endpoint of the last watch.
    private let watched = Mutex<String?>(nil)

    /// The longest silence of a watch. etcd says every ten minutes that a quiet one lives, with its jitter and after an
    /// event up to twice that; a watch that misses a change is found out by the next reading.
    static let longestSilence = Duration.seconds(25 * 60)

    /// How many keys a page has at most.
    private static let pageSize = 500

    /// How often a reading begins anew because its revision was compacted away under it.
    private static let restarts = 3

    init(
        _ configuration: EtcdSourceSettings, fetcher: HTTPFetcher, blocking: BlockingWork,
        startingAt start: Int, clock: any Clock<Duration>
    ) {
        self.configuration = configuration
        self.fetcher = fetcher
        self.clock = clock
        gateway = EtcdGateway(configuration, fetcher: fetcher, blocking: blocking, clock: clock)
        keys = EtcdKeys(configuration.keys)
        endpoints = EtcdEndpoints(configuration.endpoints, startingAt: start)
    }

    // MARK: Reading

    /// Reads all keys as of one revision, from the first endpoint that answers.
    func read() async throws(EtcdError) -> EtcdKeyspace {
        var failure: EtcdError?
        for _ in endpoints.all {
            let endpoint = endpoints.current
            do throws(EtcdError) {
                return try await read(from: endpoint)
            } catch {
                guard error.kind == .unavailable || error.kind == .compacted else { throw error }
                endpoints.leave(endpoint)
                failure = error
            }
        }
        guard let failure else { throw EtcdError(.refused, "etcd: the settings name no endpoint") }
        guard endpoints.all.count > 1 else { throw failure }
        throw EtcdError(
            .unavailable,
            "none of the \(endpoints.all.count) endpoints of etcd answers; the last one: \(failure.message)")
    }

    private func read(from endpoint: String) async throws(EtcdError) -> EtcdKeyspace {
        var left = Self.restarts
        while true {
            do throws(EtcdError) {
                return try await readPages(from: endpoint)
            } catch {
                guard error.kind == .compacted, left > 0 else { throw error }
                left -= 1
            }
        }
    }

    private func readPages(from endpoint: String) async throws(EtcdError) -> EtcdKeyspace {
        var page = try await page(keys, revision: nil, from: endpoint)
        var keyspace = EtcdKeyspace(page.header)
        while true {
            keyspace.add(page.pairs)
            if keyspace.exceeds(configuration.maximumBytes) { throw gateway.tooLarge }
            guard page.hasMore, let last = page.pairs.last else { return keyspace }
            page = try await self.page(keys.from(after: last.key), revision: keyspace.revision, from: endpoint)
            guard page.header.cluster == keyspace.cluster else {
                throw EtcdError(.compacted, "etcd at \(endpoint): the cluster changed between two pages")
            }
        }
    }

    /// - Parameter revision: the one to read at; nil for the newest, which the cluster agrees on (a linearizable read).
    private func page(_ keys: EtcdKeys, revision: Int?, from endpoint: String) async throws(EtcdError) -> EtcdPage {
        var writer = JSONWriter()
        writer.beginObject()
        writer.write(keys)
        writer.member("limit", Self.pageSize)
        if let revision { writer.member("revision", String(revision)) }
        writer.endObject()
        let answer = try await gateway.post("/v3/kv/range", writer.bytes, to: endpoint, isAuthorized: true)
        guard let page = EtcdPage(answer) else { throw gateway.notEtcd(endpoint) }
        return page
    }

    // MARK: Watching

    /// Watches for changes after a revision, at the endpoint that read last, until that is of no use any more.
    /// - Parameter hear: gets each message; what it throws ends the watch.
    /// - Returns: why it ended; nil if it had begun and the endpoint ended it in order, or it was silent for too long.
    func watch(
        after revision: Int, _ hear: @escaping @Sendable (EtcdWatchMessage) throws(EtcdError) -> Void
    ) async -> EtcdError? {
        let endpoint = endpoints.current
        watched.withLock { $0 = endpoint }
        let end: EtcdError?
        do throws(EtcdError) {
            end = try await listen(try await watchRequest(after: revision, at: endpoint), at: endpoint, hear)
        } catch {
            end = error
        }
        if end?.kind == .unauthenticated { gateway.forgetToken() }
        if end?.kind == .unavailable { endpoints.leave(endpoint) }
        return end
    }

    /// Whether the endpoint of the last watch has been left since.
    var isWatchElsewhere: Bool { watched.withLock { $0 }.map { $0 != endpoints.current } ?? false }

    private func watchRequest(after revision: Int, at endpoint: String) async throws(EtcdError) -> FetchRequest {
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("create_request")
        writer.beginObject()
        writer.write(keys)
        writer.member("start_revision", String(revision + 1))
        writer.member("progress_notify", true)
        writer.member("fragment", true)
        writer.endObject()
        writer.endObject()
        let token = try await gateway.authorization(at: endpoint)
        var request = try await gateway.request("/v3/watch", writer.bytes, to: endpoint, token: token)
        // A member that loses its leader would otherwise keep a watch that hears nothing.
        request.headers.append((name: "Grpc-Metadata-hasleader", value: "true"))
        request.timeouts = FetchTimeouts(idle: Self.longestSilence, whole: configuration.timeout)
        return request
    }

    private func listen(
        _ request: FetchRequest, at endpoint: String,
        _ hear: @escaping @Sendable (EtcdWatchMessage) throws(EtcdError) -> Void
    ) async throws(EtcdError) -> EtcdError? {
        let isHeard = Atomic(false)
        do {
            return try await fetcher.stream(request, clock: clock) { head, body throws(UpstreamError) in
                guard head.status == 200 else { return try await self.gateway.complaint(head, &body, from: endpoint) }
                var framer = EtcdFramer(maximumBytes: self.configuration.maximumAnswerBytes)
                while let piece = try await body.next() {
                    framer.append(piece)
                    do throws(EtcdError) {
                        while let message = try self.message(&framer, from: endpoint) {
                            isHeard.store(true, ordering: .relaxed)
                            try hear(message)
                        }
                    } catch {
                        return error
                    }
                }
                guard isHeard.load(ordering: .relaxed) else {
                    return EtcdError(.unavailable, "etcd at \(endpoint) ended the watch before it began")
                }
                self.endpoints.leave(endpoint)
                return nil
            }
        } catch {
            if error.code == .timeout, isHeard.load(ordering: .relaxed) { return nil }
            throw EtcdError(error)
        }
    }

    /// The next message that is complete.
    private func message(
        _ framer: inout EtcdFramer, from endpoint: String
    ) throws(EtcdError) -> EtcdWatchMessage? {
        do {
            guard let text = try framer.next() else { return nil }
            let value = try JSONValue(parsing: text)
            if let message = EtcdWatchMessage(value) { return message }
            if let complaint = EtcdComplaint(value) { throw complaint.error(from: endpoint) }
        } catch let error as EtcdError {
            throw error
        } catch EtcdFramer.Failure.tooLarge {
            throw gateway.tooLarge
        } catch {
            throw gateway.notEtcd(endpoint)
        }
        throw gateway.notEtcd(endpoint)
    }
}

/// The endpoints of a cluster, of which one is used for as long as it works.
final class EtcdEndpoints: Sendable {
    /// Their URLs, without a slash at the end.
    let all: [String]
    private let index: Mutex<Int>

    /// - Parameters:
    ///   - all: at least one URL
    ///   - start: any number from 0; each host has its own, so that not all of them begin with the same endpoint
    init(_ all: [String], startingAt start: Int) {
        self.all = all.map { String($0.reversed().drop { $0 == "/" }.reversed()) }
        index = Mutex(start % max(1, all.count))
    }

    /// The endpoint to use.
    var current: String { index.withLock { all[$0] } }

    /// Goes on to the next one, unless somebody has done so already.
    func leave(_ endpoint: String) {
        index.withLock { index in
            if all[index] == endpoint { index = (index + 1) % all.count }
        }
    }
}
