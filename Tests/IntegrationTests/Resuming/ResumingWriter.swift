import LarderJSON
import TestSupport

/// One who changes a namespace, and knows what each revision has to say.
final class ResumingWriter {
    private let groups = ["a", "b", "c", "d", "größe", "f.g"]
    private let names = ["0", "limit", "x y", "ü", "~/"]
    /// The groups of which digests are kept, and nil for all of them.
    private let watched: [String?]
    private var model = ExpectedConfig()
    /// The digests of what is watched, by revision.
    private var truth: [Int: [String?: String]] = [:]
    private var client: LineClient?
    private(set) var changes = 0
    private(set) var revision = 0

    init(watching watched: [String?]) { self.watched = watched }

    func connect(to agent: AgentProcess) throws {
        client = try LineClient(path: agent.socket)
        let current = try call("config.get")
        let text = try require(current["value"], "value").compactText
        guard ExpectedConfig.text(of: try JSONValue(parsing: text)) == model.text(of: nil) else {
            throw HarnessError("the agent says \(text), and should say \(model.text(of: nil) ?? "")")
        }
        // What is unchanged may have another number after a start.
        try note(current)
        let status = try require(try call("config.status")["namespaces"]?[0], "status")
        guard status["digest"]?.string == "sha256:" + ExpectedConfig.digest(of: text),
            status["revision"] == current["revision"]
        else { throw HarnessError("the digest is not that of the document: \(status)") }
    }

    func disconnect() {
        client?.close()
        client = nil
    }

    private func call(_ method: String) throws -> JSONValue {
        try require(client, "connection").call(method)
    }

    /// Makes some changes, which share writes to the disk and snapshots, and waits until all of them are made.
    func change(_ chance: inout SeededGenerator) throws {
        let client = try require(client, "connection")
        // A push goes another way than overrides do, so that it does not keep its place among them.
        if Int.random(in: 0..<8, using: &chance) == 0 { return try push(&chance) }
        var requests: [(id: Int, change: (inout ExpectedConfig) -> Void)] = []
        for _ in 0..<Int.random(in: 1...24, using: &chance) {
            let (group, name) = (one(of: groups, &chance), one(of: names, &chance))
            if Int.random(in: 0..<6, using: &chance) > 0 {
                let text = value(&chance)
                let params: JSONValue = [
                    "path": [.string(group), .string(name)], "value": try JSONValue(parsing: text),
                ]
                requests.append((try client.request("config.set", params), { $0.set(group, name, to: text) }))
            } else {
                let isWhole = Int.random(in: 0..<3, using: &chance) == 0
                let path: JSONValue = isWhole ? [.string(group)] : [.string(group), .string(name)]
                requests.append(
                    (try client.request("config.unset", ["path": path]), { $0.unset(group, isWhole ? nil : name) }))
            }
        }
        for (id, change) in requests {
            let result = try client.reply(to: id)
            change(&model)
            try note(result)
        }
    }

    private func push(_ chance: inout SeededGenerator) throws {
        var document: ExpectedConfig.Groups = [:]
        for group in groups where Int.random(in: 0..<3, using: &chance) > 0 {
            for name in names where Int.random(in: 0..<2, using: &chance) > 0 {
                document[group, default: [:]][name] = value(&chance, canHide: false)
            }
        }
        let members = try document.map { group, values in
            (group, JSONValue.object(try values.map { ($0.key, try JSONValue(parsing: $0.value)) }))
        }
        let result = try require(client, "connection").call("config.push", ["document": .object(members)])
        model.push(document)
        try note(result)
    }

    /// Changes every group, so that every subscriber gets an event.
    ///
    /// - Returns: the revision of each one's event
    func changeEverything() throws -> [String?: Int] {
        var revisions: [String?: Int] = [:]
        for group in groups {
            let text = "\"last \(changes)\""
            let path: JSONValue = [.string(group), .string(names[0])]
            let result = try require(client, "connection").call(
                "config.set", ["path": path, "value": try JSONValue(parsing: text)])
            model.set(group, names[0], to: text)
            try note(result)
            revisions[group] = revision
        }
        revisions[nil] = revision
        return revisions
    }

    /// Of several changes in one revision the last one counts.
    private func note(_ result: JSONValue) throws {
        changes += 1
        revision = try require(result["revision"]?.int, "revision")
        var digests: [String?: String] = [:]
        for group in watched { digests[group] = ExpectedConfig.digest(of: model.text(of: group)) }
        truth[revision] = digests
    }

    /// Holds what a subscriber read against what it had to read.
    func check(_ reader: PatchReader) throws {
        for reading in reader.readings {
            guard let digest = truth[reading.revision]?[reader.group] else {
                throw HarnessError("an event for revision \(reading.revision), which nobody made")
            }
            guard digest == reading.digest else {
                throw HarnessError("revision \(reading.revision) of \(reader.group ?? "all") was put together wrong")
            }
        }
        reader.forgetReadings()
    }

    private func one(of names: [String], _ chance: inout SeededGenerator) -> String {
        names[Int.random(in: 0..<names.count, using: &chance)]
    }

    private func value(_ chance: inout SeededGenerator, canHide: Bool = true) -> String {
        switch Int.random(in: 0..<12, using: &chance) {
        case 0: canHide ? "null" : "true"
        case 1: ["0.1000", "-0", "1e400", "12345678901234567890"][Int.random(in: 0..<4, using: &chance)]
        case 2: #"[1,null,{"y":null,"x":[]}]"#
        case 3: #""tab\t, quote\", \u00fc and 😀""#
        case 4: "\"\(String(repeating: "x", count: Int.random(in: 0...3_000, using: &chance)))\""
        default: "\(changes * 100 + Int.random(in: 0..<100, using: &chance))"
        }
    }
}
