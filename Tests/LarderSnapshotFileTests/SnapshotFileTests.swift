import LarderJSON
import Testing

@testable import LarderSnapshotFile
import Glibc

@Suite("Snapshot files")
struct SnapshotFileTests {
    private static let document = #"""
        {"search":{"limit":25,"on":true,"name":"a \"b\" ü","a.b":{"c/d":null},"":[1,{"x":2}]},"n":-7,"big":12345678901234567890,
        "list":[10,[20,{"deep":"yes"}]],"\u0041":0.1000}
        """#

    private static func mapped(_ text: String) throws -> SnapshotFileReader {
        let value = try JSONValue(parsing: Array(text.utf8))
        let file = try SnapshotFileWriter.file(of: value, revision: 41, epoch: "00af86d081884c7d", name: "test")
        return try SnapshotFileReader(descriptor: file.descriptor)
    }

    @Test("every value of a document is found by its path")
    func everyValue() throws {
        let snapshot = try Self.mapped(Self.document)
        #expect(snapshot.revision == 41)
        #expect(snapshot.epoch == "00af86d081884c7d")
        #expect(snapshot.int(at: "search.limit") == 25)
        #expect(snapshot.int(at: "/search/limit") == 25)
        #expect(snapshot.bool(at: "search.on") == true)
        #expect(snapshot.string(at: "search.name") == "a \"b\" ü")
        #expect(snapshot.int(at: "n") == -7)
        #expect(snapshot.int(at: "big") == nil)
        #expect(try snapshot.value(at: JSONPath(parsing: "big"))?.numberText == "12345678901234567890")
        #expect(try snapshot.value(at: JSONPath(parsing: "A"))?.numberText == "0.1000")
        #expect(try snapshot.value(at: JSONPath(["search", "a.b", "c/d"]))?.isNull == true)
        #expect(try snapshot.value(at: JSONPath(parsing: "list.1.1.deep"))?.string == "yes")
        #expect(try snapshot.value(at: JSONPath(["search", "", "1", "x"]))?.int == 2)
        #expect(try snapshot.value(at: JSONPath([]))?.count == 5)
        #expect(snapshot.bytes(at: "search.limit") == Array("25".utf8))
        #expect(try snapshot.value(at: "list.0")?.int == 10)
        #expect(snapshot.isString("a \"b\" ü", at: "search.name") && !snapshot.isString("a", at: "search.name"))
        #expect(!snapshot.isString("25", at: "search.limit"))
        #expect(throws: SnapshotFileError.self) { try snapshot.value(at: "a..b") }
    }

    @Test(
        "a number is read as the nearest Double; a number out of range or another value is read as nil",
        arguments: [
            ("0.1", 0.1), ("-0", -0.0), ("1e3", 1000), ("12345678901234567890.5", 12345678901234567890.5),
            ("1e999", nil), ("\"1\"", nil), ("null", nil), ("[1]", nil),
        ])
    func doubles(text: String, value: Double?) throws {
        #expect(try Self.mapped(#"{"n":\#(text)}"#).double(at: "n") == value)
    }

    @Test("the snapshot file has the text of the document, but without duplicate members and white space")
    func compactText() throws {
        let snapshot = try Self.mapped(#"{ "a" : 1, "b": {"c":[1, 2] , "c":3}, "a":{"d":true} }"#)
        #expect(try snapshot.value()?.compactText == #"{"a":{"d":true},"b":{"c":3}}"#)
        #expect(snapshot.bool(at: "a.d") == true && snapshot.int(at: "b.c") == 3)
        #expect(snapshot.bytes(at: "b") == Array(#"{"c":3}"#.utf8))
    }

    @Test(
        "member names address values without being parsed",
        arguments: [
            (["search", "limit"], "25"), (["search", "a.b", "c/d"], "null"), (["search", ""], #"[1,{"x":2}]"#),
            (["n"], "-7"), (["A"], "0.1000"), (["search.limit"], nil), (["/n"], nil), (["search", "limit", ""], nil),
            ([""], nil), (["list", "0"], nil),
        ] as [([String], String?)])
    func names(names: [String], expected: String?) throws {
        let text = try Self.mapped(Self.document).withText(at: names) { text in
            text.map { String(decoding: $0, as: UTF8.self) }
        }
        #expect(text == expected)
    }

    @Test("no names address the whole document, and long names are found")
    func longNames() throws {
        let name = String(repeating: "n", count: 5000)
        let snapshot = try Self.mapped(#"{"\#(name)":{"b":1}}"#)
        #expect(snapshot.withText(at: []) { $0?.count } == snapshot.bytes(at: "")?.count)
        #expect(snapshot.withText(at: [name, "b"]) { $0?.first } == UInt8(ascii: "1"))
    }

    @Test("a snapshot is current until its token is invalidated")
    func token() throws {
        let file = try SnapshotFileWriter.file(of: .emptyObject, revision: 1, epoch: "0", name: "test")
        let token = InvalidationToken()
        let snapshot = try SnapshotFileReader(descriptor: file.descriptor, token: token)
        #expect(snapshot.isCurrent && snapshot.byteCount == file.byteCount)
        token.invalidate()
        #expect(!snapshot.isCurrent)
    }

    @Test(
        "a search for an invalid path, or for one that has no value, finds nothing",
        arguments: ["nothing", "search.limit.x", "searc", "search.", ".", "/", "//", "/~2", "n.0", "list.1.1"])
    func missing(path: String) throws {
        #expect(try Self.mapped(Self.document).withText(at: path) { $0 == nil })
    }

    @Test("each of ten thousand members is found, and a missing name is not")
    func many() throws {
        let text = "{" + (0..<10_000).map { #""k\#($0)":{"v":\#($0)}"# }.joined(separator: ",") + "}"
        let snapshot = try Self.mapped(text)
        for number in 0..<10_000 {
            #expect(snapshot.int(at: "k\(number).v") == number)
            #expect(snapshot.int(at: "k\(number).w") == nil)
        }
    }

    @Test("a document that is not an object is found at the root", arguments: ["7", "[1,2]", "null", "{}"])
    func scalars(text: String) throws {
        #expect(try Self.mapped(text).value(at: JSONPath([]))?.compactText == text)
    }

    @Test("changed bytes or lengths do not make a search read beyond the file or loop forever")
    func hostile() throws {
        let value = try JSONValue(parsing: Array(Self.document.utf8))
        let bytes = try SnapshotFileWriter.bytes(of: value, revision: 1, epoch: 2, seed: 3)
        let paths = ["", "search", "search.limit", "/search/a.b/c~1d", "list", "A", "nothing.at.all"]
        var generator = SystemRandomNumberGenerator()
        for iteration in 0..<20_000 {
            var changed = bytes
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let place = Int.random(
                    in: iteration % 2 == 0 ? 8..<SnapshotFileLayout.headerBytes + 400 : 0..<bytes.count)
                changed[place] = Bool.random() ? 0xFF : UInt8.random(in: 0...255)
            }
            if iteration % 5 == 0 {
                changed.removeLast(Int.random(in: 0...changed.count))
                // The length in the header is changed to the new length, so that the reader does not reject the file at
                // once.
                if changed.count >= SnapshotFileLayout.headerBytes {
                    withUnsafeBytes(of: UInt64(changed.count).littleEndian) {
                        changed.replaceSubrange(24..<32, with: $0)
                    }
                }
            }
            // The allocation has exactly the length of the file, so that a read beyond the file is out of bounds.
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: changed.count, alignment: 8)
            defer { copy.deallocate() }
            copy.copyBytes(from: changed)
            guard let index = try? SnapshotFileIndex(UnsafeRawBufferPointer(copy)) else { continue }
            for path in paths {
                let found = Array(path.utf8).withUnsafeBytes { path in
                    PathKey.with(path, seed: index.seed) { key in
                        key.flatMap { index.find($0, in: UnsafeRawBufferPointer(copy)) }
                    }
                }
                if let found { #expect(found.text.lowerBound >= 0 && found.text.upperBound <= copy.count) }
            }
        }
    }

    @Test("an unsealed file is not mapped")
    func unsealed() throws {
        let file = tmpfile()
        defer { fclose(file) }
        #expect { try SnapshotFileReader(descriptor: fileno(file)) } throws: {
            ($0 as? SnapshotFileError)?.code == .notSealed
        }
    }

    @Test(
        "a sealed file that is not a snapshot file is rejected",
        arguments: ["", "short", String(repeating: "x", count: 500)])
    func somethingElse(text: String) throws {
        let file = try SealedFile(byteCount: text.utf8.count, name: "test") { $0.copyBytes(from: text.utf8) }
        #expect { try SnapshotFileReader(descriptor: file.descriptor) } throws: {
            ($0 as? SnapshotFileError)?.code == .notASnapshotFile
        }
    }
}
