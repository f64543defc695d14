import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization
import TestSupport
import Testing

@testable import LarderUpstream

@Suite("HTTP clients with an address guard", .timeLimit(.minutes(15)))
struct AddressGuardClientsTests {
    /// A resolver that returns the given lists of addresses, one per lookup, and then the last list repeatedly.
    private final class ScriptedResolver: HostResolver {
        private let answers: Mutex<[[String]]>
        private let names = Mutex<[String]>([])

        init(_ answers: [String]...) { self.answers = Mutex(answers) }

        var lookups: [String] { names.withLock { $0 } }

        func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] {
            names.withLock { $0.append(name) }
            return answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }.compactMap { IPAddress($0) }
        }
    }

    private func get(_ url: String, _ clients: GuardedClients) async throws -> UInt {
        try await answer(url, clients).status
    }

    private func answer(_ url: String, _ clients: GuardedClients) async throws -> (status: UInt, body: String) {
        let url = try FetchURL(url)
        return try await clients.withClient(for: url) { route throws(UpstreamError) in
            do {
                let response = try await route.execute(
                    HTTPClientRequest(url: url.text), to: url, isRepeatable: true)
                let body = try await response.body.collect(upTo: 1 << 16)
                return (response.status.code, String(buffer: body))
            } catch {
                throw (error as? UpstreamError) ?? UpstreamError(before: error, from: url)
            }
        }
    }

    /// Clients that may connect only to 127.0.0.1, which stands for a public address.
    private func clients(
        _ resolver: any HostResolver, maximum: Int = 64,
        configuration: HTTPClient.Configuration = HTTPClient.Configuration()
    ) throws -> GuardedClients {
        GuardedClients(
            addressGuard: AddressGuard(allowed: [try #require(AddressRange("127.0.0.1/32"))]), resolver: resolver,
            configuration: configuration, maximumClients: maximum)
    }

    @Test("DNS rebinding: a name is resolved once per request, and only the checked address is used")
    func rebinding() async throws {
        let server = try RawOrigin.listening([.send(ok("public"))])
        // The second list is the answer of an attacker's name server to a second lookup.
        let resolver = ScriptedResolver(["127.0.0.1"], ["127.0.0.2"])
        let clients = try clients(resolver)
        #expect(try await get("http://rebind.example:\(server.port)/", clients) == 200)
        #expect(resolver.lookups == ["rebind.example"])
        #expect(server.requests.first?.lowercased().contains("host: rebind.example:\(server.port)\r\n") == true)
        let error = await #expect(throws: UpstreamError.self) {
            try await get("http://rebind.example:\(server.port)/", clients)
        }
        #expect(error?.code == .forbiddenAddress)
        #expect(error?.message.contains("127.0.0.2") == true)
        #expect(server.requests.count == 1)
        await clients.shutdown()
        server.stop()
    }

    @Test("upper case and a trailing dot in a host name do not bypass the address check")
    func letters() async throws {
        let server = try RawOrigin.listening([.send(ok("x"))])
        let clients = try clients(ScriptedResolver(["127.0.0.1"]))
        for host in ["LocalHost", "EXAMPLE.Invalid", "ip6-localhost"] {
            #expect(try await get("http://\(host):\(server.port)/", clients) == 200)
        }
        // Some libraries treat a name with a trailing dot as a different name.
        #expect(try await get("http://example.invalid.:\(server.port)/", clients) == 200)
        let last = try #require(server.requests.last)
        #expect(last.lowercased().contains("host: example.invalid.:\(server.port)\r\n"))
        #expect(server.requests.count == 4)
        await clients.shutdown()
        let refusing = try self.clients(ScriptedResolver(["127.0.0.2"]))
        for host in ["LocalHost", "EXAMPLE.Invalid", "ip6-localhost", "example.invalid."] {
            let error = await #expect(throws: UpstreamError.self) {
                try await get("http://\(host):\(server.port)/", refusing)
            }
            #expect(error?.code == .forbiddenAddress, "\(host)")
        }
        #expect(server.requests.count == 4)
        await refusing.shutdown()
        server.stop()
    }

    @Test("every spelling of a host name goes to its checked address; the system does not resolve the name again")
    func spellings() async throws {
        let server = try RawOrigin.listening([.send(ok("x"))])
        let clients = try clients(ScriptedResolver(["127.0.0.1"]))
        let spellings = ["rebind.example", "Rebind.example", "REBIND.EXAMPLE", "rebind.example.", "ReBind.Example."]
        for host in spellings {
            #expect(try await get("http://\(host):\(server.port)/", clients) == 200, "\(host)")
        }
        await clients.shutdown()
        // The system resolves `localhost` to the address of the server.
        let other = GuardedClients(
            addressGuard: AddressGuard(allowed: [try #require(AddressRange("127.0.0.3/32"))]),
            resolver: ScriptedResolver(["127.0.0.3"]), configuration: HTTPClient.Configuration())
        for host in ["localhost", "LocalHost", "LOCALHOST", "localhost.", "LocalHost."] {
            let error = await #expect(throws: UpstreamError.self) {
                try await get("http://\(host):\(server.port)/", other)
            }
            #expect(error?.code == .connectFailed, "\(host)")
        }
        #expect(server.requests.count == spellings.count)
        await other.shutdown()
        server.stop()
    }

    @Test("TLS uses the host name for the server name indication and the certificate check")
    func tls() async throws {
        let location = "location / { return 200 \"$ssl_server_name $host $http2\"; }"
        let nginx = try Nginx(location, tls: true, http2: true) { directory in
            try Certificates(directory: directory).makeSelfSigned(
                "server", "pinned.example", alternative: "DNS:pinned.example")
        }
        var configuration = HTTPClient.Configuration()
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(nginx.directory + "/server.pem")
        configuration.tlsConfiguration = tls
        // The request for the other host name fails in TLS. The client would otherwise retry the connection until the
        // deadline.
        configuration.connectionPool.retryConnectionEstablishment = false
        let clients = try clients(ScriptedResolver(["127.0.0.1"]), configuration: configuration)
        let good = try await answer("https://pinned.example:\(nginx.port)/", clients)
        #expect(good.status == 200)
        #expect(good.body == "pinned.example pinned.example h2")
        let error = await #expect(throws: UpstreamError.self) {
            try await get("https://other.example:\(nginx.port)/", clients)
        }
        #expect(error?.code == .tlsFailed)
        await clients.shutdown()
    }

    @Test("connections are reused while the address stays the same")
    func reuse() async throws {
        let nginx = try Nginx("location / { return 200 \"$connection\"; }")
        let resolver = ScriptedResolver(["127.0.0.1"])
        let clients = try clients(resolver)
        // The bodies of the responses: nginx's number of the connection.
        var connections: Set<String> = []
        for _ in 0..<5 {
            let answer = try await answer("http://same.example:\(nginx.port)/", clients)
            #expect(answer.status == 200)
            connections.insert(answer.body)
        }
        // A busy machine may not have returned a connection to the pool when the next request needs it.
        #expect(connections.count < 5)
        #expect(resolver.lookups.count == 5)
        await clients.shutdown()
    }

    @Test("forbidden addresses are skipped if the host has an allowed one")
    func mixed() async throws {
        let server = try RawOrigin.listening([.send(ok("x"))])
        let clients = try clients(ScriptedResolver(["10.0.0.1", "::1", "127.0.0.1"], ["10.0.0.1", "::1"]))
        #expect(try await get("http://mixed.example:\(server.port)/", clients) == 200)
        let error = await #expect(throws: UpstreamError.self) {
            try await get("http://mixed.example:\(server.port)/", clients)
        }
        #expect(error?.code == .forbiddenAddress)
        #expect(server.requests.count == 1)
        await clients.shutdown()
        server.stop()
    }

    @Test(
        "forbidden addresses in the URL are refused without a lookup",
        arguments: [
            "127.0.0.2", "[::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
            "0x7f.1", "2130706433", "017700000001", "127.1",
        ])
    func literals(_ host: String) async throws {
        let resolver = ScriptedResolver(["127.0.0.1"])
        let clients = try clients(resolver)
        let error = await #expect(throws: UpstreamError.self) { try await get("http://\(host):9/", clients) }
        #expect([.forbiddenAddress, .invalidURL].contains(error?.code))
        #expect(resolver.lookups.isEmpty)
        await clients.shutdown()
    }

    @Test("a request to a host name without addresses fails; after the shutdown of the clients every request fails")
    func unknown() async throws {
        let clients = try clients(ScriptedResolver([]))
        let error = await #expect(throws: UpstreamError.self) { try await get("http://nowhere.example/", clients) }
        #expect(error?.code == .connectFailed)
        await clients.shutdown()
        let late = await #expect(throws: UpstreamError.self) { try await get("http://127.0.0.1/", clients) }
        #expect(late?.code == .shutDown)
    }

    @Test("idle HTTP clients above the maximum number are shut down; clients in use are kept")
    func surplus() async throws {
        let server = try RawOrigin.listening([.send(ok("x"))])
        let clients = try clients(ScriptedResolver(["127.0.0.1"]), maximum: 1)
        for host in ["a", "b", "a", "c", "b"] {
            #expect(try await get("http://\(host).example:\(server.port)/", clients) == 200)
        }
        try await withThrowingTaskGroup(of: UInt.self) { group in
            for number in 0..<8 {
                group.addTask { try await get("http://n\(number % 4).example:\(server.port)/", clients) }
            }
            for try await status in group { #expect(status == 200) }
        }
        await clients.shutdown()
        server.stop()
    }

    @Test("the system resolver resolves localhost, and returns no address for an unknown name")
    func system() async throws {
        let addresses = try await SystemResolver(.singleton).addresses(of: "localhost")
        #expect(!addresses.isEmpty && addresses.allSatisfy { $0.kind == .loopback })
        #expect(try await SystemResolver(.singleton).addresses(of: "nowhere.invalid").isEmpty)
    }

    @Test("a cancelled lookup ends immediately")
    func cancelled() async throws {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await SystemResolver(.singleton).addresses(of: "localhost")
        }
        let error = await #expect(throws: UpstreamError.self) { try await task.value }
        #expect(error?.code == .cancelled)
    }

    @Test("a lookup on a thread pool that is not running fails with the error `cancelled`")
    func stoppedPool() async throws {
        let error = await #expect(throws: UpstreamError.self) {
            try await SystemResolver(NIOThreadPool(numberOfThreads: 1)).addresses(of: "localhost")
        }
        #expect(error?.code == .cancelled)
    }
}
