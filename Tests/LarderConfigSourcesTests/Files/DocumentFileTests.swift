import ConfigTestSupport
import Foundation
import LarderPlatform
import TestSupport
import LarderJSON
import Testing

@testable import LarderConfigSources

@Suite("Document files", .timeLimit(.minutes(15)))
struct DocumentFileTests {
    private let scratch: ScratchDirectory

    init() throws { scratch = try ScratchDirectory() }

    private func read(_ name: String, maximumBytes: Int = 1 << 20) throws(FileReadError) -> DocumentFiles {
        try DocumentFiles.read(at: scratch.at(name), maximumBytes: maximumBytes)
    }

    private func code(of name: String, maximumBytes: Int = 1 << 20) -> FileReadError.Code? {
        let error = #expect(throws: FileReadError.self) {
            try read(name, maximumBytes: maximumBytes)
        }
        #expect(error?.path == scratch.at(name))
        #expect(error?.description.contains(scratch.at(name)) == true)
        return error?.code
    }

    @Test("the digest of a file changes exactly when its content changes")
    func digest() throws {
        try scratch.write("{\"a\":1}", to: "c")
        let first = try read("c")
        #expect(first.files.map(\.bytes) == [Array("{\"a\":1}".utf8)])
        #expect(first.digest.description.hasPrefix("sha256:"))
        #expect(first.digest.description.utf8.count == 71)
        try scratch.replace("c", with: "{\"a\":1}")
        #expect(try read("c").digest == first.digest)
        // The write leaves the size unchanged, and possibly the modification time, too.
        try scratch.write("{\"a\":2}", to: "c")
        #expect(try read("c").digest != first.digest)
    }

    @Test("a path without a file is refused with an error that names the path")
    func missing() throws {
        #expect(code(of: "none") == .notFound)
        #expect(code(of: "none/below") == .notFound)
        try scratch.link("dangling", to: "nowhere")
        #expect(code(of: "dangling") == .notFound)
        try scratch.link("loop", to: "loop")
        #expect(code(of: "loop") == .ioFailed)
        try scratch.makeDirectory("d")
        #expect(code(of: "d") == .empty)
        try scratch.write("x", to: "file")
        #expect(code(of: "file/below") == .notAFile)
    }

    @Test("a byte order mark at the beginning of a file is skipped", arguments: ["c.json", "c.json5"])
    func byteOrderMark(name: String) throws {
        try scratch.write("\u{FEFF}{\"a\":1}", to: name)
        #expect(try read(name).documents() == [["a": 1]])
        try scratch.write("\u{FEFF}{\"a\":x}", to: name)
        let error = #expect(throws: FileReadError.self) { try read(name).documents() }
        #expect(error?.description.contains(":1:6") == true, "\(error.map { "\($0)" } ?? "")")
    }

    @Test("the error of a text that is not JSON names the line and the column, in characters")
    func place() {
        let text = Array("{\"a\": 1,\n \"ä\": x}".utf8)
        do {
            _ = try JSONValue(parsing: text)
            Issue.record("the text is not JSON")
        } catch {
            let message = JSONError.text(error, in: text)
            #expect(message.hasSuffix(" (line 2, column 7)"), "\(message)")
        }
    }

    @Test("the error of a file that is not JSON5 does not show its values")
    func valuesInErrors() throws {
        try scratch.write("{a: hunter2}", to: "c.json5")
        let error = #expect(throws: FileReadError.self) {
            try read("c.json5").documents()
        }
        #expect(error?.description.contains(":1:5") == true && error?.description.contains("hunter2") == false)
    }

    @Test("an empty file is refused, because its content may not be written yet")
    func empty() throws {
        try scratch.write("", to: "c")
        #expect(code(of: "c") == .empty)
    }

    @Test("reading a directory returns its files, and the digest covers their contents")
    func directory() throws {
        try scratch.publish(["b.json": "{}", "a.json": "{}"], version: 1, in: "d")
        func read() throws -> DocumentFiles { try .read(at: scratch.at("d"), maximumBytes: 100) }
        let first = try read()
        #expect(first.files.map(\.path) == [scratch.at("d/a.json"), scratch.at("d/b.json")])
        try scratch.publish(["b.json": "{}", "a.json": "{}"], version: 2, in: "d")
        #expect(try read().digest == first.digest)
        try scratch.publish(["b.json": "{}", "a.json": "{ }"], version: 3, in: "d")
        #expect(try read().digest != first.digest)
        #expect(try DocumentFiles.read(at: scratch.at("d/a.json"), maximumBytes: 3).files.count == 1)
    }

    @Test("a source directory that is missing or has no files is refused, because it may be unmounted")
    func emptyDirectory() throws {
        for (name, code) in [("none", FileReadError.Code.notFound), ("d", .empty)] {
            let error = #expect(throws: FileReadError.self) {
                try DocumentFiles.read(at: scratch.at(name), maximumBytes: 100)
            }
            #expect(error?.code == code)
            try scratch.makeDirectory("d")
            try scratch.write("{}", to: "d/.hidden.json")
        }
    }

    @Test("a FIFO is refused without blocking")
    func fifo() {
        #expect(mkfifo(scratch.at("f"), 0o600) == 0)
        #expect(code(of: "f") == .notAFile)
    }

    @Test("a file over the size limit is refused, and a file of exactly the limit is read")
    func limit() throws {
        try scratch.write("12345678", to: "c")
        #expect(code(of: "c", maximumBytes: 7) == .tooLarge)
        #expect(try read("c", maximumBytes: 8).files[0].bytes.count == 8)
    }

    @Test("a file that reports a size of 0 is read to its end")
    func procfs() throws {
        #expect(try DocumentFiles.read(at: "/proc/self/status", maximumBytes: 1 << 20).files[0].bytes.count > 100)
    }

    @Test("an unreadable file is refused with the code permissionDenied")
    func permission() throws {
        try scratch.write("{}", to: "c")
        _ = try withoutPrivileges(in: scratch.at("")) { try read("c") }
        chmod(scratch.at("c"), 0)
        try withoutPrivileges(in: scratch.at("")) { #expect(code(of: "c") == .permissionDenied) }
    }

    @Test("while a file is replaced continuously, each read returns one version or fails as unstable")
    func replaced() throws {
        let contents = [String(repeating: "a", count: 30_000), String(repeating: "b", count: 20_000)]
        try scratch.replace("c", with: contents[0])
        let writer = BackgroundLoop()
        writer.start { round in try scratch.replace("c", with: contents[round % 2]) }
        defer { writer.stop() }
        var (last, changes) = ([UInt8](), 0)
        while changes < 200 {
            do {
                let bytes = try read("c").files[0].bytes
                #expect(contents.contains { $0.utf8.elementsEqual(bytes) })
                if bytes != last { changes += 1 }
                last = bytes
            } catch {
                #expect(error.code == .unstable)
            }
        }
    }
}
