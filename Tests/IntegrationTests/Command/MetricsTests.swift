import Foundation
import Glibc
import LarderClient
import LarderJSON
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

extension AgentMetrics.Namespace {
    fileprivate static func named(_ name: String) -> Self {
        Self(
            namespace: name, state: .stale, revision: 41, overrides: 2, isRejected: true,
            lastSuccessAt: Timestamp(milliseconds: 1_700_000_000_250),
            certificateExpiresAt: Timestamp(milliseconds: 1_800_000_000_000), changed: 3, notModified: 1437, failed: 4)
    }
}

extension AgentMetrics.Result {
    fileprivate static func of(_ namespaces: [AgentMetrics.Namespace]) -> Self {
        var refused = AgentStats.Refusals()
        refused.queuedBytes = 5
        var images = AgentMetrics.Images()
        (images.hits, images.revalidated, images.bytes, images.maximumBytes) = (8, 6, 1 << 20, 1 << 30)
        images.certificateExpiresAt = Timestamp(milliseconds: 1_800_000_000_000)
        return Self(
            version: "1.2.3", startedAt: Timestamp(milliseconds: 1_700_000_000_000), connections: 7, requests: 4096,
            subscriptionsOpen: 3, subscriptionsBehind: 1, publications: 9, refused: refused,
            sourceRequests: AgentMetrics.Durations(
                boundsMilliseconds: [25, 1000], counts: [2, 3, 1], totalMilliseconds: 2050),
            residentBytes: 4096, openFiles: 24, maximumFiles: 1024,
            disks: [AgentMetrics.Disk(directory: "state", bytes: 100, freeBytes: 40)], namespaces: namespaces,
            images: images)
    }
}

/// The program that checks the text, if it is installed (Debian's package prometheus).
private let promtoolPath: String? = ["/usr/bin/promtool", "/usr/local/bin/promtool"].first { (path: String) in
    access(path, X_OK) == 0
}

@Suite("The text of larder metrics")
struct MetricsTextTests {
    @Test("each figure is a sample with the labels of its family")
    func samples() {
        let lines = MetricsText(.of([.named("shop")])).text.split(separator: "\n").filter { !$0.hasPrefix("#") }
        #expect(
            lines == [
                #"larder_build_info{version="1.2.3"} 1"#,
                "larder_start_time_seconds 1700000000",
                #"larder_namespace_state{namespace="shop",state="initializing"} 0"#,
                #"larder_namespace_state{namespace="shop",state="fresh"} 0"#,
                #"larder_namespace_state{namespace="shop",state="refreshing"} 0"#,
                #"larder_namespace_state{namespace="shop",state="stale"} 1"#,
                #"larder_namespace_state{namespace="shop",state="failed"} 0"#,
                #"larder_namespace_revision{namespace="shop"} 41"#,
                #"larder_namespace_overrides{namespace="shop"} 2"#,
                #"larder_namespace_rejected{namespace="shop"} 1"#,
                #"larder_source_last_success_timestamp_seconds{namespace="shop"} 1700000000.25"#,
                #"larder_source_requests_total{namespace="shop",result="changed"} 3"#,
                #"larder_source_requests_total{namespace="shop",result="not_modified"} 1437"#,
                #"larder_source_requests_total{namespace="shop",result="failed"} 4"#,
                #"larder_certificate_expiry_timestamp_seconds{namespace="shop"} 1800000000"#,
                #"larder_source_request_duration_seconds_bucket{le="0.025"} 2"#,
                #"larder_source_request_duration_seconds_bucket{le="1"} 5"#,
                #"larder_source_request_duration_seconds_bucket{le="+Inf"} 6"#,
                "larder_source_request_duration_seconds_sum 2.05",
                "larder_source_request_duration_seconds_count 6",
                "larder_publications_total 9",
                "larder_subscribers 3",
                "larder_subscribers_behind 1",
                "larder_connections 7",
                "larder_requests_total 4096",
                #"larder_refused_total{reason="connections"} 0"#,
                #"larder_refused_total{reason="connections_per_user"} 0"#,
                #"larder_refused_total{reason="subscriptions"} 0"#,
                #"larder_refused_total{reason="requests"} 0"#,
                #"larder_refused_total{reason="queued_bytes"} 5"#,
                #"larder_refused_total{reason="queued_connections"} 0"#,
                #"larder_refused_total{reason="lines"} 0"#,
                #"larder_refused_total{reason="malformed"} 0"#,
                #"larder_image_requests_total{result="hit"} 8"#,
                #"larder_image_requests_total{result="miss"} 0"#,
                #"larder_image_requests_total{result="joined"} 0"#,
                #"larder_image_requests_total{result="stale"} 0"#,
                #"larder_image_downloads_total{result="downloaded"} 0"#,
                #"larder_image_downloads_total{result="not_modified"} 6"#,
                #"larder_image_downloads_total{result="failed"} 0"#,
                "larder_image_bytes 1048576",
                "larder_image_bytes_limit 1073741824",
                "larder_images 0",
                "larder_image_certificate_expiry_timestamp_seconds 1800000000",
                #"larder_disk_free_bytes{directory="state"} 40"#,
                #"larder_disk_size_bytes{directory="state"} 100"#,
                "larder_resident_memory_bytes 4096",
                "larder_open_fds 24",
                "larder_max_fds 1024",
            ])
    }

    @Test("each family has one help text and one type before its samples, and none without samples")
    func families() {
        let text = MetricsText(.of([])).text
        let lines = text.split(separator: "\n")
        let names = lines.filter { $0.hasPrefix("# TYPE ") }.map { $0.split(separator: " ")[2] }
        #expect(Set(names).count == names.count)
        #expect(lines.filter { $0.hasPrefix("# HELP ") }.map { $0.split(separator: " ")[2] } == names)
        #expect(!text.contains("larder_namespace_"))
        #expect(text.hasSuffix("\n"))
    }

    @Test("the state of a newer agent is a sample, and characters of a label are escaped")
    func unusual() {
        var namespace = AgentMetrics.Namespace.named("a\"b\\c\nd")
        namespace.state = ConfigState(rawValue: "paused")
        let text = MetricsText(.of([namespace])).text
        #expect(text.contains(#"larder_namespace_state{namespace="a\"b\\c\nd",state="paused"} 1"#))
        #expect(text.contains(#"state="stale"} 0"#))
    }

    @Test("the figures of 1,000 namespaces with long names have at most 1.2 MB")
    func size() {
        let names = (0..<1000).map { AgentMetrics.Namespace.named("kiosk-berlin-mitte-number-\(1000 + $0)") }
        #expect(MetricsText(.of(names)).text.utf8.count <= 1_200_000)
    }

    @Test(
        "promtool finds nothing to criticize",
        .enabled(if: promtoolPath != nil, "needs promtool (Debian's package prometheus)"))
    func lint() throws {
        let program = try #require(promtoolPath)
        let check = try Command.run(program, ["check", "metrics"], input: MetricsText(.of([.named("shop")])).text)
        #expect(check.end == .exit(0))
        #expect(check.text + check.log == "")
    }

    private static let observability = Checkout.root.appending(path: "contrib/observability")

    @Test(
        "the alert rules pass their tests",
        .enabled(if: promtoolPath != nil, "needs promtool (Debian's package prometheus)"))
    func alertRules() throws {
        let program = try #require(promtoolPath)
        let run = try Command.run(
            program, ["test", "rules", "larder-alerts-test.yml"], directory: Self.observability.path)
        #expect(run.status == 0, "\(run)")
    }

    @Test("the alert rules and the dashboard use only families that exist")
    func usedFamilies() throws {
        let text = MetricsText(.of([.named("shop")])).text
        for name in ["larder-alerts.yml", "larder-dashboard.json"] {
            let file = try String(contentsOf: Self.observability.appending(path: name), encoding: .utf8)
            let used = Set(file.matches(of: /\blarder_[a-z_]+/).map { String($0.output) })
            #expect(used.count > 5)
            for family in used { #expect(text.contains("\n\(family){") || text.contains("\n\(family) "), "\(family)") }
        }
    }
}

extension Integration {
    @Suite("Metrics of an agent")
    struct MetricsTests {
        @Test("larder metrics prints what the agent has counted")
        func figures() throws {
            let settings = "{ namespaces: { shop: { remote: { file: { path: '@/shop.json' } } } } }"
            try AgentHome.with(settings: settings) { home in
                try home.write("shop.json", #"{"a": 1}"#)
                let agent = try home.start()
                try LineClient(path: home.socket).call(
                    "config.status",
                    until: { $0["namespaces"]?[1]?["upstream"]?["lastSuccessAt"]?.isNull == false })
                // The source may have delivered its document without a request.
                try agent.call("config.refresh", ["shop"])
                try agent.call("config.set", ["a", 1])
                try agent.call("config.set", ["b", 2])
                let result = try home.larder("metrics")
                #expect(result.status == 0 && result.log == "")
                for line in [
                    #"larder_namespace_state{namespace="default",state="fresh"} 1"#,
                    #"larder_namespace_overrides{namespace="default"} 2"#,
                    #"larder_namespace_rejected{namespace="shop"} 0"#, "larder_subscribers 0",
                    "larder_subscribers_behind 0", #"larder_refused_total{reason="malformed"} 0"#, "larder_images 0",
                ] {
                    #expect(result.output.contains(line), "\(line) is missing in \(result.text)")
                }
                let success = #"larder_source_last_success_timestamp_seconds{namespace="shop"} "#
                #expect(result.output.contains { $0.hasPrefix(success) })
                let metrics = try AgentMetrics.Result(from: agent.call("agent.metrics"))
                #expect(metrics.connections >= 1 && metrics.requests >= 4 && metrics.publications >= 3)
                #expect(metrics.residentBytes > 1 << 20 && 3..<metrics.maximumFiles ~= metrics.openFiles)
                #expect(metrics.disks.map(\.directory) == ["state", "images"])
                #expect(metrics.disks.allSatisfy { $0.bytes > 0 && 0...$0.bytes ~= $0.freeBytes })
                #expect(metrics.sourceRequests.counts.reduce(0, +) >= 1)
                #expect(metrics.namespaces.map(\.namespace) == ["default", "shop"])
            }
        }

        @Test("the check for Nagios in the guide maps the exit statuses")
        func nagios() throws {
            let guide = Checkout.root.appending(path: "contrib/guides/monitoring.md")
            let parts = try String(contentsOf: guide, encoding: .utf8).components(separatedBy: "```sh\n")
            try #require(parts.count == 2)
            let script = parts[1].components(separatedBy: "```")[0]
            try AgentHome.with(settings: "{}") { home in
                let programs = try URL(fileURLWithPath: Products.commandLine).deletingLastPathComponent().path
                let environment = home.clientEnvironment.merging(["PATH": programs + ":/usr/bin:/bin"]) { $1 }
                func check() throws -> Command {
                    try Command.run("/bin/sh", ["-c", script], environment: environment)
                }
                let down = try check()
                #expect(down.status == 2 && down.text.hasPrefix("LARDER CRITICAL: there is no socket at "), "\(down)")
                _ = try home.start()
                let ok = try check()
                let isHealthy = home.healthyStatus == 0
                #expect(ok.status == (isHealthy ? 0 : 1), "\(ok)")
                let headline = isHealthy ? "OK: no problems found\n\nNAMESPACE " : "WARNING: state "
                #expect(ok.text.hasPrefix("LARDER \(headline)"), "\(ok)")
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", "{")
                _ = try home.larder("refresh")
                let warning = try check()
                #expect(warning.status == 1 && warning.text.hasPrefix("LARDER WARNING: "), "\(warning)")
                let first = warning.text.prefix { $0 != "\n" }
                if isHealthy {
                    #expect(first.contains("default has been stale") && first.contains("10.json"), "\(first)")
                }
            }
        }

        @Test("a subscription is behind until its client reads the pending output")
        func behind() throws {
            try AgentHome.with(settings: "{}") { home in
                let agent = try home.start()
                let (client, reader) = try (agent.connect(), agent.connect())
                func isBehind(_ count: Int) -> (JSONValue) -> Bool {
                    { $0["subscriptions"]?["behind"]?.int == count }
                }
                try client.call("agent.metrics", until: isBehind(0))
                // Each value is larger than a socket buffer, so the second event has to wait.
                for letter in ["x", "y", "z"] {
                    try client.call("config.set", ["large", .string(String(repeating: letter, count: 900_000))])
                    if letter == "x" { try reader.call("config.subscribe", ["large"]) }
                }
                try client.call("agent.metrics", until: isBehind(1))
                while try reader.event()["value"]?.string?.hasPrefix("z") != true {}
                try client.call("agent.metrics", until: isBehind(0))
                // A client that disconnects is no longer behind.
                for letter in ["x", "y", "z"] {
                    try client.call("config.set", ["large", .string(String(repeating: letter, count: 900_000))])
                }
                try client.call("agent.metrics", until: isBehind(1))
                reader.close()
                try client.call("agent.metrics", until: isBehind(0))
            }
        }

        @Test("publications of a removed namespace still count")
        func removedNamespace() throws {
            try AgentHome.with(settings: "{ namespaces: { shop: {} } }") { home in
                let agent = try home.start()
                for value in 1...3 { try agent.call("config.set", ["a", .int(value), "shop"]) }
                func publications() throws -> Int? { try agent.call("agent.metrics")["publications"]?.int }
                let before = try publications()
                try home.write(settings: "{}")
                try agent.reload()
                #expect(try publications() == before)
                #expect(try agent.call("agent.metrics")["namespaces"]?.count == 1)
            }
        }
    }
}
