import LarderConfig
import LarderConfigModel
import LarderEncoding
package import LarderJSON
import LarderProtocol
package import LarderUpstream

/// The settings of the reports that the agent sends about its host.
package struct ReportSettings: Sendable, Equatable {
    /// The URL of the receiver.
    @ComparedAsBytes package var url: String
    /// The time between two reports without a change.
    package var interval = Duration.seconds(300)
    /// The time over which hosts spread their reports after a change.
    package var splay = Duration.seconds(60)
    /// Texts that describe the host, by name.
    @ComparedAsBytes package var labels: [String: String] = [:]
    /// Whether reports contain the reasons for which clients rejected a configuration. These may contain anything.
    package var includesReasons = false
    /// The credentials, the trusted certificate authorities and the proxy.
    package var access = HTTPAccess()

    package init(url: String) { self.url = url }
}

/// The names by which the agent identifies its host.
package struct ReportedHost: Sendable {
    /// The name of the host.
    package var name: String
    /// The ID of the host; nil if it has no machine ID.
    package var id: String?

    package init(name: String, id: String?) { (self.name, self.id) = (name, id) }
}

/// A report as it is sent: the document that `Protocol/schemas/report.json` describes.
struct HostReport: Sendable {
    /// The version of the document's format.
    private static let format = 1
    /// The maximum number of rows about clients for each namespace.
    private static let maxClients = 64

    /// The document.
    let body: [UInt8]
    /// The part of the document whose change makes the host report early: everything about the namespaces except for
    /// times, digests and the texts of errors.
    let condition: [UInt8]

    /// Collects a report. The digest of each snapshot must be known, or the snapshot must be small.
    /// - Parameters:
    ///   - version: the version of the agent
    ///   - now: in milliseconds since 1970
    init(
        _ namespaces: [ConfigNamespace], _ acknowledgements: AcknowledgementRegistry, _ settings: ReportSettings,
        host: ReportedHost, version: String, now: Int
    ) {
        var writer = JSONWriter()
        var condition: [UInt8] = []
        writer.beginObject()
        writer.member("format", Self.format)
        writer.member("host", host.name)
        writer.member("hostId", host.id)
        writer.name("labels")
        writer.beginObject()
        for (name, text) in settings.labels.sorted(by: { $0.key < $1.key }) {
            writer.name(name)
            writer.string(text)
        }
        writer.endObject()
        writer.member("agent", version)
        writer.member("sentAt", Timestamp(milliseconds: now).description)
        writer.member("intervalSeconds", Int(settings.interval.components.seconds))
        writer.name("namespaces")
        writer.beginArray()
        for namespace in namespaces {
            let (snapshot, status) = (namespace.publication.current.snapshot, namespace.publication.status)
            writer.beginObject()
            let start = writer.bytes.count
            Self.writeCondition(of: namespace, acknowledgements, settings, to: &writer)
            condition += writer.bytes[start...]
            writer.member("since", Timestamp(milliseconds: status.since).description)
            if snapshot.revision > 0 { writer.member("digest", "sha256:" + snapshot.digest) }
            writer.member("lastSuccessAt", status.source?.lastSuccessAt.map { Timestamp(milliseconds: $0).description })
            writer.member("rejectedAt", status.newestRejection.map { Timestamp(milliseconds: $0.at).description })
            if let problem = status.lastError {
                writer.name("lastError")
                writer.beginObject()
                writer.member("code", WireError(problem.error).code.name)
                writer.member("message", problem.error.message.excerpt)
                writer.member("at", Timestamp(milliseconds: problem.at).description)
                writer.endObject()
            }
            writer.endObject()
        }
        writer.endArray()
        writer.endObject()
        (body, self.condition) = (writer.bytes, condition)
    }

    /// Returns ``condition`` without collecting the rest of a report.
    static func condition(
        of namespaces: [ConfigNamespace], _ acknowledgements: AcknowledgementRegistry, _ settings: ReportSettings
    ) -> [UInt8] {
        var condition: [UInt8] = []
        for namespace in namespaces {
            var writer = JSONWriter()
            writer.beginObject()
            let start = writer.bytes.count
            writeCondition(of: namespace, acknowledgements, settings, to: &writer)
            condition += writer.bytes[start...]
        }
        return condition
    }

    private static func writeCondition(
        of namespace: ConfigNamespace, _ acknowledgements: AcknowledgementRegistry, _ settings: ReportSettings,
        to writer: inout JSONWriter
    ) {
        let status = namespace.publication.status
        writer.member("namespace", namespace.name)
        writer.member("state", status.freshnessAtRest.rawValue)
        writer.member("revision", namespace.publication.current.snapshot.revision)
        writer.member("version", status.upstreamVersion)
        if let rejection = status.newestRejection {
            writer.name("rejected")
            writer.beginObject()
            writer.member("version", rejection.version)
            writer.member("reason", rejection.reason)
            writer.endObject()
        }
        writer.member("overrides", status.overrides)
        writer.name("experiments")
        writer.beginArray()
        for name in status.activeExperiments { writer.string(name) }
        writer.endArray()
        writer.name("clients")
        writer.beginArray()
        let clients = acknowledgements.clients(of: namespace.name, withReasons: settings.includesReasons)
        for (client, count) in clients.prefix(maxClients) {
            writer.beginObject()
            writer.member("name", client.name.text)
            writer.member("revision", client.revision)
            writer.member("accepted", client.isAccepted)
            writer.member("reason", client.reason?.text)
            writer.member("count", count)
            writer.endObject()
        }
        writer.endArray()
    }
}
