import LarderJSON
@testable import LarderConfigModel
@testable import LarderConfigStorage

/// Damage to an archive that was written properly: a file, and what happens to it, for each six bytes of the input. Whatever
/// happens, each snapshot that is found is one that was published, with its own value; what is missing is announced; and no
/// number is given a second time.
@Sendable
func fuzzDamage(_ input: UnsafeRawBufferPointer) {
    let files = MemoryFiles(Published.files)
    var damage = [UInt8](input)[...]
    var damaged: Set<String> = []
    var reservations = 0
    while damage.count >= 6 {
        let edit = Array(damage.prefix(6))
        damage = damage.dropFirst(6)
        let names = files.content.keys.sorted()
        guard !names.isEmpty else { break }
        let name = names[Int(edit[0]) % names.count]
        guard var bytes = files.read(name), !bytes.isEmpty else { continue }
        let place = (Int(edit[1]) | Int(edit[2]) << 8 | Int(edit[3]) << 16) % bytes.count
        spoil(&bytes, at: place, how: edit[4], edit[5])
        files.replace(name, with: bytes)
        if name == Published.reservation { reservations += 1 }
        if bytes != Published.files[name] { damaged.insert(name) }
    }
    guard let restored = restore(files) else { return }
    let older = archive(files).generations.generations(
        inFiles: restored.olderFiles, before: restored.history.generations.first)
    for generation in restored.history.generations + older {
        require(
            Published.digests[generation.revision] == generation.digest.text,
            "revision \(generation.revision) is another")
        require(
            digest(generation.publishedLayers) == generation.digest.text,
            "revision \(generation.revision) has another value"
        )
    }
    if restored.revision > 0 {
        require(Published.digests[restored.revision] == restored.digest, "revision \(restored.revision) is another")
    }
    if damaged.isEmpty {
        require(
            restored.revision == Published.last && digest(restored.layers) == restored.digest, "something is missing")
    }
    // Where the layers are others, they are published under a new number. More than one change of the few bytes of the
    // reservation can make an older, valid one of it.
    if damaged.count < 2, reservations < 2 {
        require(restored.highestSeen >= Published.bound, "a number above \(restored.highestSeen) would be given again")
    }
}

/// What a broken disk does.
private func spoil(_ bytes: inout [UInt8], at place: Int, how: UInt8, _ operand: UInt8) {
    switch how % 6 {
    case 0: bytes[place] ^= operand
    case 1: bytes[place] = operand
    case 2: bytes.removeLast(bytes.count - place)
    case 3:
        // A sector that was never written.
        let sector = place / 512 * 512
        for index in sector..<min(sector + 512, bytes.count) { bytes[index] = 0 }
    case 4: bytes.remove(at: place)
    default: bytes.insert(operand, at: place)
    }
}

/// An archive of a few generations, and records behind the last of them.
private enum Published {
    static let last = 9
    /// The number up to which all are reserved.
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
            // As a store does before it publishes anything.
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
