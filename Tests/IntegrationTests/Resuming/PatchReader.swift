import Foundation
import LarderJSON
import TestSupport

/// A subscriber in patch mode that keeps a value over connections that end, by itself or by chance.
final class PatchReader {
    /// What it holds after an event.
    struct Reading {
        let revision: Int
        let digest: String
    }

    /// The group that it reads; nil for the whole document.
    let group: String?
    private let isRecorded: Bool
    private var client: LineClient?
    /// Whether it closed its half of the connection.
    private var isSilent = false
    private var held: (value: JSONValue?, revision: Int, epoch: String)?
    /// The revision that the reply to the subscription named; nil as long as it has not come.
    private var replied: Int?
    private var subscription: JSONValue?
    private var sequence = 0
    private var lastRequest = 0
    /// What it held after each event that was not looked at yet.
    private(set) var readings: [Reading] = []
    /// How many events of which kind it got.
    private(set) var counts: [String: Int] = [:]

    init(group: String?, isRecorded: Bool) {
        self.group = group
        self.isRecorded = isRecorded
    }

    var isConnected: Bool { client != nil }
    /// The revision of what it holds.
    var revision: Int { held?.revision ?? 0 }

    func forgetReadings() { readings = [] }

    // MARK: Coming and going

    /// Connects, and asks for what changed since what it holds.
    func connect(to agent: AgentProcess) throws {
        client = try LineClient(path: agent.socket, isRecorded: isRecorded)
        isSilent = false
        try subscribe()
    }

    private func subscribe() throws {
        var params: [(String, JSONValue)] = [("mode", "patch")]
        if let group { params.append(("path", .array([.string(group)]))) }
        if let held { params += [("since", .int(held.revision)), ("epoch", .string(held.epoch))] }
        (replied, subscription, sequence) = (nil, nil, 0)
        try request("config.subscribe", .object(params))
    }

    private func request(_ method: String, _ params: JSONValue) throws {
        lastRequest += 1
        try client?.send(LineClient.text(id: lastRequest, method, params))
    }

    /// Ends the subscription in one of the ways in which subscriptions end.
    func leave(_ chance: inout SeededGenerator) throws {
        switch Int.random(in: 0..<5, using: &chance) {
        case 0:
            // In the middle of a line, which is lost.
            _ = client?.takePiece(Int.random(in: 1...400, using: &chance))
            drop()
        case 1:
            try take()
            drop()
        case 2:
            // It goes on reading, and has nothing more to say.
            client?.endInput()
            isSilent = true
        case 3 where !isSilent: try subscribeAnew()
        default: drop()
        }
    }

    /// Goes away, whatever is on its way.
    func drop() {
        client?.close()
        client = nil
    }

    private func subscribeAnew() throws {
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

    /// Takes what has come, without waiting.
    func take() throws {
        guard let client else { return }
        for line in client.linesSoFar() { try handle(try JSONValue(parsing: line)) }
        if client.isAtEnd { drop() }
    }

    /// Waits until it holds a revision, or a later one.
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
            replied = result["revision"]?.int
            return
        }
        guard event["subscription"] == subscription, let replied else {
            throw HarnessError("an event before the reply to its subscription: \(message)")
        }
        sequence += 1
        guard event["sequence"]?.int == sequence else { throw HarnessError("event \(sequence) is \(message)") }
        let revision = try require(event["revision"]?.int, "revision")
        let epoch = try require(event["epoch"]?.string, "epoch")
        let kind = try require(event["kind"]?.string, "kind")
        count(kind, event["reason"]?.string)
        var value = held?.value
        switch kind {
        case "end": return
        case "patch":
            let from = event["from"]?.int
            guard let held, held.epoch == epoch, from == held.revision || (sequence == 1 && from == replied) else {
                throw HarnessError("\(held?.revision ?? 0) is held, and this comes: \(message)")
            }
            value = MergePatch.apply(try require(event["patch"], "patch"), to: held.value)
        default: value = event["value"]
        }
        if let held, held.epoch == epoch, revision <= held.revision {
            throw HarnessError("revision \(revision) after \(held.revision)")
        }
        held = (value?.detached(), revision, epoch)
        readings.append(
            Reading(revision: revision, digest: ExpectedConfig.digest(of: value.map { ExpectedConfig.text(of: $0) })))
    }

    private func count(_ kind: String, _ reason: String?) {
        let name = (sequence == 1 ? "first " : "") + kind + (reason.map { ", \($0)" } ?? "")
        counts[name, default: 0] += 1
    }
}
