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

@Suite("Clients behind the address guard", .timeLimit(.minutes(5)))
struct AddressGuardClientsTests {
    /// Gives one list of addresses after the other, and the last for ever.
    private final class ScriptedResolver: HostResolver {
        private let answers: Mutex<[[String]]>
        private let asked = Mutex<[String]>([])

        init(_ answers: [String]...) { self.answers = Mutex(answers) }

        var questions: [String] { asked.withLock { $0 } }

        func addresses(of name: String) async throws(UpstreamError) -> [IPAddress] {
            asked.withLock { $0.append(name) }
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
                let response = try await route.client.execute(
                    HTTPClientRequest(url: url.text), timeout: .seconds(30))
                let body = try await response.body.collect(upTo: 1 << 16)
                return (response.status.code, String(buffer: body))
            } catch {
                throw (error as? UpstreamError) ?? UpstreamError(before: error, from: url)
            }
        }
    }

    /// The only address that is allowed here stands for a public one.
    private func clients(
        _ resolver: any HostResolver, maximum: Int = 64,
        configuration: HTTPClient.Configuration = HTTPClient.Configuration()
    ) throws -> GuardedClients {
        GuardedClients(
            addressGuard: AddressGuard(allowed: [try #require(AddressRange("127.0.0.1/32"))]), resolver: resolver,
            configuration: configuration, maximumClients: maximum)
    }

    @Test("a name that is public when it is checked and private when it is connected to is resolved only once")
    func rebinding() async throws {
        let server = try RawOrigin.listening([.send(ok("public"))])
        // The second answer is what an attacker's server gives when it is asked again.
        let resolver = ScriptedResolver(["127.0.0.1"], ["127.0.0.2"])
        let clients = try clients(resolver)
        #expect(try await get("http://rebind.example:\(server.port)/", clients) == 200)
        #expect(resolver.questions == ["rebind.example"])
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

    @Test("names in other letters go where they were checked to go, and nowhere else")
    func letters() async throws {
        let server = try RawOrigin.listening([.send(ok("x"))])
        let clients = try clients(ScriptedResolver(["127.0.0.1"]))
        for host in ["LocalHost", "EXAMPLE.Invalid", "ip6-localhost"] {
            #expect(try await get("http://\(host):\(server.port)/", clients) == 200)
        }
        // A name with a dot at its end is another for some libraries.
        #expect(try await get("http://example.invalid.:\(server.port)/", clients) == 200)
        await clients.shutdown()
        server.stop()
    }

    @Test("TLS is with the name: in the server name that is asked for, and in the check of the certificate")
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
        // The other name's certificate is not trusted, so that trying again would take until the deadline.
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
        let server = try RawOrigin.listening([.send(ok("x"))])
        let resolver = ScriptedResolver(["127.0.0.1"])
        let clients = try clients(resolver)
        for _ in 0..<5 { #expect(try await get("http://same.example:\(server.port)/", clients) == 200) }
        #expect(resolver.questions.count == 5)
        await clients.shutdown()
        server.stop()
    }

    @Test("an address that is not allowed is passed over when there is another")
    func mixed() async throws {
        let server = try RawOrigin.listening([.send(ok("x"))])
        let clients = try clients(ScriptedResolver(["10.0.0.1", "::1", "127.0.0.1"]))
        #expect(try await get("http://mixed.example:\(server.port)/", clients) == 200)
        await clients.shutdown()
        server.stop()
    }

    @Test(
        "addresses in the URL are checked without a resolver",
        arguments: [
            "127.0.0.2", "[::1]", "[::ffff:169.254.169.254]", "0.0.0.0", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
            "0x7f.1", "2130706433", "017700000001", "127.1",
        ])
    func literals(_ host: String) async throws {
        let resolver = ScriptedResolver(["127.0.0.1"])
        let clients = try clients(resolver)
        let error = await #expect(throws: UpstreamError.self) { try await get("http://\(host):9/", clients) }
        #expect([.forbiddenAddress, .invalidURL].contains(error?.code))
        #expect(resolver.questions.isEmpty)
        await clients.shutdown()
    }

    @Test("a name without addresses is an error that says so")
    func unknown() async throws {
        let clients = try clients(ScriptedResolver([]))
        let error = await #expect(throws: UpstreamError.self) { try await get("http://nowhere.example/", clients) }
        #expect(error?.code == .connectFailed)
        await clients.shutdown()
        let late = await #expect(throws: UpstreamError.self) { try await get("http://127.0.0.1/", clients) }
        #expect(late?.code == .shutDown)
    }

    @Test("clients that nobody uses are given up, those in use are not")
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

    @Test("the system's resolver knows this machine, and does not know nonsense")
    func system() async throws {
        let addresses = try await SystemResolver(.singleton).addresses(of: "localhost")
        #expect(!addresses.isEmpty && addresses.allSatisfy { $0.kind == .loopback })
        #expect(try await SystemResolver(.singleton).addresses(of: "nowhere.invalid").isEmpty)
    }

    @Test("a cancelled look-up ends at once")
    func cancelled() async throws {
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await SystemResolver(.singleton).addresses(of: "localhost")
        }
        let error = await #expect(throws: UpstreamError.self) { try await task.value }
        #expect(error?.code == .cancelled)
    }

    @Test("a look-up on a pool that is not running is cancelled")
    func stoppedPool() async throws {
        let error = await #expect(throws: UpstreamError.self) {
            try await SystemResolver(NIOThreadPool(numberOfThreads: 1)).addresses(of: "localhost")
        }
        #expect(error?.code == .cancelled)
    }
}
