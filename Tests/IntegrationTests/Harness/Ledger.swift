import LarderJSON
import TestSupport

/// Records the acknowledgements and revisions that agents of one home sent to clients, and checks them against the
/// state that the next agent serves.
struct Ledger {
    /// A client that repeatedly changes one value. Each change has a number.
    struct Writer {
        let namespace: String
        /// The member of the document that this writer changes.
        let path: String
        let isPush: Bool
        /// Whether acknowledged changes must survive a kill of the agent.
        let isDurable: Bool
        /// The number of the last change that was sent.
        var sent = 0
        /// The number of the last change that was acknowledged.
        var acknowledged = 0

        func request(_ number: Int) -> String {
            let value = Self.value(number)
            if isPush {
                return LineClient.text(
                    id: number, "config.push",
                    ["document": [path: value], "version": .string("\(number)"), "namespace": .string(namespace)])
            }
            return LineClient.text(
                id: number, "config.set", ["path": .string(path), "value": value, "namespace": .string(namespace)])
        }

        /// A value whose members are all derived from `number`, so that a value mixed from two changes is detected.
        private static func value(_ number: Int) -> JSONValue {
            let length = number * 37 % 2_000
            return [
                "number": .int(number), "square": .int(number * number), "length": .int(length),
                "text": .string(String(repeating: "abcdefghij", count: length / 10)),
            ]
        }

        /// The number of the change that wrote this value.
        /// - Throws: An error if the members are not all derived from the same number.
        static func number(of value: JSONValue) throws -> Int {
            let number = try require(value["number"]?.int, "number in \(value)")
            guard value == Self.value(number) else { throw HarnessError("torn value: \(value)") }
            return number
        }
    }

    var writers: [Writer]
    private var epoch: String?
    /// The highest revision that a client received, by namespace.
    private var highest: [String: Int] = [:]
    /// The document of each revision, by namespace.
    private var contents: [String: [Int: String]] = [:]
    /// The number of acknowledged changes.
    private(set) var acknowledgements = 0

    init(writers: [Writer]) { self.writers = writers }

    /// Records a revision that a client received, and the document of the revision if `content` is not nil.
    /// - Throws: An error if the epoch has changed or the revision had another document before.
    mutating func record(_ revision: Int, of namespace: String, epoch: String, content: JSONValue? = nil) throws {
        if let known = self.epoch, known != epoch { throw HarnessError("epoch \(epoch) after \(known)") }
        self.epoch = epoch
        highest[namespace] = max(revision, highest[namespace] ?? 0)
        guard let text = content?.compactText else { return }
        if let known = contents[namespace]?.updateValue(text, forKey: revision) ?? nil, known != text {
            throw HarnessError("revision \(revision) of \(namespace) was \(known) and is now \(text)")
        }
        contents[namespace, default: [:]][revision] = text
    }

    /// Records the reply to change `number` of a writer.
    mutating func recordReply(_ reply: JSONValue, to number: Int, of index: Int) throws {
        let result = try LineClient.result(of: reply)
        writers[index].acknowledged = max(number, writers[index].acknowledged)
        acknowledgements += 1
        try record(
            require(result["revision"]?.int, "revision"), of: writers[index].namespace,
            epoch: require(result["epoch"]?.string, "epoch"))
    }

    /// Checks the state that a new agent serves against the records of the previous agents.
    mutating func check(_ agent: AgentProcess) throws {
        let client = try agent.connect()
        defer { client.close() }
        for namespace in Set(writers.map(\.namespace)) {
            let current = try client.call("config.get", ["namespace": .string(namespace)])
            let revision = try require(current["revision"]?.int, "revision")
            let previous = highest[namespace] ?? 0
            guard revision >= previous else {
                throw HarnessError("namespace \(namespace) went back from revision \(previous) to \(revision)")
            }
            let document = try require(current["value"], "value")
            try record(revision, of: namespace, epoch: require(current["epoch"]?.string, "epoch"), content: document)
            for writer in writers where writer.namespace == namespace {
                let number = try document[writer.path].map { try Writer.number(of: $0) } ?? 0
                guard number <= writer.sent, number >= (writer.isDurable ? writer.acknowledged : 0) else {
                    throw HarnessError(
                        "\(namespace).\(writer.path) is \(number); acknowledged \(writer.acknowledged), sent \(writer.sent)"
                    )
                }
            }
        }
    }
}
