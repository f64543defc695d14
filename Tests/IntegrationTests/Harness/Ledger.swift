import Glibc
import LarderJSON
import TestSupport

/// What clients were told over the lives of many agents in one home, so that it can be held against what the next one
/// says.
struct Ledger {
    /// One client that changes one value again and again. Each change is numbered.
    struct Writer {
        let namespace: String
        /// Where in the namespace its value is.
        let path: String
        let isPush: Bool
        /// Whether what was acknowledged must be there after a crash.
        let isDurable: Bool
        /// The number of its last change that it sent, and of the last that it was told is made.
        var sent = 0
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

        /// A value whose members have to agree with each other.
        private static func value(_ number: Int) -> JSONValue {
            let length = number * 37 % 2_000
            return [
                "number": .int(number), "square": .int(number * number), "length": .int(length),
                "text": .string(String(repeating: "abcdefghij", count: length / 10)),
            ]
        }

        /// The number of the change that made this value.
        static func number(of value: JSONValue) throws -> Int {
            let number = try require(value["number"]?.int, "number in \(value)")
            guard value == Self.value(number) else { throw HarnessError("a value that is not whole: \(value)") }
            return number
        }
    }

    var writers: [Writer]
    private var epoch: String?
    /// The highest revision that anybody was told of, by namespace.
    private var highest: [String: Int] = [:]
    /// What each revision stood for, by namespace.
    private var contents: [String: [Int: String]] = [:]
    /// How many changes were acknowledged.
    private(set) var acknowledgements = 0

    init(writers: [Writer]) { self.writers = writers }

    /// Notes that a client was told of a revision, and of its content if it was told that.
    mutating func saw(_ revision: Int, of namespace: String, epoch: String, content: JSONValue? = nil) throws {
        if let known = self.epoch, known != epoch { throw HarnessError("epoch \(epoch) after \(known)") }
        self.epoch = epoch
        highest[namespace] = max(revision, highest[namespace] ?? 0)
        guard let text = content?.compactText else { return }
        if let known = contents[namespace]?.updateValue(text, forKey: revision) ?? nil, known != text {
            throw HarnessError("revision \(revision) of \(namespace) was \(known) and is now \(text)")
        }
        contents[namespace, default: [:]][revision] = text
    }

    mutating func acknowledged(_ number: Int, by index: Int, _ reply: JSONValue) throws {
        let result = try LineClient.result(of: reply)
        writers[index].acknowledged = max(number, writers[index].acknowledged)
        acknowledgements += 1
        try saw(
            require(result["revision"]?.int, "revision"), of: writers[index].namespace,
            epoch: require(result["epoch"]?.string, "epoch"))
    }

    /// Holds what an agent serves after its start against what its predecessors told.
    mutating func check(_ agent: AgentProcess) throws {
        let client = try agent.connect()
        defer { client.close() }
        for namespace in Set(writers.map(\.namespace)) {
            let held = try client.call("config.get", ["namespace": .string(namespace)])
            let revision = try require(held["revision"]?.int, "revision")
            let told = highest[namespace] ?? 0
            guard revision >= told else {
                throw HarnessError("\(namespace) is back at revision \(revision) after \(told)")
            }
            let document = try require(held["value"], "value")
            try saw(revision, of: namespace, epoch: require(held["epoch"]?.string, "epoch"), content: document)
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
