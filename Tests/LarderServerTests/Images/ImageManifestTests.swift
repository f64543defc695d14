import Foundation
import LarderUpstream
import LarderWire
import NIOPosix
import Testing

@testable import LarderServer

@Suite("A manifest")
struct ImageManifestTests {
    /// A directory that everybody may come to, whatever the one for temporary files is.
    private final class Place {
        let path = "/tmp/larder-manifest-" + UUID().uuidString

        init() throws { try directory("", mode: 0o755) }

        deinit { try? FileManager.default.removeItem(atPath: path) }

        func directory(_ name: String, mode: mode_t) throws {
            try #require(mkdir(path + "/" + name, 0o700) == 0 && chmod(path + "/" + name, mode) == 0)
        }

        func file(_ name: String, _ text: String = "http://h/a\n", mode: mode_t = 0o644) throws -> String {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path + "/" + name))
            try #require(chmod(path + "/" + name, mode) == 0)
            return path + "/" + name
        }

        func link(_ name: String, to target: String) throws -> String {
            try #require(symlink(target, path + "/" + name) == 0)
            return path + "/" + name
        }
    }

    private let reader = ManifestReader(BlockingWork(.singleton))

    private func peer(_ uid: Int, groups: [UInt32] = []) -> PeerCredentials {
        var peer = PeerCredentials(descriptor: -1)
        (peer.uid, peer.gid, peer.groups) = (uid, uid, groups)
        return peer
    }

    private func entries(_ text: String) async throws -> [ImageManifest.Entry] {
        let place = try Place()
        return try await reader.read(place.file("list", text), for: peer(0)).entries
    }

    private func urls(_ entries: [ImageManifest.Entry]) -> [String?] {
        entries.map { if case .image(let item, _) = $0 { item.image.url } else { nil } }
    }

    @Test("one URL on each line, with comments and empty lines; what is none is told by its number only")
    func lines() async throws {
        let entries = try await entries(
            "\u{FEFF}# ours\r\n\nhttp://h/a\r\n  HTTPS://h/b  \nroot:x:0:0:secret\nhttp://h/c d\n")
        #expect(urls(entries) == ["http://h/a", "HTTPS://h/b", nil, nil])
        #expect(entries[2].failure?.line == 5 && entries[3].failure?.line == 6)
        #expect(entries[2].failure?.error.detail == "line 5 of the manifest is no http or https URL")
        #expect(urls(try await self.entries("\u{FEFF}http://h/a")) == ["http://h/a"])
    }

    @Test("lines are whole wherever the slices end, and their numbers right")
    func slices() async throws {
        let lines = (1...20_000).map { $0 % 1000 == 0 ? "no \($0)" : "http://h/\($0)ééééééééé" }
        for text in [lines.joined(separator: "\n"), lines.joined(separator: "\r\n") + "\r\n"] {
            let entries = try await entries(text)
            try #require(entries.count == lines.count)
            for (place, entry) in entries.enumerated() {
                switch entry {
                case .image(let item, let line): #expect(item.image.url == lines[place] && line == place + 1)
                case .wrongLine(let line): #expect(line == place + 1 && line % 1000 == 0)
                case .wrongElement: Issue.record("an element")
                }
            }
        }
    }

    @Test("or a JSON array")
    func array() async throws {
        let digest = String(repeating: "ab", count: 32)
        for mark in ["", "\u{FEFF}"] {
            let entries = try await entries(
                mark + #" ["http://h/a", {"url": "http://h/b", "expectedDigest": "\#(digest)"}, 5]"#)
            #expect(urls(entries) == ["http://h/a", "http://h/b", nil])
            guard case .image(let item, nil) = entries[1] else { throw Wrong() }
            #expect(item.expectedDigest?.hex == digest)
            #expect(entries[2].failure?.error.detail.hasPrefix("element 3 of the manifest") == true)
        }
        let many = (0..<10_000).map { "\"http://h/\($0)\"" }
        #expect(urls(try await entries("[\(many.joined(separator: ","))]")).last == "http://h/9999")
    }

    @Test("nothing, no text and half an array are errors", arguments: ["", "# nothing\n", "[\"http://h/a\"", "[]"])
    func wrong(text: String) async {
        await #expect(throws: WireError.self) { try await entries(text) }
    }

    @Test("one with too much in it is refused before that is kept", arguments: ["x\n", "7,"])
    func tooMuch(one: String) async throws {
        let many = String(repeating: one, count: ImageManifest.mostImages)
        let text = one.hasSuffix(",") ? "[\(many)7]" : many + "x\n"
        let error = await #expect(throws: WireError.self) { try await entries(text) }
        #expect(error?.detail.contains("more than \(ImageManifest.mostImages) images") == true)
        let large = String(repeating: "#\n", count: ImageManifest.maximumBytes / 2 + 1)
        let other = await #expect(throws: WireError.self) { try await entries(large) }
        #expect(other?.detail.contains("more than \(ImageManifest.maximumBytes) bytes") == true)
    }

    @Test("one at a time; a request that is cancelled gives its place up")
    func turn() async throws {
        let turn = Turn()
        #expect(await turn.take())
        let waiting = Task { await turn.take() }
        while turn.waiting == 0 { await Task.yield() }
        let cancelled = Task { await turn.take() }
        while turn.waiting == 1 { await Task.yield() }
        cancelled.cancel()
        #expect(await cancelled.value == false)
        let late = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await turn.take()
        }
        #expect(await late.value == false)
        turn.giveBack()
        #expect(await waiting.value)
        turn.giveBack()
        #expect(await turn.take())
    }

    @Test("a client gives files that are its own or everybody's; of others it does not learn whether they exist")
    func rights() async throws {
        let place = try Place()
        let path = try place.file("list", mode: 0o600)
        if geteuid() == 0 {
            chown(path, 4711, 4711)
            #expect(try await reader.read(path, for: peer(4711)).entries.count == 1)
        }
        #expect(try await reader.read(path, for: peer(0)).entries.count == 1)
        let there = try await refusal(path, peer(4712))
        #expect(there.code == .denied)
        #expect(try await refusal(place.path + "/none", peer(4712)).code == .denied)
        #expect(try await refusal(place.path + "/none", peer(0)).code == .notFound)
        #expect(try await refusal(place.path, peer(0)).code == .invalidParams)
        chmod(path, 0o604)
        #expect(try await reader.read(path, for: peer(4712)).entries.count == 1)
    }

    @Test("in directories that the client may not search nothing is there for it, nor behind links that lead there")
    func directories() async throws {
        let place = try Place()
        try place.directory("hidden", mode: 0o710)
        try place.directory("hidden/open", mode: 0o755)
        let inside = try place.file("hidden/open/list")
        _ = try place.file("list")
        for path in [
            inside, place.path + "/hidden/open/none", try place.link("link", to: "hidden/open/list"),
            try place.link("far", to: inside), try place.link("none", to: "hidden/none"),
            place.path + "/hidden/open/../../list", try place.link("loop", to: "loop"), place.path + "/list/list",
            try place.link("directory", to: "hidden"), place.path + "/directory/open/list",
        ] {
            let error = try await refusal(path, peer(4712))
            #expect(error.code == .denied, "\(path)")
            #expect(error.detail.hasPrefix("\(path) is not there, is no regular file, or"), "\(path)")
        }
        #expect(try await reader.read(place.path + "/directory/open/list", for: peer(0)).entries.count == 1)
        let member = peer(4712, groups: [7, getegid()])
        #expect(try await reader.read(place.path + "/link", for: member).entries.count == 1)
        #expect(try await reader.read(try place.link("other", to: "./list"), for: peer(4712)).entries.count == 1)
    }

    @Test("what is no stored file is not opened, and for whom it is not is not told apart from what is missing")
    func special() async throws {
        let place = try Place()
        let pipe = place.path + "/pipe"
        try #require(mkfifo(pipe, 0o666) == 0 && chmod(pipe, 0o666) == 0)
        // A writer that does not wait gets through only while somebody has the pipe open to read.
        for path in [pipe, "/dev/null", "/proc/self/maps", "/proc/version", "/proc/self/fd/0", "/proc/self/cwd", "/"] {
            #expect(try await refusal(path, peer(4712)).code == .denied, "\(path)")
            #expect(try await refusal(path, peer(0)).code == .invalidParams, "\(path)")
        }
        let writer = open(pipe, O_WRONLY | O_NONBLOCK)
        #expect(writer == -1 && errno == ENXIO)
    }

    private func refusal(_ path: String, _ peer: PeerCredentials) async throws -> WireError {
        try #require(await #expect(throws: WireError.self) { try await reader.read(path, for: peer) })
    }

    private struct Wrong: Error {}
}
