import LarderJSON
import LarderPlatform
import LarderUpstream
import Synchronization

/// Reads and watches the keys of an etcd source. Switches to another endpoint when the current one fails.
final class EtcdClient: Sendable {
    private let configuration: EtcdSourceSettings
    private let ranges: [EtcdKeys]
    private let endpoints: EtcdEndpoints
    private let gateway: EtcdGateway
    private let fetcher: HTTPFetcher
    private let clock: any Clock<Duration>

    /// The time without any message after which a watch is ended. etcd reports progress on an idle watch every ten
    /// minutes. With jitter, and after an event, the report can take twice as long. A change that a silent watch has
    /// missed is found by the next read of all keys.
    static let maxSilence = Duration.seconds(25 * 60)

    /// The maximum number of keys per page.
    private static let pageSize = 500

    /// The maximum number of times that a read restarts because etcd compacted its revision.
    private static let restarts = 3

    init(
        _ configuration: EtcdSourceSettings, fetcher: HTTPFetcher, blocking: BlockingThreadPool,
        startingAt start: Int, clock: any Clock<Duration>
    ) {
        self.configuration = configuration
        self.fetcher = fetcher
        self.clock = clock
        gateway = EtcdGateway(configuration, fetcher: fetcher, blocking: blocking, clock: clock)
        ranges = EtcdKeys.ranges(of: configuration.keys)
        endpoints = EtcdEndpoints(configuration.endpoints, startingAt: start)
    }

    // MARK: Reading

    /// Reads all keys at one revision, from the first endpoint that responds.
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
            "none of the \(endpoints.all.count) etcd endpoints responds; the last error: \(failure.message)")
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
        let pages = try await firstPages(from: endpoint)
        guard let header = pages.first?.header else { throw gateway.notEtcd(endpoint) }
        var keyspace = EtcdKeyspace(header)
        for (range, first) in zip(ranges, pages) {
            var page = first
            while true {
                keyspace.add(page.pairs)
                if keyspace.exceeds(configuration.maximumBytes) { throw gateway.tooLarge }
                guard page.hasMore, let last = page.pairs.last else { break }
                page = try await self.page(range.from(after: last.key), revision: keyspace.revision, from: endpoint)
                guard page.header.cluster == keyspace.cluster else {
                    throw EtcdError(.compacted, "etcd at \(endpoint): the cluster changed between two pages")
                }
            }
        }
        return keyspace
    }

    /// Reads the first page of each range at the newest revision. Several ranges are read in one transaction, so that all
    /// pages are of the same revision.
    private func firstPages(from endpoint: String) async throws(EtcdError) -> [EtcdPage] {
        if ranges.count == 1 { return [try await page(ranges[0], revision: nil, from: endpoint)] }
        var writer = JSONWriter()
        writer.beginObject()
        writer.name("success")
        writer.beginArray()
        for range in ranges {
            writer.beginObject()
            writer.name("request_range")
            writer.beginObject()
            writer.write(range)
            writer.member("limit", Self.pageSize)
            writer.endObject()
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        let answer = try await gateway.post("/v3/kv/txn", writer.bytes, to: endpoint)
        guard let pages = EtcdPage.all(ofTransaction: answer), pages.count == ranges.count else {
            throw gateway.notEtcd(endpoint)
        }
        return pages
    }

    /// - Parameter revision: the revision to read; nil for the newest one, by a linearizable read
    private func page(_ keys: EtcdKeys, revision: Int?, from endpoint: String) async throws(EtcdError) -> EtcdPage {
        var writer = JSONWriter()
        writer.beginObject()
        writer.write(keys)
        writer.member("limit", Self.pageSize)
        if let revision { writer.member("revision", String(revision)) }
        writer.endObject()
        let answer = try await gateway.post("/v3/kv/range", writer.bytes, to: endpoint)
        guard let page = EtcdPage(answer) else { throw gateway.notEtcd(endpoint) }
        return page
    }

    // MARK: Watching

    /// Watches for changes after a revision, at the endpoint of the last read, until the watch ends.
    /// - Parameter hear: receives each message; an error that it throws ends the watch
    /// - Returns: why the watch ended; nil if it had begun and the endpoint closed it properly or was silent for too
    ///   long
    func watch(
        after revision: Int, _ hear: @escaping @Sendable (EtcdWatchMessage) throws(EtcdError) -> Void
    ) async -> EtcdError? {
        let endpoint = endpoints.watch()
        let end: EtcdError?
        var token: String?
        do throws(EtcdError) {
            token = try await gateway.authorization(at: endpoint)
            let request = try await watchRequest(after: revision, at: endpoint, token: token)
            end = try await listen(request, at: endpoint, hear)
        } catch {
            end = error
        }
        if end?.kind == .unauthenticated { gateway.forget(token) }
        if end?.kind == .unavailable { endpoints.leave(endpoint) }
        return end
    }

    /// Whether the client has switched to another endpoint since the last watch began.
    var isWatchElsewhere: Bool { endpoints.isWatchElsewhere }

    private func watchRequest(
        after revision: Int, at endpoint: String, token: String?
    ) async throws(EtcdError) -> FetchRequest {
        // The stream of one request carries a watch for each range.
        var body: [UInt8] = []
        for range in ranges {
            var writer = JSONWriter()
            writer.beginObject()
            writer.name("create_request")
            writer.beginObject()
            writer.write(range)
            writer.member("start_revision", String(revision + 1))
            writer.member("progress_notify", true)
            writer.member("fragment", true)
            writer.endObject()
            writer.endObject()
            body += writer.bytes
        }
        var request = try await gateway.request("/v3/watch", body, to: endpoint, token: token)
        // With this header, etcd ends the watch if the member that serves it loses contact with the leader. Without the
        // header, the watch would stay open without events.
        request.headers.append((name: "Grpc-Metadata-hasleader", value: "true"))
        request.timeouts = FetchTimeouts(idle: Self.maxSilence, whole: configuration.timeout)
        request.awaitsChange = true
        return request
    }

    private func listen(
        _ request: FetchRequest, at endpoint: String,
        _ hear: @escaping @Sendable (EtcdWatchMessage) throws(EtcdError) -> Void
    ) async throws(EtcdError) -> EtcdError? {
        let hasResponse = Atomic(false)
        do {
            return try await fetcher.stream(request, clock: clock) { head, body throws(UpstreamError) in
                guard head.status == 200 else { return try await self.gateway.error(head, &body, from: endpoint) }
                var framer = EtcdFramer(maximumBytes: self.configuration.maximumAnswerBytes)
                // etcd confirms a watch at once. A proxy that buffers the response would hide that no change arrives.
                body.allow(self.configuration.timeout)
                while let piece = try await body.next() {
                    framer.append(piece)
                    do throws(EtcdError) {
                        while let message = try self.message(&framer, from: endpoint) {
                            if !hasResponse.exchange(true, ordering: .relaxed) { body.allow(nil) }
                            try hear(message)
                        }
                    } catch {
                        return error
                    }
                }
                guard hasResponse.load(ordering: .relaxed) else {
                    return EtcdError(.unavailable, "etcd at \(endpoint) ended the watch before it began")
                }
                self.endpoints.leave(endpoint)
                return nil
            }
        } catch {
            guard error.code == .timeout else { throw EtcdError(error) }
            if hasResponse.load(ordering: .relaxed) { return nil }
            throw EtcdError(
                .unavailable,
                "etcd at \(endpoint) confirmed no watch within \(configuration.timeout); a proxy in between must forward "
                    + "responses to /v3/watch without buffering them")
        }
    }

    /// Returns the next complete message; nil if more bytes are needed.
    private func message(
        _ framer: inout EtcdFramer, from endpoint: String
    ) throws(EtcdError) -> EtcdWatchMessage? {
        do {
            guard let text = try framer.next() else { return nil }
            let value = try JSONValue(parsing: text) { Task.isCancelled }
            if let message = EtcdWatchMessage(value) { return message }
            if let response = EtcdErrorResponse(value) { throw response.error(from: endpoint) }
        } catch let error as EtcdError {
            throw error
        } catch is CancellationError {
            throw EtcdError.parseCancelled
        } catch is EtcdFramer.TooLarge {
            throw gateway.tooLarge
        } catch {
            throw gateway.notEtcd(endpoint)
        }
        throw gateway.notEtcd(endpoint)
    }
}

/// The endpoints of a cluster. The current one is used until it fails.
final class EtcdEndpoints: Sendable {
    /// The URLs, without trailing slashes.
    let all: [String]
    private let index: Atomic<Int>
    /// The index of the endpoint of the last watch; -1 before the first one.
    private let watched = Atomic(-1)

    /// - Parameters:
    ///   - all: at least one URL
    ///   - start: a number from 0 that differs between hosts, so that they begin with different endpoints
    init(_ all: [String], startingAt start: Int) {
        self.all = all.map { String($0.reversed().drop { $0 == "/" }.reversed()) }
        index = Atomic(start % max(1, all.count))
    }

    var current: String { all[index.load(ordering: .relaxed)] }

    /// Returns the current endpoint, and records that it is watched.
    func watch() -> String {
        let current = index.load(ordering: .relaxed)
        watched.store(current, ordering: .relaxed)
        return all[current]
    }

    /// Whether the endpoint of the last watch is no longer the current one.
    var isWatchElsewhere: Bool {
        let watched = watched.load(ordering: .relaxed)
        return watched >= 0 && all[watched] != current
    }

    /// Switches to the next endpoint, unless `endpoint` is no longer the current one.
    func leave(_ endpoint: String) {
        let current = index.load(ordering: .relaxed)
        guard all[current] == endpoint else { return }
        // If the exchange fails, another task has left the endpoint.
        _ = index.compareExchange(expected: current, desired: (current + 1) % all.count, ordering: .relaxed)
    }
}
