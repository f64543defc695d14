package import LarderConfigModel
package import LarderJSON

/// The settings of a source that is polled over HTTP.
package struct HTTPSourceSettings: Sendable, Equatable {
    /// The settings of long polls: requests that the origin answers when its document changes.
    package struct LongPoll: Sendable, Equatable {
        /// How long the origin may wait, in seconds.
        package var waitSeconds: Int
        /// The name of the query parameter that carries ``waitSeconds``; nil to send the header `Prefer: wait=N` (RFC
        /// 7240) instead.
        package var queryMember: String?

        package init(waitSeconds: Int, queryMember: String? = nil) {
            self.waitSeconds = waitSeconds
            self.queryMember = queryMember
        }
    }

    /// Whether the data of a GraphQL response is used if the response also has errors.
    package enum PartialData: String, Sendable, CaseIterable {
        /// The response counts as a failure.
        case refuse
        /// The data is used.
        case accept
    }

    /// The URL of the document, `http` or `https`.
    package var url: String
    /// The body of a POST; nil for a GET.
    package var body: [UInt8]?
    /// The path of the document in the response; nil if the response is the document.
    package var answerPath: JSONPath?
    /// Whether the data of a GraphQL response is used if the response also has errors.
    package var partialData = PartialData.refuse
    /// The time between two requests. Each host polls at its own offset within this time.
    package var interval = Duration.seconds(60)
    /// The maximum duration of a request, from connecting to the last byte. For a long poll, ``LongPoll/waitSeconds``
    /// is added.
    package var timeout = Duration.seconds(10)
    /// The time over which hosts without a document spread their first requests.
    package var firstFetchWindow = SourceDefaults.firstFetchWindow
    /// The settings of long polls; nil for none.
    package var longPoll: LongPoll?
    /// How long the namespace is `stale` while the origin fails. After that time it is `failed`. Nil for no limit.
    package var staleIfError: Duration?
    /// The path of the version in the document; nil for none.
    package var versionPath: JSONPath?
    /// The condition under which a document without a version is rejected.
    package var versionRequirement = VersionRequirement.onceSeen
    /// The credentials and the trusted certificate authorities.
    package var access = HTTPAccess()
    /// The maximum size of a response, in bytes.
    package var maximumBytes = 16 << 20
}

extension HTTPSourceSettings {
    package init(url: String) { self.url = url }
}

extension HTTPSourceSettings: CustomStringConvertible, CustomDebugStringConvertible {
    /// The settings without the body and the header values, which may be secrets.
    package var description: String {
        "HTTP(url: \(url), method: \(body == nil ? "GET" : "POST"), answerPath: \(answerPath?.description ?? "none"), "
            + "interval: \(interval), timeout: \(timeout), longPoll: \(longPoll.map { "\($0.waitSeconds) s" } ?? "no"), "
            + "versionPath: \(versionPath?.description ?? "none"), access: \(access))"
    }

    package var debugDescription: String { description }
}
