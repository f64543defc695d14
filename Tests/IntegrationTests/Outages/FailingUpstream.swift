import Foundation
import TestSupport

/// A way in which an upstream fails.
enum Outage {
    /// The upstream is unreachable, or closes connections without a response.
    case down
    /// The upstream disconnects in the middle of a response. For a file source, the file is truncated.
    case dying
    /// The upstream serves an HTML page instead of a configuration.
    case garbage
}

/// An upstream whose outages a test controls. It is unavailable at first.
protocol FailingUpstream: AnyObject {
    /// The value of the namespace's `remote` in the settings.
    var settings: String { get }
    /// Serves `{"n":number}` from now on.
    func serve(_ number: Int) throws
    /// Starts an outage.
    func fail(_ outage: Outage) throws
    /// Stops the processes and sockets of the upstream.
    func end()
}

final class FailingHTTP: FailingUpstream {
    private let origin: RawOrigin

    init() throws { origin = try RawOrigin() }

    var settings: String { "{ http: { url: '\(origin.documentURL)', intervalSeconds: 0.3 } }" }

    func serve(_ number: Int) {
        origin.answer(.document("{\"n\":\(number)}", etag: "\(number)"))
        origin.listen()
    }

    func fail(_ outage: Outage) {
        switch outage {
        case .down: origin.answer(.text("", thenClose: true))
        case .dying:
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nETag: \"x\"\r\n\r\n"
            origin.answer(.text(head + "{\"n\":0", thenClose: true))
        case .garbage: origin.answer(.status("200 OK", "<!DOCTYPE html>", fields: ["ETag: \"x\""]))
        }
        origin.disconnect()
    }

    func end() { origin.stop() }
}

final class FailingEventStream: FailingUpstream {
    private let origin: RawOrigin

    init() throws { origin = try RawOrigin() }

    var settings: String { "{ sse: { url: '\(origin.streamURL)', intervalSeconds: 0.5, timeoutSeconds: 5 } }" }

    func serve(_ number: Int) {
        origin.answer(.stream(event("{\"n\":\(number)}")))
        origin.listen()
        origin.disconnect()
    }

    func fail(_ outage: Outage) {
        switch outage {
        case .down: origin.answer(.text("", thenClose: true))
        case .dying:
            origin.answer(.stream("data: {\"n\":0").closing)
            origin.send("data: {\"n\":0")
        case .garbage: origin.answer(.stream(event("<!DOCTYPE html>")))
        }
        origin.disconnect()
    }

    func end() { origin.stop() }
}

/// A real etcd server behind a relay. The test can cut the connections of the relay.
final class FailingEtcd: FailingUpstream {
    private let server: EtcdServer
    private let relay: Relay
    private var isRunning = false
    private var isCut = false

    init(in directory: String) throws {
        let (client, peer) = try (LoopbackPort.free(), LoopbackPort.free())
        server = EtcdServer("a", in: directory, ports: (client, peer, 0), cluster: "a=http://127.0.0.1:\(peer)")
        relay = try Relay(to: client)
    }

    var settings: String {
        "{ etcd: { endpoints: ['http://127.0.0.1:\(relay.port)'], prefix: '/c', format: 'json', intervalSeconds: 1 } }"
    }

    func serve(_ number: Int) throws {
        if isCut { try relay.start() }
        isCut = false
        try put("\(number)")
    }

    func fail(_ outage: Outage) throws {
        switch outage {
        case .down:
            server.kill()
            isRunning = false
        case .dying:
            relay.cut()
            isCut = true
        case .garbage: try put("<!DOCTYPE html>")
        }
    }

    private func put(_ text: String) throws {
        if !isRunning { try server.start() }
        isRunning = true
        try EtcdGateway(port: server.clientPort).put("/c/n", text)
    }

    func end() {
        server.kill()
        relay.cut()
    }
}

final class FailingFile: FailingUpstream {
    private let home: AgentHome
    private var path: String { home.directory + "/upstream.json" }

    init(in home: AgentHome) { self.home = home }

    var settings: String { "{ file: { path: '@/upstream.json' } }" }

    func serve(_ number: Int) throws { try home.write("upstream.json", "{\"n\":\(number)}") }

    func fail(_ outage: Outage) throws {
        switch outage {
        case .down: unlink(path)
        case .dying: try "{\"n\":".write(toFile: path, atomically: false, encoding: .utf8)
        case .garbage: try home.write("upstream.json", "<!DOCTYPE html>")
        }
    }

    func end() {}
}
