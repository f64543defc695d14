package import LarderConfigModel
package import LarderJSON
import LarderUpstream

/// A source that sends its document, and what changes in it, as server-sent events.
package struct SSESourceSettings: Sendable, Equatable {
    /// The stream's address, `http` or `https`.
    package var url: String
    /// Where the whole document can be asked for; nil where a new stream begins with it.
    package var pollURL: String?
    /// The time between two questions for the whole document, which find what the stream lost.
    package var interval: Duration
    /// The time over which hosts that have nothing to serve spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// The time over which hosts spread their first attempts after the stream ended; nil for the default.
    package var reconnectWindow: Duration?
    /// The longest silence of the stream before it is replaced.
    package var heartbeat: Duration
    /// The longest time for a question, for the stream to begin, and then for its first document.
    package var timeout: Duration
    /// The types of the events that carry a merge patch (RFC 7396). Events without a type carry a whole document, all
    /// others nothing.
    package var patchEvents: [String]
    /// Where the document says its own version; nil where it does not.
    package var versionPath: JSONPath?
    /// Whether a document without a version is rejected.
    package var versionRequirement: VersionRequirement
    /// What requests show, and whom they trust.
    package var access: HTTPAccess
    /// The largest document taken, and the largest event.
    package var maximumBytes: Int

    package init(
        url: String, pollURL: String? = nil, interval: Duration = .seconds(300),
        heartbeat: Duration = .seconds(60), timeout: Duration = .seconds(10), patchEvents: [String] = ["patch"],
        versionPath: JSONPath? = nil, versionRequirement: VersionRequirement = .onceSeen,
        access: HTTPAccess = HTTPAccess(), maximumBytes: Int = 16 << 20
    ) {
        self.url = url
        self.pollURL = pollURL
        self.interval = interval
        self.heartbeat = heartbeat
        self.timeout = timeout
        self.patchEvents = patchEvents
        self.versionPath = versionPath
        self.versionRequirement = versionRequirement
        self.access = access
        self.maximumBytes = maximumBytes
    }
}

extension SSESourceSettings {
    func seed(_ hostIdentity: String) -> String { hostIdentity + "\u{0}" + url }

    /// When a stream that ended is opened again.
    func reconnectPlan(hostIdentity: String) -> ReconnectPlan {
        ReconnectPlan(
            window: ReconnectPlan.window(reconnectWindow, interval: interval), firstFetchWindow: firstFetchWindow,
            seed: seed(hostIdentity))
    }
}
