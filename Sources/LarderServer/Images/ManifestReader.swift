import LarderUpstream
import LarderWire

/// Reads manifests, one at a time for the whole agent: somebody else's 8 MiB must not take the threads from the images,
/// nor many of them the memory. Between two slices the threads are free for others, and a request that was cancelled ends.
final class ManifestReader: Sendable {
    /// The bytes that are read and taken apart at once.
    private static let slice = 1 << 18
    /// The elements of an array that are looked at at once.
    private static let elements = 4096

    private let blocking: BlockingWork
    private let turn = Turn()

    init(_ blocking: BlockingWork) { self.blocking = blocking }

    /// Reads a manifest for a peer.
    ///
    /// - Throws: `denied`, `notFound`, `invalidParams`, `cancelled`
    func read(_ path: String, for peer: PeerCredentials) async throws(WireError) -> ImageManifest {
        guard await turn.take() else { throw Self.cancelled }
        defer { turn.giveBack() }
        let file = try await blocking.run { () throws(WireError) in try ManifestFile(path, for: peer) }
        return try await read(file)
    }

    private func read(_ file: ManifestFile) async throws(WireError) -> ImageManifest {
        var (piece, isLast) = try await slice(of: file, at: 0)
        // U+FEFF, which some editors put before a text.
        if piece.starts(with: [0xEF, 0xBB, 0xBF]) { piece.removeFirst(3) }
        let first = piece.first { $0 != 0x20 && !(0x09...0x0D).contains($0) }
        let manifest =
            first == UInt8(ascii: "[")
            ? try await array(file, piece, isLast: isLast) : try await lines(file, piece, isLast: isLast)
        guard !manifest.entries.isEmpty else { throw ImageManifest.empty }
        return manifest
    }

    private func slice(
        of file: ManifestFile, at offset: Int
    ) async throws(WireError) -> (bytes: [UInt8], isLast: Bool) {
        if Task.isCancelled { throw Self.cancelled }
        return try await blocking.run { () throws(WireError) in
            let bytes = try file.read(Self.slice, at: offset)
            if offset + bytes.count > ImageManifest.maximumBytes { throw ManifestFile.tooLarge }
            return (bytes, bytes.count < Self.slice)
        }
    }

    private func lines(
        _ file: ManifestFile, _ first: [UInt8], isLast: Bool
    ) async throws(WireError) -> ImageManifest {
        var (manifest, lines) = (ImageManifest(), ManifestLines())
        var (piece, isLast, offset) = (first, isLast, Self.slice)
        while true {
            let (known, part, isEnd) = (lines, piece, isLast)
            let (entries, after) = try await blocking.run { () throws(WireError) in
                var lines = known
                return (try lines.entries(part, isLast: isEnd), lines)
            }
            lines = after
            try manifest.append(entries)
            if isLast { return manifest }
            (piece, isLast) = try await slice(of: file, at: offset)
            offset += Self.slice
        }
    }

    private func array(
        _ file: ManifestFile, _ first: [UInt8], isLast: Bool
    ) async throws(WireError) -> ImageManifest {
        var (bytes, isLast, offset) = (first, isLast, Self.slice)
        while !isLast {
            let next = try await slice(of: file, at: offset)
            bytes += next.bytes
            (isLast, offset) = (next.isLast, offset + Self.slice)
        }
        let text = bytes
        bytes = []
        let elements = try await blocking.run { () throws(WireError) in try ManifestElements(text) }
        var manifest = ImageManifest()
        while manifest.entries.count < elements.count {
            if Task.isCancelled { throw Self.cancelled }
            let begin = manifest.entries.count
            let places = begin..<min(begin + Self.elements, elements.count)
            try manifest.append(await blocking.run { elements.entries(places) })
        }
        return manifest
    }

    private static let cancelled = WireError(.cancelled, "the request was cancelled while its manifest was read")
}
