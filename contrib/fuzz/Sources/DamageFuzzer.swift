import LarderJSON
@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderPlatform

/// Damages a valid archive. Every six bytes of the input choose a file, a position in the file, and a change at the
/// position.
///
/// The fuzzer checks that each restored snapshot is one that was published and has its original value, that an
/// undamaged archive is restored completely, and that no revision could be assigned twice.
@Sendable
func fuzzDamage(_ input: UnsafeRawBufferPointer) {
    let files = MemoryFiles(PublishedArchive.files)
    var edits = [UInt8](input)[...]
    var damaged: Set<String> = []
    var reservations = 0
    while edits.count >= 6 {
        let edit = Array(edits.prefix(6))
        edits = edits.dropFirst(6)
        let names = files.content.keys.sorted()
        guard !names.isEmpty else { break }
        let name = names[Int(edit[0]) % names.count]
        guard var bytes = files.read(name), !bytes.isEmpty else { continue }
        let place = (Int(edit[1]) | Int(edit[2]) << 8 | Int(edit[3]) << 16) % bytes.count
        damage(&bytes, at: place, kind: edit[4], edit[5])
        files.replace(name, with: bytes)
        if name == PublishedArchive.reservation { reservations += 1 }
        if bytes != PublishedArchive.files[name] { damaged.insert(name) }
    }
    guard let restored = restore(files) else { return }
    let directory = archive(files).generations
    let older = PublishedArchive.digests.keys.compactMap { directory.generation(ofRevision: $0) }
    for generation in restored.history.generations + older {
        require(
            PublishedArchive.digests[generation.revision] == generation.digest.text,
            "revision \(generation.revision) has another digest")
        require(
            digest(generation.publishedLayers) == generation.digest.text,
            "revision \(generation.revision) has another value"
        )
    }
    if restored.revision > 0 {
        require(
            PublishedArchive.digests[restored.revision] == restored.digest,
            "revision \(restored.revision) has another digest")
    }
    if damaged.isEmpty {
        require(
            restored.revision == PublishedArchive.last && digest(restored.layers) == restored.digest,
            "an undamaged archive is not restored completely")
    }
    // If restored layers differ from the published ones, the store publishes them under a new revision, which must be
    // above the reserved revisions. The file with the reservation is short, so several changes can turn it into a valid
    // file with a lower revision. Inputs with more than one change to the reservation are therefore not checked.
    if damaged.count < 2, reservations < 2 {
        require(
            restored.highestSeen >= PublishedArchive.bound,
            "a revision above \(restored.highestSeen) would be assigned again")
    }
}

/// Applies one of the changes that a failing disk can cause.
private func damage(_ bytes: inout [UInt8], at place: Int, kind: UInt8, _ operand: UInt8) {
    switch kind % 6 {
    case 0: bytes[place] ^= operand
    case 1: bytes[place] = operand
    case 2: bytes.removeLast(bytes.count - place)
    case 3:
        // Zeros replace a sector, as if it had not been written.
        let sector = place / 512 * 512
        for index in sector..<min(sector + 512, bytes.count) { bytes[index] = 0 }
    case 4: bytes.remove(at: place)
    default: bytes.insert(operand, at: place)
    }
}

/// A valid archive with several generations, and journal records after the last of them.
private enum PublishedArchive {
    static let last = 9
    /// The highest reserved revision.
    static let bound = 1000
    static let reservation = "a/reserved"
    static let all = make()
    static var files: [String: [UInt8]] { all.files }
    static var digests: [Int: String] { all.digests }

    private static func make() -> (files: [String: [UInt8]], digests: [Int: String]) {
        let files = MemoryFiles()
        let archive = archive(files)
        var digests: [Int: String] = [:]
        var layers = Layers()
        layers[.host] = FileDocument(document: ["search": ["limit": 10, "on": true], "name": "a"], updatedAt: 1)
        do throws(FileError) {
            // A store reserves revisions before it publishes the first.
            try archive.reservation.reserve(bound)
            for revision in 1...4 {
                layers.remote = RemoteDocument(
                    document: [
                        "search": ["limit": .int(revision * 100)], "text": .string(String(repeating: "é", count: 300)),
                    ],
                    origin: "http://origin", updatedAt: revision)
                digests[revision] = digest(layers)
                try archive.generations.write(generation(revision, layers, digests, journal: 0))
            }
            for revision in 5...last {
                let entry = OverrideEntry(
                    path: ["set", "m\(revision % 3)"], value: .string("value \(revision)"), setAt: revision)
                layers.override.set(entry)
                digests[revision] = digest(layers)
                try archive.journal.append(
                    JournalRecord(
                        sequence: revision - 4, revision: revision, digest: digests[revision]!, publishedAt: revision,
                        released: 0, operations: [.set(entry)], causes: [ChangeCause(.set)]),
                    afterGenerationWith: 0)
                if revision == 6 { try archive.generations.write(generation(revision, layers, digests, journal: 2)) }
            }
        } catch {
            fatalError("\(error)")
        }
        return (files.content, digests)
    }

    private static func generation(
        _ revision: Int, _ layers: Layers, _ digests: [Int: String], journal: Int
    ) -> Generation {
        Generation(
            revision: revision, digest: SnapshotDigest(known: digests[revision]!), publishedAt: revision,
            journalSequence: journal,
            released: 0,
            causes: [ChangeCause(.refresh)], layers: layers)
    }
}
