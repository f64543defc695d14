import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfig

@Suite("Documents with edits")
struct RemoteEditTests {
    /// Two stores that get the same documents. One of the stores also gets, with each document, the replacements
    /// (edits) since the previous document.
    private struct Twins {
        let withEdits: ConfigStore
        let withoutEdits: ConfigStore
        var document: JSONValue
        var version = 0

        mutating func replace(_ replacements: [JSONValue.Replacement], base: JSONValue? = nil) async throws {
            guard let next = document.replacing(replacements) else { return }
            version += 1
            var source = SourceDocument(value: next, version: UpstreamVersion("\(version)"))
            let plain = source
            source.edits = SourceDocument.Edits(base: base ?? document, replacements: replacements)
            document = next
            try await both { store in
                try await store.replaceRemote(
                    store === withEdits ? source : plain, origin: "scripted:source", force: false, isPush: false)
            }
        }

        func both(_ change: (ConfigStore) async throws -> CommitOutcome) async throws {
            let first = try await change(withEdits)
            let second = try await change(withoutEdits)
            #expect(first == second)
            #expect(withEdits.value.compactText == withoutEdits.value.compactText)
        }
    }

    private func withTwins(
        _ document: JSONValue, maximumDeletion: Int? = nil, _ body: (inout Twins) async throws -> Void
    ) async throws {
        var fixtures = [StoreFixture(), StoreFixture()]
        for index in fixtures.indices { fixtures[index].maximumDeletion = maximumDeletion }
        try await fixtures[0].withStore { first in
            try await fixtures[1].withStore { second in
                var twins = Twins(withEdits: first, withoutEdits: second, document: document)
                try await twins.both { store in
                    try await store.replaceRemote(
                        SourceDocument(value: document), origin: "scripted:source", force: false, isPush: false)
                }
                try await body(&twins)
            }
        }
    }

    @Test(
        "a document with edits has the same effect as one without, regardless of the other layers",
        arguments: 0..<8 as Range<UInt64>)
    func twins(seed: UInt64) async throws {
        var generator = SeededGenerator(seed: seed)
        let document = JSONValue.object(
            (0..<6).map { ("o\($0)", .object((0..<4).map { ("m\($0)", .int($0)) })) } + [("n", .null)])
        try await withTwins(document) { twins in
            for step in 0..<60 {
                let path = [
                    "o\(Int.random(in: 0..<6, using: &generator))", "m\(Int.random(in: 0..<4, using: &generator))",
                ]
                switch Int.random(in: 0..<12, using: &generator) {
                case 0:
                    let value: JSONValue = [.int(step), .null, ["x": 1]].randomElement(using: &generator) ?? .null
                    try await twins.both { try await $0.set(JSONPath(path), to: value, timeToLive: nil) }
                case 1: try await twins.both { try await $0.unset(JSONPath([path[0]])) }
                case 2: try await twins.both { try await $0.unset(JSONPath([])) }
                case 3:
                    let host: JSONValue =
                        Bool.random(using: &generator) ? .emptyObject : ["o1": ["m1": ["deep": 1], "k": 2]]
                    try await twins.both { try await $0.replaceFiles(.host, with: host) }
                default:
                    let other = ["o\(Int.random(in: 0..<6, using: &generator))", "m0"]
                    try await twins.replace(
                        [
                            JSONValue.Replacement(at: path, by: .int(Int.random(in: 0..<3, using: &generator))),
                            JSONValue.Replacement(at: other, by: .string("\(step)")),
                        ].filter { $0.path != other || $0.value.kind == .string })
                }
            }
        }
    }

    @Test("edits whose base is not the current document are ignored")
    func otherBase() async throws {
        try await withTwins(["a": 1, "b": 2]) { twins in
            try await twins.replace([JSONValue.Replacement(at: ["a"], by: 3)], base: ["a": 1, "b": 2])
            #expect(twins.withEdits.value == ["a": 3, "b": 2])
        }
    }

    @Test("a document with an equal value in another notation keeps the revision")
    func sameValue() async throws {
        try await withTwins(["a": "x", "b": 2]) { twins in
            let escaped = try JSONValue(parsing: #""\u0078""#)
            try await twins.replace([JSONValue.Replacement(at: ["a"], by: escaped)])
            #expect(twins.withEdits.revision == 1)
            try await twins.replace([JSONValue.Replacement(at: ["b"], by: 3)])
            #expect(twins.withEdits.revision == 2)
        }
    }

    @Test("without other layers, the snapshot and the remote layer share one document")
    func sharedDocument() async throws {
        try await withTwins(["a": 1, "b": 2]) { twins in
            for value in 2..<5 {
                try await twins.replace([JSONValue.Replacement(at: ["a"], by: .int(value))])
                #expect(twins.withEdits.value.isSameDocument(as: twins.document))
            }
            try await twins.both { try await $0.set(JSONPath(["a"]), to: 4, timeToLive: nil) }
            try await twins.both { try await $0.set(JSONPath(["a"]), to: 5, timeToLive: nil) }
            #expect(twins.withEdits.value == ["a": 5, "b": 2])
        }
    }
}
