import JSON
import LarderWire

#if canImport(Musl)
    import Musl
#else
    import Glibc
#endif

/// A file that lists the images of a prefetch: one URL on each line, with `#` before comments, or a JSON array as
/// `image.prefetch` takes it.
///
/// What is in the file is told to nobody but by what it has in the place of URLs: a client could otherwise have the agent
/// read to it what it may not read itself.
struct ImageManifest {
    /// The largest file: 8 MiB.
    static let maximumBytes = 8 << 20
    /// The most images.
    static let mostImages = 100_000

    /// One image, and the line that it stands on, if the file has lines.
    struct Entry {
        var line: Int?
        /// What cannot be an image has its error.
        var item: Result<ImagePrefetch.Item, WireError>
    }

    let entries: [Entry]

    /// Reads what is in a manifest.
    /// - Throws: `invalidParams`
    init(_ bytes: [UInt8]) throws(WireError) {
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        entries = bytes.first { !isSpace($0) } == UInt8(ascii: "[") ? try Self.array(bytes) : try Self.lines(bytes)
        guard entries.count <= Self.mostImages else {
            throw WireError(
                .invalidParams,
                "the manifest has \(entries.count) images, at most \(Self.mostImages) may be in one; divide it")
        }
        guard !entries.isEmpty else { throw WireError(.invalidParams, "the manifest names no image") }
    }

    private static func lines(_ bytes: [UInt8]) throws(WireError) -> [Entry] {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw WireError(.invalidParams, "the manifest is not text in UTF-8")
        }
        var entries: [Entry] = []
        var number = 0
        for line in text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false) {
            number += 1
            guard let start = line.firstIndex(where: { $0 > 0x20 }), line[start] != UInt8(ascii: "#"),
                let end = line.lastIndex(where: { $0 > 0x20 })
            else { continue }
            entries.append(Entry(line: number, item: item(line[start...end], number)))
        }
        return entries
    }

    private static func item(_ word: Substring.UTF8View, _ line: Int) -> Result<ImagePrefetch.Item, WireError> {
        let beginning = word.prefix(8).map { $0 | 0x20 }
        guard beginning.starts(with: "http://".utf8) || beginning.starts(with: "https://".utf8),
            word.allSatisfy({ $0 > 0x20 && $0 != 0x7F }), word.count <= ImageReference.longestURL,
            let url = String(word)
        else {
            return .failure(WireError(.invalidParams, "line \(line) of the manifest is no http or https URL"))
        }
        return .success(ImagePrefetch.Item(ImageReference(url: url)))
    }

    private static func array(_ bytes: [UInt8]) throws(WireError) -> [Entry] {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: bytes)
        } catch {
            throw WireError(.invalidParams, "the manifest begins like a JSON array and is none")
        }
        return value.elements.enumerated().map { index, element in
            let item: Result<ImagePrefetch.Item, WireError>
            do throws(WireError) {
                item = .success(try ImagePrefetch.Item(element))
            } catch {
                item = .failure(WireError(.invalidParams, "element \(index) of the manifest: \(error.detail)"))
            }
            return Entry(line: nil, item: item)
        }
    }
}

extension ImageManifest {
    /// Reads a manifest for a peer: one that the peer owns, or that everybody may read; root and who runs the agent may give
    /// any. The disk is waited for.
    ///
    /// - Throws: `denied`, `notFound`, `invalidParams`
    init(path: String, for peer: PeerCredentials) throws(WireError) {
        // A named pipe would be waited for otherwise.
        let file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard file >= 0 else { throw Self.unreadable(path, peer, errno) }
        defer { close(file) }
        var status = stat()
        guard fstat(file, &status) == 0 else { throw Self.unreadable(path, peer, errno) }
        guard peer.maySeeSecrets || Int(status.st_uid) == peer.uid || status.st_mode & S_IROTH != 0 else {
            throw Self.denied(path)
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw WireError(.invalidParams, "\(path) is not a regular file")
        }
        let bytes = try Self.content(of: file, path, peer)
        guard bytes.count <= Self.maximumBytes else {
            throw WireError(.invalidParams, "\(path) has more than \(Self.maximumBytes) bytes; divide it")
        }
        try self.init(bytes)
    }

    private static func content(of file: CInt, _ path: String, _ peer: PeerCredentials) throws(WireError) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= maximumBytes {
            let count = read(file, &piece, piece.count)
            if count == 0 { break }
            if count < 0 {
                if errno == EINTR { continue }
                throw unreadable(path, peer, errno)
            }
            bytes += piece[..<count]
        }
        return bytes
    }

    /// A peer that may not give every file is not told which ones there are either.
    private static func unreadable(_ path: String, _ peer: PeerCredentials, _ number: CInt) -> WireError {
        guard peer.maySeeSecrets else { return denied(path) }
        return WireError(.notFound, "\(path) cannot be read: \(String(cString: strerror(number)))")
    }

    private static func denied(_ path: String) -> WireError {
        WireError(
            .denied,
            "\(path) is not there, or not yours to give: a manifest must belong to you or be readable for everybody, and "
                + "the agent must be able to read it")
    }
}
