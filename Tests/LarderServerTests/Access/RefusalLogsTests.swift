import LarderProtocol
import Logging
import TestSupport
import Testing

@testable import LarderServer

@Suite("Logs of refused connections and requests")
struct RefusalLogsTests {
    private static func denial(_ right: Right, in namespace: String?) -> WireError {
        WireError(lacking: right, in: namespace, "no")
    }

    private static func peer(_ user: Int) -> PeerCredentials {
        var peer = PeerCredentials.stranger
        (peer.uid, peer.pid, peer.knownCommand) = (user, 17, "sh")
        return peer
    }

    @Test("a refused request is logged with the user, the process, the right and the namespace")
    func request() {
        let (lines, log) = logs()
        log.addRequest(Self.denial(.write, in: "a"), to: "config.set", of: Self.peer(1))
        let line = lines.take()
        #expect(line.map(\.level) == [.notice])
        #expect(
            line.map(\.message) == [
                #"config.set was denied to user 1, process 17 (sh): it requires the right "write" in namespace "a""#
            ])
        #expect(
            line.first?.fields == [
                "method": "config.set", "right": "write", "namespace": "a", "peer_uid": "1", "peer_pid": "17",
                "peer_command": "sh",
            ])
    }

    @Test("refusals with the same user, method and right are combined into one log line, even if the namespaces differ")
    func combinedRequests() {
        let (lines, log) = logs()
        func add(_ user: Int, _ method: String, _ right: Right, _ namespace: String?) {
            log.addRequest(Self.denial(right, in: namespace), to: method, of: Self.peer(user))
        }
        for _ in 0..<500 { add(1, "config.set", .write, "a") }
        add(2, "config.set", .write, "a")
        add(1, "config.push", .push, "a")
        add(1, "agent.clients", .administer, nil)
        #expect(lines.take().count == 4)
        add(1, "config.set", .write, "b")
        log.flush()
        let combined = lines.take()
        #expect(combined.map(\.level) == [.notice])
        #expect(
            combined.map(\.message) == [
                #"config.set was denied to user 1, process 17 (sh) (500 times in 10 s): it requires the right "write" "#
                    + "in namespaces a, b"
            ])
        #expect(combined.first?.fields["refused"] == "500" && combined.first?.fields["namespaces"] == "a, b")
    }

    @Test("a log line of combined refusals names up to eight namespaces")
    func namespaces() {
        let (lines, log) = logs()
        func add(_ namespace: String) {
            log.addRequest(Self.denial(.read, in: namespace), to: "config.get", of: Self.peer(1))
        }
        for name in ["first", "n1", "n2", "n2", "n1"] { add(name) }
        log.flush()
        #expect(lines.take().last?.message.hasSuffix(#"the right "read" in namespaces n1, n2"#) == true)
        for number in 0...9 { add("n\(number)") }
        log.flush()
        #expect(
            lines.take().last?.message.hasSuffix("in namespaces n1, n2, n3, n4, n5, n6, n7, n8 and others") == true)
    }

    @Test("a request that fails for a reason other than a missing right is not logged as a refusal")
    func otherErrors() {
        let (lines, log) = logs()
        log.addRequest(WireError(.unknownNamespace, "x"), to: "config.get", of: Self.peer(1))
        log.flush()
        #expect(lines.take().isEmpty)
    }

    @Test("the log counts refused connections and names the limit that was reached")
    func connections() {
        let (lines, log) = logs()
        for _ in 0..<500 { log.addConnection(ConnectionLimits()) }
        var limits = ConnectionLimits()
        (limits.connections, limits.isBoundByDescriptors) = (7, true)
        log.addConnection(limits)
        log.flush()
        let taken = lines.take()
        #expect(taken.allSatisfy { $0.level == .warning })
        let tooMany = "connections were refused: limits.connections is reached"
        #expect(
            taken.map(\.message) == [
                tooMany, "connections were refused: the limit of open files is reached", tooMany,
            ])
        #expect(taken.map { $0.fields["refused"] } == ["1", "1", "499"])
        #expect(taken[1].fields["limit"] == "7")
    }

    @Test("refusals because of a per-user limit are logged with their number, separately for each user and limit")
    func usage() {
        let (lines, log) = logs()
        let error = WireError(.limitExceeded, "too much")
        for user in [1, 1, 2, 1] { log.addUsage(error, "queuedBytesPerUser", of: Self.peer(user)) }
        log.addUsage(error, "connectionsPerUser", of: Self.peer(1))
        log.flush()
        let taken = lines.take()
        #expect(taken.allSatisfy { $0.level == .warning })
        #expect(taken.map(\.message) == Array(repeating: "a client was refused: too much", count: 4))
        #expect(taken.map { $0.fields["peer_uid"] } == ["1", "2", "1", "1"])
        #expect(
            taken.last?.fields == [
                "refused": "2", "limit": "queuedBytesPerUser", "peer_uid": "1", "peer_pid": "17", "peer_command": "sh",
            ])
    }

    private func logs() -> (LogRecorder, RefusalLogs) {
        let lines = LogRecorder()
        return (lines, RefusalLogs(lines.logger))
    }
}
