import LarderJSON
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("Etcd keyspace and rendering")
struct EtcdKeyspaceTests {
    private static func event(_ key: String, _ value: String?, _ revision: Int) -> EtcdEvent {
        EtcdEvent(
            pair: EtcdPair(key: Array(key.utf8), value: Array((value ?? "").utf8), modified: revision),
            isDeletion: value == nil)
    }

    private static func keyspace(_ pairs: [String: String], revision: Int = 1) -> EtcdKeyspace {
        var keyspace = EtcdKeyspace(EtcdHeader(cluster: "1", revision: revision))
        keyspace.add(
            pairs.map { EtcdPair(key: Array($0.key.utf8), value: Array($0.value.utf8), modified: revision) })
        return keyspace
    }

    @Test("the digest depends on the cluster, the keys and their values, but not on earlier changes")
    func digest() {
        var followed = Self.keyspace(["a": "1", "b": "2"])
        let before = followed.digest
        _ = followed.apply([Self.event("c", "3", 2), Self.event("a", nil, 3), Self.event("b", "4", 4)])
        #expect(followed.digest == Self.keyspace(["b": "4", "c": "3"]).digest)
        #expect(followed.digest != before)
        _ = followed.apply([Self.event("a", "1", 5), Self.event("b", "2", 6), Self.event("c", nil, 7)])
        #expect(followed.digest == before)
        // The digest shows to which key each value belongs, and where each key ends.
        #expect(Self.keyspace(["a": "1", "b": "2"]).digest != Self.keyspace(["a": "2", "b": "1"]).digest)
        #expect(Self.keyspace(["ab": "c"]).digest != Self.keyspace(["a": "bc"]).digest)
        var other = EtcdKeyspace(EtcdHeader(cluster: "2", revision: 1))
        other.add([EtcdPair(key: [0x61], value: [0x31], modified: 1)])
        #expect(other.digest != Self.keyspace(["a": "1"]).digest)
    }

    @Test("keys(changedSince:) returns the changed keys, or nil if the stamp is too old or from another read")
    func changes() {
        var keyspace = Self.keyspace(["a": "1"])
        let start = keyspace.stamp
        #expect(keyspace.keys(changedSince: start) == [])
        _ = keyspace.apply([Self.event("a", "2", 2), Self.event("b", "1", 2), Self.event("a", "3", 3)])
        let middle = keyspace.stamp
        _ = keyspace.apply([Self.event("c", "1", 4), Self.event("c", "1", 5)])
        #expect(keyspace.keys(changedSince: start) == [[0x61], [0x62], [0x63]])
        #expect(keyspace.keys(changedSince: middle) == [[0x63]])
        #expect(Self.keyspace(["a": "1"]).keys(changedSince: start) == nil)
        for revision in 6..<1100 { _ = keyspace.apply([Self.event("a", "\(revision)", revision)]) }
        #expect(keyspace.keys(changedSince: start) == nil)
        #expect(keyspace.keys(changedSince: keyspace.stamp) == [])
    }

    @Test("a read with unchanged values keeps changedAt and the recorded changes")
    func sameRead() {
        var keyspace = Self.keyspace(["a": "1"])
        let start = keyspace.stamp
        _ = keyspace.apply([Self.event("a", "2", 2)])
        let same = Self.keyspace(["a": "2"], revision: 9).replacing(keyspace)
        #expect(same.revision == 9)
        #expect(same.changedAt == 2)
        #expect(same.keys(changedSince: start) == [[0x61]])
        #expect(Self.keyspace(["a": "3"], revision: 9).replacing(keyspace).keys(changedSince: start) == nil)
    }

    @Test("events that would exceed the limit are detected before they are applied", arguments: [10, 11])
    func limit(bytes: Int) {
        let keyspace = Self.keyspace(["a": String(repeating: "x", count: 9)])
        let events = [
            Self.event("a", nil, 2), Self.event("b", String(repeating: "y", count: 100), 3),
            Self.event("b", String(repeating: "y", count: 2 * bytes), 4), Self.event("z", "old", 1),
        ]
        #expect(keyspace.exceeds(bytes, after: events))
        #expect(!keyspace.exceeds(bytes + 1, after: events))
    }

    @Test("updating a document from changed keys gives the same text as building it from all keys", arguments: 0..<20)
    func following(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let format = try #require(EtcdSourceSettings.Format.allCases.randomElement(using: &generator))
        let document = EtcdDocument(keys: .prefix("/c/"), format: format, maximumBytes: 1 << 20)
        let values = ["1", "\"x\"", "true", "null", "{\"a\":1}", "[1, 2]", " 2 ", "\"long \\u0041 text\""]
        var keyspace = Self.keyspace(
            Dictionary(uniqueKeysWithValues: (0..<40).map { ("/c/g\($0 % 3)/k\($0)", "\($0)") }))
        var value = try document.value(of: keyspace.values, mayBeEmpty: true)
        var rendering = EtcdRendering(stamp: keyspace.stamp, document: value)
        var edited = 0
        for revision in 2..<80 {
            for _ in 0..<Int.random(in: 1...3, using: &generator) {
                let key =
                    "/c/g\(Int.random(in: 0..<3, using: &generator))/k\(Int.random(in: 0..<45, using: &generator))"
                let isDeletion = Int.random(in: 0..<20, using: &generator) == 0
                let text =
                    Int.random(in: 0..<4, using: &generator) > 0
                    ? "\(revision)" : values.randomElement(using: &generator)
                _ = keyspace.apply([Self.event(key, isDeletion ? nil : text, revision)])
            }
            let whole = try document.value(of: keyspace.values, mayBeEmpty: true)
            if let pairs = rendering.pairs(changedIn: keyspace),
                let (next, edits) = try document.editing(rendering.document, pairs)
            {
                edited += 1
                #expect(next.compactText == whole.compactText)
                #expect(edits.base.isSameDocument(as: rendering.document))
                value = next
            } else {
                value = whole
            }
            rendering = EtcdRendering(stamp: keyspace.stamp, document: value)
        }
        #expect(edited > 20)
    }

    @Test(
        "a key below another key is not applied as an edit, and the document is rejected",
        arguments: [("/c/a", "{\"b\":1}", "/c/a/b", "2"), ("/c/a/b", "1", "/c/a", "{\"b\":1}")])
    func keysBelowKeys(key: String, text: String, new: String, newText: String) throws {
        let document = EtcdDocument(keys: .prefix("/c/"), format: .json, maximumBytes: 1 << 20)
        var keyspace = Self.keyspace([key: text])
        let value = try document.value(of: keyspace.values, mayBeEmpty: false)
        let rendering = EtcdRendering(stamp: keyspace.stamp, document: value)
        _ = keyspace.apply([Self.event(new, newText, 2)])
        if let pairs = rendering.pairs(changedIn: keyspace) {
            let isEdited = try document.editing(value, pairs) != nil
            #expect(!isEdited)
        }
        #expect(throws: ConfigError.self) { try document.value(of: keyspace.values, mayBeEmpty: false) }
    }

    @Test("the parents of a key with too many segments are not searched, and the document is rejected")
    func manySegments() throws {
        let document = EtcdDocument(keys: .prefix("/c/"), format: .json, maximumBytes: 1 << 20)
        var keyspace = Self.keyspace(["/c/a": "1"])
        let value = try document.value(of: keyspace.values, mayBeEmpty: false)
        let rendering = EtcdRendering(stamp: keyspace.stamp, document: value)
        _ = keyspace.apply([Self.event("/c/" + String(repeating: "b/", count: 50_000) + "b", "2", 2)])
        let isEdited = rendering.pairs(changedIn: keyspace) != nil
        #expect(!isEdited)
        #expect(throws: ConfigError.self) { try document.value(of: keyspace.values, mayBeEmpty: false) }
    }

    @Test("an edit is rejected if its value is invalid or the document becomes too large")
    func refusals() throws {
        let keyspace = Self.keyspace(["/c/a": "1", "/c/b": "2"])
        let document = EtcdDocument(keys: .prefix("/c/"), format: .json, maximumBytes: 30)
        let value = try document.value(of: keyspace.values, mayBeEmpty: false)
        for (text, words) in [
            ("hello", "is not JSON"), ("\"\(String(repeating: "x", count: 30))\"", "more than 30 bytes"),
        ] {
            let error = #expect(throws: ConfigError.self) {
                try document.editing(value, [(Array("/c/a".utf8), Array(text.utf8))])
            }
            #expect(error?.code == .rejected)
            #expect(error?.message.contains(words) == true)
        }
    }
}
