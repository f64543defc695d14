import Foundation
import LarderJSON
import TestSupport

/// A subscriber in patch mode. It keeps its current value when its connection is interrupted, and later resumes from
/// the revision of this value.
final class PatchReader {
    /// The revision and the digest of the subscriber's value after an event.
    struct Observation {
        let revision: Int
        let digest: String
    }

    /// The group (a member of the document) to which the reader subscribes; nil for the whole document.
    let group: String?
    private let isRecorded: Bool
    private var client: LineClient?
    private var isHalfClosed = false
    private var current: (value: JSONValue?, revision: Int, epoch: String)?
    /// The revision in the reply to `config.subscribe`. Nil until the reply arrives.
    private var replyRevision: Int?
    private var subscription: JSONValue?
    private var sequence = 0
    private var lastRequest = 0
    /// The values after those events that ``ResumingWriter/check(_:)`` has not checked yet.
    private(set) var observations: [Observation] = []
    /// The number of events by kind and reason. The first events of subscriptions have counters of their own.
    private(set) var counts: [String: Int] = [:]

    init(group: String?, isRecorded: Bool) {
        self.group = group
        self.isRecorded = isRecorded
    }

    var isConnected: Bool { client != nil }
    /// The revision of the current value, or 0.
    var revision: Int { current?.revision ?? 0 }

    func clearObservations() { observations = [] }

    // MARK: Connecting and disconnecting

    /// Connects and subscribes from the revision of the current value.
    func connect(to agent: AgentProcess) throws {
        client = try LineClient(path: agent.socket, isRecorded: isRecorded)
        isHalfClosed = false
        try subscribe()
    }

    private func subscribe() throws {
        var params: [(String, JSONValue)] = [("mode", "patch")]
        if let group { params.append(("path", .array([.string(group)]))) }
        if let current { params += [("since", .int(current.revision)), ("epoch", .string(current.epoch))] }
        (replyRevision, subscription, sequence) = (nil, nil, 0)
        try request("config.subscribe", .object(params))
    }

    private func request(_ method: String, _ params: JSONValue) throws {
        lastRequest += 1
        try client?.send(LineClient.text(id: lastRequest, method, params))
    }

    /// Disconnects, half-closes the connection or subscribes again, at random.
    func interrupt(_ generator: inout SeededGenerator) throws {
        switch Int.random(in: 0..<5, using: &generator) {
        case 0:
            // Disconnects after a part of the input, usually in the middle of a line. The rest of the line is lost.
            _ = client?.readChunk(Int.random(in: 1...400, using: &generator))
            disconnect()
        case 1:
            try readAvailable()
            disconnect()
        case 2:
            // After a half-close, the subscription continues, but the reader can send no further request.
            client?.halfClose()
            isHalfClosed = true
        case 3 where !isHalfClosed: try resubscribe()
        default: disconnect()
        }
    }

    /// Closes the connection and drops unread input.
    func disconnect() {
        client?.close()
        client = nil
    }

    private func resubscribe() throws {
        guard let client else { return }
        while subscription == nil { try handle(client.message()) }
        try request("config.unsubscribe", ["subscription": subscription ?? .null])
        while true {
            let message = try client.message()
            if message["id"]?.int == lastRequest { break }
            try handle(message)
        }
        try subscribe()
    }

    // MARK: Reading

    /// Handles the available messages without waiting.
    func readAvailable() throws {
        guard let client else { return }
        for line in client.availableLines() { try handle(try JSONValue(parsing: line)) }
        if client.isAtEnd { disconnect() }
    }

    /// Handles messages until the current value has `revision` or a later one.
    func read(upTo revision: Int) throws {
        while self.revision < revision {
            guard let client else { throw HarnessError("the connection ended before revision \(revision)") }
            try handle(client.message())
        }
    }

    private func handle(_ message: JSONValue) throws {
        guard let event = message["params"] else {
            let result = try LineClient.result(of: message)
            subscription = result["subscription"]
            replyRevision = result["revision"]?.int
            return
        }
        guard event["subscription"] == subscription, let replyRevision else {
            throw HarnessError("an event arrived before the reply to config.subscribe: \(message)")
        }
        sequence += 1
        guard event["sequence"]?.int == sequence else {
            throw HarnessError("the sequence is not \(sequence): \(message)")
        }
        let revision = try require(event["revision"]?.int, "revision")
        let epoch = try require(event["epoch"]?.string, "epoch")
        let kind = try require(event["kind"]?.string, "kind")
        count(kind, event["reason"]?.string)
        var value = current?.value
        switch kind {
        case "end": return
        case "patch":
            let from = event["from"]?.int
            guard let current, current.epoch == epoch,
                from == current.revision || (sequence == 1 && from == replyRevision)
            else {
                throw HarnessError("a patch does not apply to revision \(current?.revision ?? 0): \(message)")
            }
            value = MergePatch.apply(try require(event["patch"], "patch"), to: current.value)
        default: value = event["value"]
        }
        if let current, current.epoch == epoch, revision <= current.revision {
            throw HarnessError("revision \(revision) after \(current.revision)")
        }
        current = (value?.detached(), revision, epoch)
        let digest = ExpectedConfig.digest(of: value.map { ExpectedConfig.text(of: $0) })
        observations.append(Observation(revision: revision, digest: digest))
    }

    private func count(_ kind: String, _ reason: String?) {
        let name = (sequence == 1 ? "first " : "") + kind + (reason.map { ", \($0)" } ?? "")
        counts[name, default: 0] += 1
    }
}
