import ConfigTestSupport
import Foundation
import LarderConfigModel
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigSources
@testable import LarderConfig

@Suite("Host directory", .timeLimit(.minutes(15)))
struct HostDirectoryTests {
    private let scratch: ScratchDirectory

    init() throws {
        scratch = try ScratchDirectory()
        try scratch.makeDirectory("config.d")
    }

    private func read() throws(FileReadError) -> JSONValue {
        try HostDirectory(path: scratch.at("config.d")).read().patch
    }

    private func failure(_ directory: HostDirectory? = nil) -> FileReadError? {
        #expect(throws: FileReadError.self) {
            try (directory ?? HostDirectory(path: scratch.at("config.d"))).read()
        }
    }

    @Test("files are merged member by member in the byte order of their names, and null removes a member")
    func order() throws {
        try scratch.write(#"{"a":{"x":1,"y":1,"gone":1},"who":"10"}"#, to: "config.d/10-base.json")
        try scratch.write(#"{"a":{"y":2,"gone":null},"who":"9"}"#, to: "config.d/9-over.json")
        try scratch.write(#"{"who":"B"}"#, to: "config.d/B.json")
        try scratch.write(#"{"who":"a"}"#, to: "config.d/a.json")
        let files = try DocumentDirectory(path: scratch.at("config.d")).read().files
        #expect(
            files.map(\.path)
                == ["10-base.json", "9-over.json", "B.json", "a.json"].map { scratch.at("config.d/" + $0) })
        #expect(try read() == ["a": ["x": 1, "y": 2], "who": "a"])
    }

    @Test("hidden files, backups and files with other extensions are ignored")
    func ignored() throws {
        for name in [".hidden.json", "a.json~", "#a.json#", "a.json.bak", "a.txt", "json", ".json", "a.JSON"] {
            try scratch.write("not json", to: "config.d/" + name)
        }
        #expect(try read() == .emptyObject)
    }

    @Test("an entry that is not a regular file is refused without blocking, and the error names it")
    func notFiles() throws {
        try scratch.write(#"{"a":1}"#, to: "config.d/x.json")
        try scratch.makeDirectory("config.d/dir.json")
        #expect(failure()?.code == .notAFile)
        #expect(failure()?.path == scratch.at("config.d/dir.json"))
        try scratch.remove("config.d/dir.json")
        #expect(mkfifo(scratch.at("config.d/fifo.json"), 0o600) == 0)
        #expect(failure()?.code == .notAFile)
        #expect(failure()?.path == scratch.at("config.d/fifo.json"))
        try scratch.remove("config.d/fifo.json")
        #expect(try read() == ["a": 1])
    }

    @Test("if the directory disappears, reads fail until the directory exists again, which may then be empty")
    func disappeared() throws {
        try scratch.write(#"{"a":1}"#, to: "config.d/x.json")
        let (named, usual) = (
            HostDirectory(path: scratch.at("config.d")), HostDirectory(path: scratch.at("config.d"), isNamed: false)
        )
        for directory in [named, usual] { #expect(try directory.read().patch == ["a": 1]) }
        try scratch.move("config.d", to: "aside")
        for directory in [named, usual] { #expect(failure(directory)?.code == .notFound) }
        #expect(failure(HostDirectory(path: scratch.at("config.d"), wasThere: true))?.code == .notFound)
        #expect(try read() == .emptyObject, "a directory that never existed is empty")
        try scratch.makeDirectory("config.d")
        for directory in [named, usual] { #expect(try directory.read().patch == .emptyObject) }
    }

    @Test("a directory that is missing at start is an error if the settings name it and it had content before")
    func remembered() throws {
        var settings = NamespaceConfiguration(name: "default", hostDirectory: scratch.at("none"))
        let named = settings.hostReader(lastContent: ["a": 1])
        #expect(failure(named)?.code == .notFound)
        #expect(try settings.hostReader(lastContent: .emptyObject)?.read().patch == .emptyObject)
        #expect(try settings.hostReader(lastContent: nil)?.read().patch == .emptyObject)
        settings.isHostDirectoryNamed = false
        #expect(try settings.hostReader(lastContent: ["a": 1])?.read().patch == .emptyObject)
        settings.hostDirectory = nil
        #expect(settings.hostReader(lastContent: ["a": 1]) == nil)
    }

    @Test("a missing directory counts as empty only if its parent exists")
    func missing() throws {
        try scratch.remove("config.d")
        #expect(try read() == .emptyObject)
        #expect(try HostDirectory(path: scratch.at("config.d//")).read().patch == .emptyObject)
        let lost = failure(HostDirectory(path: scratch.at("no/config.d")))
        #expect(lost?.code == .parentMissing)
        #expect(try HostDirectory(path: scratch.at("no/config.d"), isNamed: false).read().patch == .emptyObject)
        try scratch.link("config.d", to: "nowhere")
        #expect(failure()?.code == .notFound)
        try scratch.remove("config.d")
        try scratch.write("{}", to: "config.d")
        #expect(failure()?.code == .notAFile)
    }

    @Test(
        "a file that cannot be parsed is refused with its path, the position and the reason",
        arguments: [
            ("", FileReadError.Code.empty, "1:1"), (#"{"a":1"#, .invalidJSON, "1:7"),
            (#"{"a":x}"#, .invalidJSON, "1:6"),
            ("[1]", .notAnObject, "1:1"), ("null", .notAnObject, "1:1"), ("{}{}", .invalidJSON, "1:3"),
            ("{\n  \"ä😀\": x}", .invalidJSON, "2:9"), ("{\r\n}\r\n // a comment", .invalidJSON, "3:2"),
        ])
    func broken(_ text: String, _ code: FileReadError.Code, _ place: String) throws {
        try scratch.write(#"{"good":1}"#, to: "config.d/1.json")
        try scratch.write(text, to: "config.d/2.json")
        let error = try #require(failure())
        #expect(error.code == code)
        #expect(error.description.contains("config.d/2.json:\(place): "), "\(error)")
        #expect(error.description.contains("config.d/2.json"))
        #expect(!error.reason.isEmpty)
    }

    @Test("a *.json5 file may have comments, unquoted names and trailing commas, but a *.json file may not")
    func json5() throws {
        let text = "// of the host\n{ search: { limit: 15, exact: 1.10, }, /* names */ 'a b': [1e2, ], }"
        try scratch.write(#"{"search":{"limit":1,"name":"x"}}"#, to: "config.d/10.json")
        try scratch.write(text, to: "config.d/10.json5")
        #expect(
            try read().compactText
                == #"{"search":{"limit":15,"name":"x","exact":1.10},"a b":[1e2]}"#, "in the order of the names")
        try scratch.write(text, to: "config.d/20.json")
        let error = try #require(failure())
        #expect(error.description.contains("config.d/20.json:1:1: "), "\(error)")
        #expect(error.reason.hasSuffix("rename it to *.json5 to use comments"))
        try scratch.remove("config.d/20.json")
        try scratch.write("{\n  a: 1,\n  a: 2,\n}", to: "config.d/20.json5")
        #expect(failure()?.description.contains("config.d/20.json5:3:3: a is given twice, first in line 2") == true)
        try scratch.write("[]", to: "config.d/20.json5")
        #expect(failure()?.code == .notAnObject)
    }

    @Test("an examination reports the problems of all files")
    func examination() throws {
        try scratch.write(#"{"search":{"limit": 15}, // comment"#, to: "config.d/10.json")
        try scratch.write("{}", to: "config.d/20.json")
        try scratch.write("{\n a b }", to: "config.d/30.json5")
        try scratch.link("config.d/40.json", to: "nowhere")
        try scratch.write("[]", to: "defaults.json")
        let configuration = NamespaceConfiguration(
            name: "default", defaultsPath: scratch.at("defaults.json"), hostDirectory: scratch.at("config.d"),
            remote: .file(.init(path: scratch.at("none.json"))))
        let problems = configuration.examineFiles()
        #expect(
            problems.map { $0.error.path.split(separator: "/").last } == [
                "defaults.json", "10.json", "30.json5", "40.json", "none.json",
            ])
        #expect(
            problems.map { "\($0.error.line ?? 0):\($0.error.column ?? 0)" } == ["1:1", "1:26", "2:4", "0:0", "0:0"])
        #expect(problems.map(\.isCircumstance) == [false, false, false, false, true])
        #expect(
            NamespaceConfiguration(name: "a", hostDirectory: scratch.at("none"), isHostDirectoryNamed: false)
                .examineFiles().isEmpty)
    }

    @Test("a dangling symbolic link is an error and does not count as a missing file")
    func danglingEntry() throws {
        try scratch.link("config.d/x.json", to: "nowhere")
        let error = try #require(failure())
        #expect(error.code == .notFound)
        #expect(error.path.hasSuffix("config.d/x.json"))
    }

    @Test("an unreadable file or directory is an error and does not count as missing")
    func unreadable() throws {
        try scratch.write("{}", to: "config.d/x.json")
        _ = try withoutPrivileges(in: scratch.at("")) { try read() }
        chmod(scratch.at("config.d/x.json"), 0)
        try withoutPrivileges(in: scratch.at("")) { #expect(failure()?.code == .permissionDenied) }
        chmod(scratch.at("config.d"), 0)
        try withoutPrivileges(in: scratch.at("")) { #expect(failure()?.code == .permissionDenied) }
        chmod(scratch.at("config.d"), 0o700)
    }

    @Test("the size of each file, the total size and the number of files are limited")
    func limits() throws {
        try scratch.write(#"{"a":1}"#, to: "config.d/1.json")
        try scratch.write(#"{"b":1}"#, to: "config.d/2.json")
        let path = scratch.at("config.d")
        #expect(failure(HostDirectory(path: path, maximumBytes: 6))?.code == .tooLarge)
        #expect(failure(HostDirectory(path: path, maximumBytes: 13))?.code == .tooLarge)
        #expect(failure(HostDirectory(path: path, maximumFiles: 1))?.code == .tooMany)
        #expect(try HostDirectory(path: path, maximumBytes: 14, maximumFiles: 2).read().patch == ["a": 1, "b": 1])
    }

    @Test(
        "the limit of documents in the settings applies to the host layer, and its change causes the files to be read")
    func documentLimit() throws {
        try scratch.write(#"{"a":1}"#, to: "config.d/1.json")
        var configuration = NamespaceConfiguration(name: "default", hostDirectory: scratch.at("config.d"))
        configuration.limitDocuments(to: 6)
        #expect(failure(configuration.hostReader(lastContent: nil))?.code == .tooLarge)
        #expect(configuration.examineFiles().map(\.error.code) == [.tooLarge])
        var raised = configuration
        raised.limitDocuments(to: 7)
        #expect(try raised.hostReader(lastContent: nil)?.read().patch == ["a": 1])
        #expect(raised.examineFiles().isEmpty)
        #expect(!raised.hasSameFiles(.host, as: configuration))
    }

    @Test("files whose names are not UTF-8 are read")
    func bytesInNames() throws {
        let name: [UInt8] = Array(scratch.at("config.d/").utf8) + [0xff] + Array(".json".utf8) + [0]
        let file = try #require(name.withUnsafeBytes { fopen($0.bindMemory(to: CChar.self).baseAddress!, "w") })
        fputs(#"{"a":1}"#, file)
        fclose(file)
        #expect(try read() == ["a": 1])
    }

    @Test("a read during the replacement of a ConfigMap returns one version or fails as unstable")
    func exchanged() throws {
        @Sendable func files(_ version: Int) -> [String: String] {
            var files: [String: String] = [:]
            for name in 0..<10 { files["\(name).json"] = #"{"\#(name)":\#(version)}"# }
            return files
        }
        try scratch.publish(files(0), version: 0, in: "config.d")
        let writer = BackgroundLoop()
        writer.start { try scratch.publish(files($0), version: $0, in: "config.d") }
        defer { writer.stop() }
        var seen: Set<Int> = []
        // The test ends only after 200 different versions have been read, so that some replacements happen during a
        // read.
        while seen.count < 200 {
            do {
                let versions = Set(try read().members.map { $0.value.int ?? -1 })
                #expect(versions.count == 1, "\(versions)")
                seen.formUnion(versions)
            } catch {
                #expect(error.code == .unstable)
            }
        }
    }
}
