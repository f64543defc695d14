package import LarderUpstream

/// The settings of a remote source.
package enum RemoteSourceSettings: Sendable, Equatable {
    /// Polled over HTTP.
    case http(HTTPSourceSettings)
    /// A stream of server-sent events.
    case sse(SSESourceSettings)
    /// A file or a directory of files.
    case file(FileSourceSettings)
    /// Keys of an etcd cluster.
    case etcd(EtcdSourceSettings)

    /// The kind of the source as status and logs show it.
    package var kind: String {
        switch self {
        case .http: "http"
        case .sse: "sse"
        case .file: "file"
        case .etcd: "etcd"
        }
    }

    /// The location of the source as status and logs show it.
    package var location: String {
        switch self {
        case .http(let http): SourceURL.display(http.url)
        case .sse(let sse): SourceURL.display(sse.url)
        case .file(let file): file.path
        case .etcd(let etcd): etcd.location
        }
    }

    /// Identifies the source in all that is remembered of its documents. It is the same for all settings that select
    /// the same document, whatever their credentials and schedule. The ``location`` is the same for more sources.
    package var identity: String {
        switch self {
        case .http(let http): http.identity
        case .sse(let sse): sse.identity
        case .file(let file): file.identity
        case .etcd(let etcd): etcd.identity
        }
    }

    /// How long the namespace is `stale` while the source fails, before it becomes `failed`; nil for no limit.
    package var staleIfError: Duration? {
        if case .http(let http) = self { http.staleIfError } else { nil }
    }

    /// When the first certificate that the settings name expires, in seconds since 1970, as of the last request, and its
    /// file; nil without certificates.
    package var certificateExpiry: (seconds: Int, file: String)? {
        switch self {
        case .http(let http): http.access.tls.firstExpiry
        case .sse(let sse): sse.access.tls.firstExpiry
        case .etcd(let etcd): etcd.tls.firstExpiry
        case .file: nil
        }
    }

    /// Sets the maximum size of the source's documents.
    package mutating func limitDocuments(to bytes: Int) {
        switch self {
        case .http(var http):
            http.maximumBytes = bytes
            self = .http(http)
        case .sse(var sse):
            sse.maximumBytes = bytes
            self = .sse(sse)
        case .file(var file):
            file.maximumBytes = bytes
            self = .file(file)
        case .etcd(var etcd):
            etcd.maximumBytes = bytes
            self = .etcd(etcd)
        }
    }

    /// The polling schedule of the source. A file, an event stream and etcd signal changes; polling only detects
    /// changes whose signal was lost.
    package func schedule(hostIdentity: String) -> PollSchedule {
        switch self {
        case .http(let http):
            PollSchedule(
                interval: http.interval, seed: hostIdentity + "\u{0}" + http.url,
                firstFetchWindow: http.firstFetchWindow)
        case .sse(let sse):
            PollSchedule(
                interval: sse.interval, seed: sse.seed(hostIdentity), firstFetchWindow: sse.firstFetchWindow)
        case .etcd(let etcd):
            PollSchedule(
                interval: etcd.interval, seed: etcd.seed(hostIdentity), firstFetchWindow: etcd.firstFetchWindow)
        case .file:
            PollSchedule(interval: .seconds(60), seed: hostIdentity)
        }
    }

    /// Checks the files with credentials and certificates. Blocks on disk I/O.
    package func accessProblems() -> [AccessProblem] {
        switch self {
        case .http(let http): http.access.problems()
        case .sse(let sse): sse.access.problems()
        case .etcd(let etcd):
            (etcd.user?.password.problems() ?? []) + etcd.tls.problems() + (etcd.proxy.settings?.problems() ?? [])
        case .file: []
        }
    }

    /// The proxy of the source, and the URLs that are requested through it unless `noProxy` names their hosts; nil without
    /// a proxy.
    package var proxied: (proxy: ProxySettings, urls: [String])? {
        switch self {
        case .http(let http): http.access.proxy.settings.map { ($0, [http.url]) }
        case .sse(let sse): sse.access.proxy.settings.map { ($0, [sse.url] + (sse.pollURL.map { [$0] } ?? [])) }
        case .etcd(let etcd): etcd.proxy.settings.map { ($0, etcd.endpoints) }
        case .file: nil
        }
    }

    /// Returns the settings with the proxy of the whole agent, unless the source has an own one.
    package func inheriting(proxy: ProxySettings?) -> RemoteSourceSettings {
        switch self {
        case .http(var http):
            http.access.proxy = http.access.proxy.inheriting(proxy)
            return .http(http)
        case .sse(var sse):
            sse.access.proxy = sse.access.proxy.inheriting(proxy)
            return .sse(sse)
        case .etcd(var etcd):
            etcd.proxy = etcd.proxy.inheriting(proxy)
            return .etcd(etcd)
        case .file: return self
        }
    }
}
