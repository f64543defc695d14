import Foundation
import Glibc
import LarderConfig
import LarderJSON
import LarderServer
import TestSupport
import Testing

@testable import LarderSettings

@Suite("Settings that many files form")
struct SettingsDirectoryTests {
    /// A directory with the files of settings, by name.
    private func withFiles(
        _ files: KeyValuePairs<String, String>, _ body: (String) throws -> Void
    ) throws {
        try withTemporaryDirectory { directory in
            let patches = "\(directory)/larder.d"
            mkdir(patches, 0o700)
            chmod(patches, 0o755)
            for (name, text) in files {
                let path = "\(directory)/\(name)"
                try Data(text.utf8).write(to: URL(fileURLWithPath: path))
                chmod(path, 0o644)
            }
            try body(directory)
        }
    }

    private func errors(_ directory: String) -> [String] {
        do throws(SettingsError) {
            return try Settings.examine(file: "\(directory)/larder.json").errors.map(\.description)
        } catch {
            return [error.description]
        }
    }

    @Test("files of larder.d are merged over larder.json in the byte order of their names")
    func order() throws {
        try withFiles([
            "larder.json":
                "{ limits: { connections: 10, lineBytes: 2048 }, namespaces: { a: { durability: 'full' } } }",
            "larder.d/20.json": #"{"limits": {"connections": 20}, "namespaces": {"b": {}}}"#,
            "larder.d/30.json5": "{ limits: { connections: 30, lineBytes: null }, } // wins",
            "larder.d/100.json": #"{"limits": {"connections": 100}}"#,
            "larder.d/.hidden.json": "not JSON", "larder.d/40.jsn": "not JSON",
        ]) { directory in
            let file = try Settings.load(from: "\(directory)/larder.json")
            #expect(file.isPresent)
            #expect(file.settings.limits.connections == 30, "100 precedes 20 and 30")
            #expect(file.settings.limits.lineBytes == Settings().limits.lineBytes, "null removes a setting")
            #expect(file.settings.namespaces.keys.sorted() == ["a", "b", "default"])
            // The agent saves the result, and can start with it.
            #expect(try Settings(parsing: file.text, areSaved: true) == file.settings)
        }
    }

    @Test("larder.json need not exist if larder.d has files, and null in its files is not a value")
    func withoutMainFile() throws {
        try withFiles([
            "larder.d/10.json": #"{"namespaces": {"a": null, "b": {"maximumDeletionPercent": null}}}"#
        ]) { directory in
            let file = try Settings.load(from: "\(directory)/larder.json")
            #expect(!file.isPresent)
            #expect(file.settings.namespaces.keys.sorted() == ["b", "default"])
            #expect(file.settings.namespaces["b"]?.maximumDeletion == 90)
        }
        try withFiles([:]) { directory in
            let error = #expect(throws: SettingsError.self) { try Settings.load(from: "\(directory)/larder.json") }
            #expect(error?.code == .fileNotFound)
        }
    }

    @Test("null keeps its meaning in larder.json")
    func nulls() throws {
        try withFiles([
            "larder.json": "{ namespaces: { a: { maximumDeletionPercent: null } } }", "larder.d/10.json": "{}",
        ]) { directory in
            let file = try Settings.load(from: "\(directory)/larder.json")
            #expect(file.settings.namespaces["a"]?.maximumDeletion == .some(nil))
            #expect(try Settings(parsing: file.text) == file.settings)
        }
    }

    @Test("errors name the file, line and column of the value, also if another file began the section")
    func errorPlaces() throws {
        try withFiles([
            "larder.json": "{\n  limits: { connections: 0, lineBytes: 1 },\n  color: 1\n}",
            "larder.d/10.json": "{\n  \"limits\": {\"connections\": \"many\"}\n}",
            "larder.d/20.json":
                #"{"namespaces": {"a": {"remote": {"http": {"url": 5}}}}, "log": {"level": "x"}, "log": {}}"#,
        ]) { directory in
            let places = errors(directory).map { $0.prefix { $0 != " " } }
            #expect(
                places == [
                    "\(directory)/larder.json:2:40:", "\(directory)/larder.json:3:3:",
                    "\(directory)/larder.d/10.json:2:29:", "\(directory)/larder.d/20.json:1:50:",
                    "\(directory)/larder.d/20.json:1:74:", "\(directory)/larder.d/20.json:1:80:",
                ], "\(errors(directory))")
        }
    }

    @Test("a file that is not an object in JSON5 is an error, and hides no error of the others")
    func unparsable() throws {
        try withFiles([
            "larder.json": "{", "larder.d/10.json": "[]", "larder.d/20.json": "5",
        ]) { directory in
            let found = errors(directory)
            #expect(found.count == 3, "\(found)")
            #expect(found.first?.hasPrefix("\(directory)/larder.json:1:2: ") == true, "\(found)")
            #expect(found.last?.hasPrefix("\(directory)/larder.d/20.json:1:1: ") == true, "\(found)")
        }
    }

    @Test("a directory or file that another user could write to is an error")
    func unsafeFiles() throws {
        try withFiles(["larder.json": "{}", "larder.d/10.json": "{}"]) { directory in
            let (patches, file) = ("\(directory)/larder.d", "\(directory)/larder.d/10.json")
            #expect(errors(directory) == [])
            for (path, safe, unsafe) in [(patches, 0o755, 0o775), (patches, 0o755, 0o1777), (file, 0o644, 0o646)] {
                chmod(path, mode_t(unsafe))
                let found = errors(directory)
                #expect(found.first?.hasPrefix("\(path): it has mode 0") == true, "\(found)")
                #expect(found.first?.contains("chmod go-w") == true, "\(found)")
                chmod(path, mode_t(safe))
            }
            // Another user could replace the target of a link.
            let shared = "\(directory)/shared"
            mkdir(shared, 0o700)
            chmod(shared, 0o777)
            symlink("\(shared)/20.json", "\(patches)/20.json")
            try Data("{}".utf8).write(to: URL(fileURLWithPath: "\(shared)/20.json"))
            #expect(errors(directory).first?.contains("\(shared) has mode 0777") == true, "\(errors(directory))")
            unlink("\(patches)/20.json")
            if geteuid() == 0 {
                chown(file, 12345, 12345)
                #expect(errors(directory).first?.contains("belongs to user 12345") == true, "\(errors(directory))")
            }
        }
    }

    @Test("the file and line of each value are known, and header fields are not shown")
    func origins() throws {
        try withFiles([
            "larder.json": """
            {
              limits: { connections: 10 },
              namespaces: { a: { remote: { http: { url: 'https://a.example', headers: { 'X-Key': 'secret' } } } } },
            }
            """,
            "larder.d/10.json":
                "{\n\n\"limits\": {\"connections\": 20}, \"namespaces\": {\"b\": {}}, \"access\": {\"others\": [\"read\"]}}",
        ]) { directory in
            let origins = try Settings.examine(file: "\(directory)/larder.json").origins
            #expect(
                origins.map {
                    "\($0.name) \($0.value?.compactText ?? "-") \($0.file.dropFirst(directory.count)):\($0.line)"
                }
                    == [
                        "limits.connections 20 /larder.d/10.json:3",
                        #"namespaces.a.remote.http.url "https://a.example" /larder.json:3"#,
                        "namespaces.a.remote.http.headers.X-Key - /larder.json:3",
                        "namespaces.b {} /larder.d/10.json:3",
                        #"access.others ["read"] /larder.d/10.json:3"#,
                    ])
        }
    }

    @Test("the place of a path is in the file that names it")
    func pathPlaces() throws {
        try withFiles([
            "larder.json": "{ state: { directory: '/a' }, cache: { directory: '/b' } }",
            "larder.d/10.json": "{\n\"state\": {\n\"directory\": \"/c\"}}",
        ]) { directory in
            let lines = try Settings.load(from: "\(directory)/larder.json").pathLines
            #expect(lines.place(of: "/a") == nil, "replaced")
            #expect(lines.place(of: "/b").map { "\($0.file):\($0.line)" } == "\(directory)/larder.json:1")
            #expect(lines.place(of: "/c").map { "\($0.file):\($0.line)" } == "\(directory)/larder.d/10.json:3")
        }
    }
}
