import Foundation
import LarderWire
import Testing

@testable import LarderServer

@Suite("A manifest")
struct ImageManifestTests {
    private func entries(_ text: String) throws -> [ImageManifest.Entry] {
        try ImageManifest(Array(text.utf8)).entries
    }

    @Test("one URL on each line, with comments and empty lines; what is none is told by its number only")
    func lines() throws {
        let entries = try entries("# ours\r\n\nhttp://h/a\r\n  HTTPS://h/b  \nroot:x:0:0:secret\nhttp://h/c d\n")
        #expect(entries.map(\.line) == [3, 4, 5, 6])
        #expect(entries.compactMap { try? $0.item.get().image.url } == ["http://h/a", "HTTPS://h/b"])
        for entry in entries.dropFirst(2) {
            guard case .failure(let error) = entry.item else { throw Wrong() }
            #expect(error.detail == "line \(entry.line ?? 0) of the manifest is no http or https URL")
        }
    }

    @Test("or a JSON array")
    func array() throws {
        let digest = String(repeating: "ab", count: 32)
        let entries = try entries(#" ["http://h/a", {"url": "http://h/b", "expectedDigest": "\#(digest)"}, 5]"#)
        #expect(try entries[1].item.get().expectedDigest?.hex == digest)
        #expect(entries.count == 3 && entries.allSatisfy { $0.line == nil })
        guard case .failure(let error) = entries[2].item else { throw Wrong() }
        #expect(error.code == .invalidParams && error.detail.hasPrefix("element 2 of the manifest"))
    }

    @Test("nothing, no text and half an array are errors", arguments: ["", "# nothing\n", "[\"http://h/a\"", "[]"])
    func wrong(text: String) {
        #expect(throws: WireError.self) { try entries(text) }
    }

    @Test("a client gives files that are its own or everybody's; of others it does not learn whether they exist")
    func rights() throws {
        let path = NSTemporaryDirectory() + "/larder-manifest-" + UUID().uuidString
        try "http://h/a\n".write(toFile: path, atomically: false, encoding: .utf8)
        defer { unlink(path) }
        var (owner, stranger, root) = (
            PeerCredentials(descriptor: -1), PeerCredentials(descriptor: -1), PeerCredentials(descriptor: -1)
        )
        owner.uid = 4711
        stranger.uid = 4712
        root.uid = 0
        chmod(path, 0o600)
        if geteuid() == 0 {
            chown(path, 4711, 4711)
            #expect(try ImageManifest(path: path, for: owner).entries.count == 1)
        }
        #expect(try ImageManifest(path: path, for: root).entries.count == 1)
        let there = #expect(throws: WireError.self) { try ImageManifest(path: path, for: stranger) }
        let missing = #expect(throws: WireError.self) { try ImageManifest(path: path + "x", for: stranger) }
        #expect(there?.code == .denied && missing?.code == .denied)
        #expect(missing?.detail == there?.detail.replacingOccurrences(of: path, with: path + "x"))
        #expect(throws: WireError.self) { try ImageManifest(path: NSTemporaryDirectory(), for: root) }
        chmod(path, 0o604)
        #expect(try ImageManifest(path: path, for: stranger).entries.count == 1)
    }

    private struct Wrong: Error {}
}
