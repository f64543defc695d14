import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Outages of each kind of source")
    struct OutageTests {
        enum Kind: String, CaseIterable, Sendable {
            case http, sse, etcd, file

            func upstream(in home: AgentHome) throws -> any FailingUpstream {
                switch self {
                case .http: try FailingHTTP()
                case .sse: try FailingEventStream()
                case .etcd: try FailingEtcd(in: home.directory)
                case .file: FailingFile(in: home)
                }
            }
        }

        @Test(
            "the last good snapshot is served during an outage, and the next one is fetched automatically afterwards",
            arguments: Kind.allCases)
        func recovery(_ kind: Kind) throws {
            try AgentHome.with { home in
                let upstream = try kind.upstream(in: home)
                defer { upstream.end() }
                try home.write(settings: "{ namespaces: { default: { remote: \(upstream.settings) } } }")

                var agent = try home.start()
                var client = try agent.connect()
                try client.call("config.subscribe", ["n"])
                try client.status { $0["state"] == "failed" && $0["lastError"]?.isNull == false }
                #expect(try client.refusal("config.get", ["n"]).name == "unavailable")
                try upstream.serve(1)
                try client.events(until: 1)

                var number = 1
                for outage in [Outage.dying, .garbage, .down] {
                    try upstream.fail(outage)
                    let status = try client.status { $0["state"] == "stale" }
                    #expect(status["lastError"]?.isNull == false, "\(outage): \(status)")
                    #expect(try client.call("config.get", ["n"])["value"]?.int == number, "\(outage)")
                    number += 1
                    try upstream.serve(number)
                    try client.events(until: .int(number))
                    try client.status { $0["state"] == "fresh" && $0["lastError"]?.isNull == true }
                }

                try upstream.fail(.down)
                try client.status { $0["state"] == "stale" }
                #expect(try agent.stop() == .exit(0))
                agent = try home.start()
                client = try agent.connect()
                #expect(try client.call("config.get", ["n"])["value"]?.int == number)
                try client.call("config.subscribe", ["n"])
                try upstream.serve(number + 1)
                try client.events(until: .int(number + 1))
            }
        }
    }
}
