import ConfigTestSupport
import Foundation
import LarderJSON
import LarderPlatform
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfig

@Suite("State directory and epoch")
struct StateDirectoryTests {
    /// Calls `body` with the path and the epoch of a state directory that was in use before.
    private func withUsedDirectory(_ body: (_ path: String, _ epoch: String) throws -> Void) throws {
        let path = NSTemporaryDirectory() + "/larder-state-" + UUID().uuidString
        defer { try? FileManager.default.removeItem(atPath: path) }
        try body(path, try open(path).epoch)
    }

    private func open(_ path: String, machine: String = "a") throws -> StateDirectory {
        try StateDirectory(path: path, machine: machine, files: LocalFileSystem())
    }

    @Test("the epoch stays the same across restarts and when the directory is renamed")
    func stays() throws {
        try withUsedDirectory { (path, epoch) throws in
            #expect(try open(path).epoch == epoch)
            #expect(try !open(path).isMoved)
            let moved = path + "-renamed"
            try FileManager.default.moveItem(atPath: path, toPath: moved)
            defer { try? FileManager.default.removeItem(atPath: moved) }
            #expect(try open(moved).epoch == epoch)
            try FileManager.default.removeItem(atPath: moved)
            #expect(try open(path).epoch != epoch, "a new directory")
        }
    }

    @Test("a copy of the directory gets another epoch, and keeps it after the copy moves to the path of the original")
    func copied() throws {
        try withUsedDirectory { (path, epoch) throws in
            let copy = path + "-copy"
            defer { try? FileManager.default.removeItem(atPath: copy) }
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            let epochOfCopy = try open(copy).epoch
            #expect(epochOfCopy != epoch)
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: copy, toPath: path)
            #expect(try open(path).epoch == epochOfCopy)
        }
    }

    @Test("a backup restored into the same directory gets another epoch")
    func restoredInPlace() throws {
        try withUsedDirectory { (path, epoch) throws in
            let copy = path + "-copy"
            defer { try? FileManager.default.removeItem(atPath: copy) }
            try FileManager.default.copyItem(atPath: path, toPath: copy)
            for name in try FileManager.default.contentsOfDirectory(atPath: path) {
                try FileManager.default.removeItem(atPath: path + "/" + name)
            }
            for name in try FileManager.default.contentsOfDirectory(atPath: copy) {
                try FileManager.default.copyItem(atPath: copy + "/" + name, toPath: path + "/" + name)
            }
            #expect(try open(path).epoch != epoch)
        }
    }

    @Test("a directory from another machine gets another epoch, even if the ID of this machine is unknown")
    func cloned() throws {
        try withUsedDirectory { (path, epoch) throws in
            let second = try open(path, machine: "b").epoch
            #expect(second != epoch)
            #expect(try open(path, machine: "").epoch != second)
        }
    }

    @Test("if an earlier version wrote the epoch file without the location, the epoch stays and the location is added")
    func previousVersion() throws {
        try withUsedDirectory { (path, _) throws in
            try Data("0123456789abcdef\n".utf8).write(to: URL(filePath: path + "/epoch"))
            #expect(try open(path).epoch == "0123456789abcdef")
            let lines = try String(contentsOfFile: path + "/epoch", encoding: .utf8).split(separator: "\n")
            #expect(lines.count == 4 && lines[0] == "0123456789abcdef" && lines[1] == "machine a")
            #expect(try open(path, machine: "b").epoch != "0123456789abcdef")
        }
    }

    @Test("an epoch is used even if the record of the location cannot be written")
    func readOnly() throws {
        try withUsedDirectory { (path, _) throws in
            try Data("0123456789abcdef\n".utf8).write(to: URL(filePath: path + "/epoch"))
            let files = FaultyFileSystem()
            files.failReplacements(with: EROFS)
            #expect(try StateDirectory(path: path, files: files).epoch == "0123456789abcdef")
        }
    }

    @Test("in another epoch, the state is kept and no revision of the previous epoch is reused")
    func keptState() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let first = try await fixture.open()
        _ = try await first.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        let revision = first.revision
        await first.stop()
        var restored = fixture
        restored.epoch = "1111111111111111"
        let second = try await restored.open()
        #expect(second.value == ["n": 1])
        // The previous epoch may have assigned further revisions after this state was copied, but not this many.
        #expect(second.revision > revision + 1_000_000)
        let known = second.revision
        await second.stop()
        let third = try await restored.open()
        #expect(third.value == ["n": 1] && third.revision == known)
        #expect(await third.pastSnapshots().map(\.revision) == [known, revision, revision - 1])
        await third.stop()
    }

    @Test("a store can start from a state directory that contains only saved generations")
    func savedGeneration() async throws {
        let fixture = StoreFixture.local()
        defer { fixture.remove() }
        let store = try await fixture.open()
        _ = try await store.set(JSONPath(["n"]), to: 1, timeToLive: nil)
        _ = try await store.set(JSONPath(["n"]), to: 2, timeToLive: nil)
        let current = try await store.history().saved(revision: nil)
        #expect(current.revision == 3 && current.revisions == [3, 2, 1])
        let old = try await store.history().saved(revision: 2)
        await #expect(throws: ConfigError.self) { try await store.history().saved(revision: 77) }
        await store.stop()

        var copy = StoreFixture.local()
        copy.epoch = "1111111111111111"
        defer { copy.remove() }
        let generations = copy.directory + "/generations"
        try FileManager.default.createDirectory(atPath: generations, withIntermediateDirectories: true)
        for saved in [current, old] {
            let text = try #require(saved.text)
            try text.write(
                toFile: generations + "/" + GenerationDirectory.name(revision: saved.revision), atomically: true,
                encoding: .utf8)
        }
        let restored = try await copy.open()
        #expect(restored.value == ["n": 2])
        #expect(await restored.pastSnapshots().map(\.revision).dropFirst() == [3, 2])
        _ = try await restored.rollBack(toRevision: 2, by: nil)
        #expect(restored.value == ["n": 1])
        await restored.stop()
    }
}
