import LarderJSON
import Testing

@testable import LarderConfigModel

@Suite("Locked paths")
struct LockedPathsTests {
    private func pin(_ paths: [String], _ document: String, to base: String) throws -> JSONValue {
        try LockedPaths(paths.map(JSONPath.init(parsing:))).pin(
            JSONValue(parsing: document), to: JSONValue(parsing: base))
    }

    @Test("a locked path gets the value of the file layers, even if an ancestor was replaced or removed")
    func values() throws {
        let base = #"{"search":{"limit":5,"other":1}}"#
        for document in [
            #"{"search":{"limit":9,"x":2}}"#, #"{"search":{"x":2}}"#, #"{"search":{"x":2,"limit":{"a":1}}}"#,
        ] {
            #expect(try pin(["search.limit"], document, to: base) == ["search": ["x": 2, "limit": 5]])
        }
        for document in [#"{}"#, #"{"search":"text"}"#, #"{"search":[1]}"#, #"{"search":{}}"#] {
            #expect(try pin(["search.limit"], document, to: base) == ["search": ["limit": 5]])
        }
    }

    @Test("a locked path without a value in the file layers has no value, and other paths are unchanged")
    func absence() throws {
        #expect(try pin(["search.limit"], #"{"search":{"limit":9,"x":2}}"#, to: "{}") == ["search": ["x": 2]])
        #expect(try pin(["search.limit"], #"{"search":"text"}"#, to: "{}") == ["search": "text"])
        #expect(try pin(["search"], #"{"search":{"limit":9},"x":1}"#, to: "{}") == ["x": 1])
        #expect(try pin(["a.b.c"], #"{"x":1}"#, to: #"{"a":{"b":1}}"#) == ["x": 1])
    }

    @Test("a locked object replaces the whole object at its path")
    func objects() throws {
        #expect(
            try pin(["db", "db.port"], #"{"db":{"host":"evil","extra":1}}"#, to: #"{"db":{"host":"h","port":1}}"#)
                == ["db": ["host": "h", "port": 1]])
    }

    @Test("several locks apply together, names may contain dots, and array elements are not locked")
    func several() throws {
        #expect(
            try pin(
                ["/a.b/c", "x.y", "x.z"], #"{"a.b":{"c":2},"x":{"y":2,"z":2,"w":2},"list":[1]}"#,
                to: #"{"a.b":{"c":1},"x":{"y":1}}"#) == ["a.b": ["c": 1], "x": ["y": 1, "w": 2], "list": [1]])
        #expect(try pin(["list.0"], #"{"list":[2]}"#, to: #"{"list":[1]}"#) == ["list": [2]])
    }

    @Test("a value touches a lock if merging the value would affect the locked path")
    func touching() throws {
        let locks = LockedPaths([JSONPath(["search", "limit"])])
        func touches(_ path: [String], _ value: JSONValue) -> Bool { locks.touched(by: value, at: path) != nil }
        #expect(touches(["search", "limit"], 5))
        #expect(touches(["search", "limit", "deep"], 5))
        #expect(touches(["search"], ["limit": 5]))
        #expect(touches(["search"], ["limit": .null]))
        #expect(touches(["search"], .null))
        #expect(touches(["search"], "text"))
        #expect(touches([], ["search": ["limit": 1]]))
        #expect(!touches([], ["search": ["other": 1]]))
        #expect(!touches(["search"], ["other": 5]))
        #expect(!touches(["search"], .emptyObject))
        #expect(!touches(["search", "limits"], 5))
        #expect(!touches(["other"], 5))
        #expect(locks.lock(on: ["search", "limit", "deep"]) == JSONPath(["search", "limit"]))
        #expect(locks.lock(on: ["search"]) == nil)
    }
}
