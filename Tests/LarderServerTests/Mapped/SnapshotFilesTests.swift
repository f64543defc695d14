import LarderConfigModel
import LarderJSON
import LarderSnapshotFile
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Files of current snapshots")
struct SnapshotFilesTests {
    private static let status = PublishedStatus(NamespaceStatus(source: nil), holding: Layers())

    private static func publication(_ document: JSONValue, revision: Int = 1) -> ConfigPublication {
        let snapshot = snapshot(document, revision: revision)
        return ConfigPublication(
            namespace: "default", epoch: "9f86d081884c7d65", snapshot: snapshot, status: Self.status)
    }

    private static func snapshot(_ document: JSONValue, revision: Int) -> ConfigSnapshot {
        let value = document.detached()
        return ConfigSnapshot(
            value: value, revision: revision, publishedAt: 0)
    }

    private static func large(_ last: Int) -> JSONValue {
        let padding = String(repeating: "x", count: SnapshotFiles.maxInlineBytes)
        return ["padding": .string(padding), "last": .int(last)]
    }

    private static func mapped(_ opened: OpenedSnapshot) throws -> SnapshotFileReader {
        try SnapshotFileReader(descriptor: opened.file.descriptor)
    }

    @Test("a small snapshot file is created immediately and shared until the next publication")
    func small() async throws {
        let (files, publication) = (SnapshotFiles(), Self.publication(["a": 1]))
        let first = try #require(try files.immediateFile(publication))
        #expect(try files.immediateFile(publication)?.file === first.file)
        #expect(try await files.file(publication).file === first.file)
        #expect(try Self.mapped(first).int(at: "a") == 1 && first.revision == 1)
        publication.publish(Self.snapshot(["a": 2], revision: 2), status: Self.status)
        let second = try #require(try files.immediateFile(publication))
        #expect(try Self.mapped(second).int(at: "a") == 2 && Self.mapped(second).revision == 2)
        // A client may keep its descriptor of the previous file, whose content must not change.
        #expect(try Self.mapped(first).int(at: "a") == 1)
    }

    @Test("a large snapshot file is created by a task, shared by all requests that wait, and not older than these")
    func large() async throws {
        let (files, publication) = (SnapshotFiles(), Self.publication(Self.large(1)))
        #expect(try files.immediateFile(publication) == nil)
        let opened = try await withThrowingTaskGroup(of: OpenedSnapshot.self) { group in
            for _ in 0..<8 { group.addTask { try await files.file(publication) } }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(opened.allSatisfy { $0.file === opened[0].file })
        #expect(try files.immediateFile(publication)?.file === opened[0].file)
        for revision in 2...20 {
            async let one = files.file(publication)
            publication.publish(Self.snapshot(Self.large(revision), revision: revision), status: Self.status)
            #expect(try await files.file(publication).revision == revision)
            #expect(try await one.revision >= revision - 1)
        }
        #expect(try Self.mapped(try await files.file(publication)).int(at: "last") == 20)
    }

    @Test("a snapshot file is released when a newer snapshot is published or the namespace ends")
    func release() async throws {
        let (files, publication) = (SnapshotFiles(), Self.publication(["a": 1]))
        _ = try files.immediateFile(publication)
        #expect(files.count == 1)
        publication.publish(Self.snapshot(["a": 2], revision: 2), status: Self.status)
        while files.count > 0 { await Task.yield() }
        _ = try files.immediateFile(publication)
        #expect(files.count == 1)
        publication.end()
        while files.count > 0 { await Task.yield() }
    }
}
