import LarderJSON
import Testing

@testable import LarderConfigModel
@testable import LarderConfigSources

@Suite("Etcd document")
struct EtcdDocumentTests {
    private func document(
        _ entries: [String: String], format: EtcdSourceSettings.Format = .json, prefix: String = "/c/",
        maximumBytes: Int = 1 << 20
    ) throws -> JSONValue {
        let pairs = entries.map { (Array($0.key.utf8), Array($0.value.utf8)) }
        return try EtcdDocument(keys: .prefix(prefix), format: format, maximumBytes: maximumBytes)
            .value(of: Dictionary(uniqueKeysWithValues: pairs), mayBeEmpty: false)
    }

    private func refusal(_ body: () throws -> JSONValue) throws -> String {
        let error = try #require(throws: ConfigError.self) { try body() }
        #expect(error.code == .rejected)
        return error.message
    }

    @Test("each key under the prefix is one value, nested by the segments of its path")
    func nested() throws {
        let value = try document([
            "/c/search/limit": "25", "/c/search/engine/name": "\"x\"", "/c/banner": "null",
            "/c/search-x": "[1,{\"a\":2}]",
            "/c/a/b/c/d": "true", "/c/a/e": "1.5",
        ])
        #expect(
            value == [
                "search": ["limit": 25, "engine": ["name": "x"]], "banner": .null, "search-x": [1, ["a": 2]],
                "a": ["b": ["c": ["d": true]], "e": 1.5],
            ])
        #expect(try document(["/c/a": "1.50"])["a"]?.numberText == "1.50")
    }

    @Test("the same keys give the same bytes, regardless of their order")
    func deterministic() throws {
        let names = (0..<200).map { "/c/\($0 % 7)/k\($0)" }
        let first = try document(Dictionary(uniqueKeysWithValues: names.map { ($0, "1") })).compactBytes
        for _ in 0..<5 {
            let again = try document(Dictionary(uniqueKeysWithValues: names.shuffled().map { ($0, "1") })).compactBytes
            #expect(again == first)
        }
    }

    @Test("member names are the bytes of the keys, without Unicode normalization")
    func names() throws {
        let value = try document(["/c/\u{e9}/a": "1", "/c/e\u{301}/b": "2", "/c/ \"\\\n/x": "3"])
        #expect(value.count == 3)
        #expect(value["\u{e9}"] == ["a": 1])
        #expect(value["e\u{301}"] == ["b": 2])
        #expect(value[" \"\\\n"] == ["x": 3])
    }

    @Test("the documents of several prefixes are merged in their order, and a key is found under the last one")
    func prefixes() throws {
        let mapping = EtcdDocument(keys: .prefixes(["/common/", "/hosts/a/"]), format: .json, maximumBytes: 100)
        func entries(_ pairs: [String: String]) -> [[UInt8]: [UInt8]] {
            Dictionary(uniqueKeysWithValues: pairs.map { (Array($0.key.utf8), Array($0.value.utf8)) })
        }
        let keys = entries([
            "/common/search/limit": "25", "/common/search/engine": "\"x\"", "/common/banner": "\"all\"",
            "/hosts/a/search/limit": "5", "/hosts/a/banner": "null", "/hosts/a/own": "{\"b\":1}",
        ])
        #expect(
            try mapping.value(of: keys, mayBeEmpty: false)
                == ["search": ["limit": 5, "engine": "x"], "own": ["b": 1]])
        #expect(mapping.key(of: ["search", "limit"], in: keys) == "/hosts/a/search/limit")
        #expect(mapping.key(of: ["search", "engine"], in: keys) == "/common/search/engine")
        #expect(mapping.key(of: ["own", "b"], in: keys) == "/hosts/a/own")
        #expect(mapping.key(of: ["none"], in: keys) == nil)
        // A key may be a value under one prefix, and a parent under another one.
        let mixed = entries(["/common/a": "1", "/hosts/a/a/b": "2"])
        #expect(try mapping.value(of: mixed, mayBeEmpty: false) == ["a": ["b": 2]])
        #expect(try mapping.value(of: [:], mayBeEmpty: true) == .emptyObject)
        let empty = try refusal { try mapping.value(of: [:], mayBeEmpty: false) }
        #expect(empty.contains("no key with a value begins with one of \"/common/\", \"/hosts/a/\""), "\(empty)")
        let large = String(repeating: "x", count: 60)
        let tooLarge = try refusal {
            try mapping.value(
                of: entries(["/common/a": "\"\(large)\"", "/hosts/a/b": "\"\(large)\""]), mayBeEmpty: false)
        }
        #expect(tooLarge.contains("more than 100 bytes"), "\(tooLarge)")
    }

    @Test("an empty prefix includes all keys")
    func emptyPrefix() throws {
        #expect(try document(["a/b": "1", "c": "2"], prefix: "") == ["a": ["b": 1], "c": 2])
    }

    @Test(
        "a document with a key that is both a value and a parent is rejected, and the error names both keys",
        arguments: [
            ["/c/a": "1", "/c/a/b": "2"], ["/c/a": "{}", "/c/a/b": "2", "/c/a-": "1", "/c/a.b": "1"],
            ["/c/a": "1", "/c/a/b/c/d": "2", "/c/x": "1"],
        ])
    func conflict(entries: [String: String]) throws {
        let message = try refusal { try document(entries) }
        #expect(message.contains("\"/c/a\" is both a value and the parent of \"/c/a/b"), "\(message)")
    }

    @Test("a document is rejected if a key has an empty segment, too many segments or invalid UTF-8")
    func badKeys() throws {
        for key in ["/c//a", "/c/a//b", "/c/a/"] {
            #expect(try refusal { try document([key: "1"]) }.contains("\"\(key)\" has an empty segment"))
        }
        let deep = "/c/" + Array(repeating: "a", count: 200).joined(separator: "/")
        #expect(try refusal { try document([deep: "1"]) }.contains("do not form a document"))
        let mapping = EtcdDocument(keys: .prefix("/c/"), format: .json, maximumBytes: 1000)
        let message = try refusal {
            try mapping.value(of: [Array("/c/".utf8) + [0xff]: Array("1".utf8)], mayBeEmpty: false)
        }
        #expect(message.contains("is not UTF-8"))
    }

    @Test("a key that ends with a slash and has an empty value is ignored")
    func marks() throws {
        #expect(try document(["/c/": "", "/c/a/": "", "/c/a/b": "1"]) == ["a": ["b": 1]])
    }

    @Test("a document with a value that is not JSON is rejected, and the error names the key and a fix")
    func notJSON() throws {
        for text in ["", "hello", "{\"a\":", "01"] {
            let message = try refusal { try document(["/c/a": text]) }
            #expect(message.contains("the value of key \"/c/a\" is not JSON"), "\(message)")
            #expect(message.contains("\"text\" or \"auto\""))
            #expect(!message.contains("hello"))
        }
    }

    @Test("with format text, every value becomes a string and must be UTF-8")
    func text() throws {
        #expect(
            try document(["/c/a": "25", "/c/b": "", "/c/c": "{\"\n"], format: .text) == [
                "a": "25", "b": "", "c": "{\"\n",
            ])
        let mapping = EtcdDocument(keys: .prefix("/c/"), format: .text, maximumBytes: 1000)
        #expect(
            try refusal { try mapping.value(of: [Array("/c/a".utf8): [0xff]], mayBeEmpty: false) }.contains("not UTF-8")
        )
    }

    @Test("with format auto, a value that is not JSON becomes a string, but a broken array or object is rejected")
    func auto() throws {
        let value = try document(["/c/a": "25", "/c/b": "hello", "/c/c": "", "/c/d": " [1]"], format: .auto)
        #expect(value == ["a": 25, "b": "hello", "c": "", "d": [1]])
        for text in ["{\"a\":", " [1,]"] {
            #expect(try refusal { try document(["/c/a": text], format: .auto) }.contains("\"/c/a\" is not JSON"))
        }
    }

    @Test("a prefix without values is rejected, unless an empty configuration is allowed")
    func empty() throws {
        let mapping = EtcdDocument(keys: .prefix("/c/"), format: .json, maximumBytes: 1000)
        for entries in [[:], [Array("/c/a/".utf8): []]] as [[[UInt8]: [UInt8]]] {
            #expect(
                try refusal { try mapping.value(of: entries, mayBeEmpty: false) }
                    .contains("no key with a value begins with \"/c/\""))
            #expect(try mapping.value(of: entries, mayBeEmpty: true) == .emptyObject)
        }
        // A key that does not end with a slash has a value, even an empty one.
        #expect(
            try refusal { try mapping.value(of: [Array("/c/a".utf8): []], mayBeEmpty: false) }
                .contains("\"/c/a\" is not JSON"))
    }

    @Test("a document over the size limit is rejected")
    func limit() throws {
        #expect(
            try refusal { try document(["/c/a": "\"\(String(repeating: "x", count: 100))\""], maximumBytes: 100) }
                .contains("more than 100 bytes"))
    }

    @Test("if the settings name a single key, its value is the whole document and must be an object")
    func wholeDocument() throws {
        let mapping = EtcdDocument(keys: .key("/c"), format: .json, maximumBytes: 100)
        func value(_ text: String?) throws -> JSONValue {
            try mapping.value(of: text.map { [Array("/c".utf8): Array($0.utf8)] } ?? [:], mayBeEmpty: true)
        }
        #expect(try value("{\"a\":{\"b\":1}}") == ["a": ["b": 1]])
        #expect(try refusal { try value(nil) }.contains("key \"/c\" does not exist"))
        #expect(try refusal { try value("[]") }.contains("is an array"))
        #expect(try refusal { try value("") }.contains("is not JSON"))
        #expect(try refusal { try value("{\"a\":\"\(String(repeating: "x", count: 100))\"}") }.contains("100 bytes"))
    }

    @Test("the key of a path is found, or a prefix if several keys form the value at the path")
    func keysOfPaths() {
        let mapping = EtcdDocument(keys: .prefix("/c/"), format: .json, maximumBytes: 1000)
        let entries: [[UInt8]: [UInt8]] = [
            Array("/c/a/b".utf8): Array("{}".utf8), Array("/c/a/d".utf8): [], [0x78]: [],
        ]
        for (path, key) in [
            (["a", "b"], "/c/a/b"), (["a", "b", "inside", "x/y"], "/c/a/b"), (["a"], "/c/a/"), ([], "/c/"),
            (["a", "c"], nil), (["a/b"], nil), (["x"], nil),
        ] as [([String], String?)] {
            #expect(mapping.key(of: path, in: entries) == key, "\(path)")
        }
        let whole = EtcdDocument(keys: .key("/doc"), format: .json, maximumBytes: 1000)
        #expect(whole.key(of: ["a"], in: [:]) == "/doc")
    }

    @Test("an error shows a key on one line, truncated")
    func shown() {
        #expect(EtcdDocument.shown(Array("/a\n\"b".utf8)) == "\"/a\\u{a}\\u{22}b\"")
        #expect(EtcdDocument.shown([UInt8](repeating: 0x61, count: 300)).count == 203)
    }
}

extension JSONValue {
    fileprivate var compactBytes: [UInt8] { withTextBytes { Array($0) } }
}

@Suite("Etcd key ranges")
struct EtcdKeysTests {
    @Test(
        "the range of a prefix ends after the last key that begins with the prefix",
        arguments: [
            ("/c/", "/c/", "/c0"), ("a", "a", "b"), ("", "\0", "\0"), ("a\u{7f}", "a\u{7f}", nil),
        ])
    func prefix(prefix: String, first: String, end: String?) {
        let keys = EtcdKeys(prefix: prefix)
        #expect(keys.first == Array(first.utf8))
        #expect(keys.end == end.map { Array($0.utf8) } ?? Array("a".utf8) + [0x80])
    }

    @Test("a single key is requested without a range end, and the next page of a prefix begins after the last key")
    func key() {
        #expect(EtcdKeys.ranges(of: .key("a")).map(\.end) == [nil])
        #expect(EtcdKeys.ranges(of: .prefixes(["a/", "b/"])) == [EtcdKeys(prefix: "a/"), EtcdKeys(prefix: "b/")])
        let next = EtcdKeys(prefix: "a/").from(after: Array("a/x".utf8))
        #expect(next.first == Array("a/x\0".utf8))
        #expect(next.end == Array("a0".utf8))
    }

    @Test("base64 decoding reverses encoding")
    func base64() {
        for count in 0..<10 {
            let bytes = (0..<count).map { UInt8(truncatingIfNeeded: 250 + $0) }
            #expect(Base64.bytes(of: Base64.text(of: bytes)) == bytes)
        }
        #expect(Base64.bytes(of: "a") == nil)
    }
}
