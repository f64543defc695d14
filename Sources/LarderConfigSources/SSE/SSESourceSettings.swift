package import LarderConfigModel
package import LarderJSON
package import LarderUpstream

/// The settings of a source that sends its document and changes to it as server-sent events.
package struct SSESourceSettings: Sendable, Equatable {
    /// The URL of the stream, `http` or `https`.
    package var url: String
    /// The URL of the whole document; nil if each new stream begins with it.
    package var pollURL: String?
    /// The time between two polls of the whole document. The polls detect changes that the stream has lost.
    package var interval = Duration.seconds(300)
    /// The time over which hosts without a document spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// The time over which hosts spread their first attempts to reconnect after the stream has ended; nil for the
    /// default.
    package var reconnectWindow: Duration?
    /// The time without data after which the connection is replaced.
    package var heartbeat = Duration.seconds(60)
    /// The maximum duration of a poll, of the request until the stream begins, and of the wait from then until the
    /// first document of the stream.
    package var timeout = Duration.seconds(10)
    /// The types of events that contain a merge patch (RFC 7396). An event without a type is a whole document. Other
    /// types are ignored.
    @ComparedAsBytes package var patchEvents: [String] = ["patch"]
    /// The path of the version in the document; nil for none.
    package var versionPath: JSONPath?
    /// The condition under which a document without a version is rejected.
    package var versionRequirement = VersionRequirement.onceSeen
    /// Whether each poll and each request for the stream reports the state of the host in two header fields.
    package var reportsToSource = false
    /// The credentials and the trusted certificate authorities.
    package var access = HTTPAccess()
    /// The maximum size of the document and of an event, in bytes.
    package var maximumBytes = 16 << 20
}

extension SSESourceSettings {
    package init(url: String) { self.url = url }

    func seed(_ hostIdentity: String) -> String { hostIdentity + "\u{0}" + url }

    func reconnectPlan(hostIdentity: String) -> ReconnectPlan {
        ReconnectPlan(
            window: ReconnectPlan.window(reconnectWindow, interval: interval), firstFetchWindow: firstFetchWindow,
            seed: seed(hostIdentity))
    }
}
