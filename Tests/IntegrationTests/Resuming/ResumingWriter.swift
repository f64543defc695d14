import LarderJSON
import TestSupport

/// Changes a namespace at random and computes the expected content of every revision.
final class ResumingWriter {
    private let groups = ["a", "b", "c", "d", "größe", "f.g"]
    private let names = ["0", "limit", "x y", "ü", "~/"]
    /// The groups for which expected digests are recorded; nil stands for the whole document.
    private let watched: [String?]
    private var model = ExpectedConfig()
    /// The expected digests of the watched groups, by revision.
    private var expectedDigests: [Int: [String?: String]] = [:]
    private var client: LineClient?
    private(set) var changes = 0
    private(set) var revision = 0

    init(watching watched: [String?]) { self.watched = watched }

    func connect(to agent: AgentProcess) throws {
        client = try LineClient(path: agent.socket)
        let current = try call("config.get")
        let text = try require(current["value"], "value").compactText
        guard ExpectedConfig.text(of: try JSONValue(parsing: text)) == model.text(of: nil) else {
            throw HarnessError("the agent serves \(text) instead of \(model.text(of: nil) ?? "")")
        }
        // Records the revision of the content, because a restart can assign a new revision to the same content.
        try record(current)
        let status = try require(try call("config.status")["namespaces"]?[0], "status")
        guard status["digest"]?.string == "sha256:" + ExpectedConfig.digest(of: text),
            status["revision"] == current["revision"]
        else { throw HarnessError("digest or revision in config.status do not match the document: \(status)") }
    }

    func disconnect() {
        client?.close()
        client = nil
    }

    private func call(_ method: String) throws -> JSONValue {
        try require(client, "connection").call(method)
    }

    /// Pipelines 1 to 24 random overrides, or pushes one random document, and waits for the replies. Pipelined
    /// overrides share disk writes and snapshots.
    func change(_ generator: inout SeededGenerator) throws {
        let client = try require(client, "connection")
        // A push is never pipelined with overrides. The agent queues pushes separately, so their order would be
        // undefined.
        if Int.random(in: 0..<8, using: &generator) == 0 { return try push(&generator) }
        var requests: [(id: Int, change: (inout ExpectedConfig) -> Void)] = []
        for _ in 0..<Int.random(in: 1...24, using: &generator) {
            let (group, name) = (one(of: groups, &generator), one(of: names, &generator))
            if Int.random(in: 0..<6, using: &generator) > 0 {
                let text = value(&generator)
                let params: JSONValue = [
                    "path": [.string(group), .string(name)], "value": try JSONValue(parsing: text),
                ]
                requests.append((try client.request("config.set", params), { $0.set(group, name, to: text) }))
            } else {
                let isWhole = Int.random(in: 0..<3, using: &generator) == 0
                let path: JSONValue = isWhole ? [.string(group)] : [.string(group), .string(name)]
                requests.append(
                    (try client.request("config.unset", ["path": path]), { $0.unset(group, isWhole ? nil : name) }))
            }
        }
        for (id, change) in requests {
            let result = try client.reply(to: id)
            change(&model)
            try record(result)
        }
    }

    private func push(_ generator: inout SeededGenerator) throws {
        var document: ExpectedConfig.Groups = [:]
        for group in groups where Int.random(in: 0..<3, using: &generator) > 0 {
            for name in names where Int.random(in: 0..<2, using: &generator) > 0 {
                document[group, default: [:]][name] = value(&generator, canHide: false)
            }
        }
        let members = try document.map { group, values in
            (group, JSONValue.object(try values.map { ($0.key, try JSONValue(parsing: $0.value)) }))
        }
        let result = try require(client, "connection").call("config.push", ["document": .object(members)])
        model.push(document)
        try record(result)
    }

    /// Changes every group, so that every subscriber gets an event. Returns the revision of the last event of each
    /// group; nil stands for the whole document.
    func changeEverything() throws -> [String?: Int] {
        var revisions: [String?: Int] = [:]
        for group in groups {
            let text = "\"last \(changes)\""
            let path: JSONValue = [.string(group), .string(names[0])]
            let result = try require(client, "connection").call(
                "config.set", ["path": path, "value": try JSONValue(parsing: text)])
            model.set(group, names[0], to: text)
            try record(result)
            revisions[group] = revision
        }
        revisions[nil] = revision
        return revisions
    }

    /// Records the expected content of the revision in `result`. If several changes share a revision, the content after
    /// the last of them is recorded.
    private func record(_ result: JSONValue) throws {
        changes += 1
        revision = try require(result["revision"]?.int, "revision")
        var digests: [String?: String] = [:]
        for group in watched { digests[group] = ExpectedConfig.digest(of: model.text(of: group)) }
        expectedDigests[revision] = digests
    }

    /// Compares the values that a subscriber had after its events with the expected ones.
    func check(_ reader: PatchReader) throws {
        for observation in reader.observations {
            guard let digest = expectedDigests[observation.revision]?[reader.group] else {
                throw HarnessError("an event has the unknown revision \(observation.revision)")
            }
            guard digest == observation.digest else {
                throw HarnessError(
                    "the subscriber of \(reader.group ?? "all groups") has a wrong value at revision \(observation.revision)"
                )
            }
        }
        reader.clearObservations()
    }

    private func one(of names: [String], _ generator: inout SeededGenerator) -> String {
        names[Int.random(in: 0..<names.count, using: &generator)]
    }

    private func value(_ generator: inout SeededGenerator, canHide: Bool = true) -> String {
        switch Int.random(in: 0..<12, using: &generator) {
        case 0: canHide ? "null" : "true"
        case 1: ["0.1000", "-0", "1e400", "12345678901234567890"][Int.random(in: 0..<4, using: &generator)]
        case 2: #"[1,null,{"y":null,"x":[]}]"#
        case 3: #""tab\t, quote\", \u00fc and 😀""#
        case 4: "\"\(String(repeating: "x", count: Int.random(in: 0...3_000, using: &generator)))\""
        default: "\(changes * 100 + Int.random(in: 0..<100, using: &generator))"
        }
    }
}
