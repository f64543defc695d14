import JSON
import LarderWire

/// A file that lists the images of a prefetch: one URL on each line, with `#` before comments, or a JSON array as
/// `image.prefetch` takes it.
///
/// What is in the file is told to nobody but by what it has in the place of URLs: a client could otherwise have the agent
/// read to it what it may not read itself. So of what is no image only the place is kept, and of a file that has too many
/// not even that.
struct ImageManifest: Sendable {
    /// The largest file: 8 MiB.
    static let maximumBytes = 8 << 20
    /// The most images.
    static let mostImages = 100_000

    /// What stands in one place.
    enum Entry: Sendable {
        /// An image, and its line, if the file has lines.
        case image(ImagePrefetch.Item, line: Int?)
        /// A line that is no URL.
        case wrongLine(Int)
        /// An element of an array that is no image, counted from 1.
        case wrongElement(Int)
    }

    private(set) var entries: [Entry] = []

    /// Takes more of what is in the file.
    /// - Throws: `invalidParams` where that is too much
    mutating func append(_ more: [Entry]) throws(WireError) {
        guard entries.count + more.count <= Self.mostImages else { throw Self.tooMany }
        entries += more
    }

    static let tooMany = WireError(
        .invalidParams, "the manifest has more than \(mostImages) images, at most so many may be in one; divide it")
    static let empty = WireError(.invalidParams, "the manifest names no image")
}

extension ImageManifest.Entry {
    /// What a client is told of an entry that is no image; nil for an image.
    var failure: ImagePrefetch.Failure? {
        switch self {
        case .image: nil
        case .wrongLine(let line):
            ImagePrefetch.Failure(
                url: nil, line: line,
                error: WireError(.invalidParams, "line \(line) of the manifest is no http or https URL"))
        case .wrongElement(let number):
            ImagePrefetch.Failure(
                url: nil, line: nil,
                error: WireError(.invalidParams, "element \(number) of the manifest is no image as \"urls\" has them"))
        }
    }
}

/// The lines of a manifest, which come in pieces.
struct ManifestLines: Sendable {
    /// How many lines there were.
    private(set) var count = 0
    /// The beginning of a line whose end did not come yet.
    private var rest: [UInt8] = []

    init() {}

    /// What the lines say that are complete with another piece.
    /// - Parameter isLast: whether the file ends with it
    /// - Throws: `invalidParams` for what is no text, or too much
    mutating func entries(_ piece: [UInt8], isLast: Bool) throws(WireError) -> [ImageManifest.Entry] {
        let end = isLast ? piece.endIndex : piece.lastIndex(of: 0x0A).map { $0 + 1 } ?? piece.startIndex
        guard end > piece.startIndex || isLast else {
            rest += piece
            return []
        }
        guard let text = String(validating: rest + piece[..<end], as: UTF8.self) else {
            throw WireError(.invalidParams, "the manifest is not text in UTF-8")
        }
        rest = Array(piece[end...])
        var entries: [ImageManifest.Entry] = []
        var lines = text.utf8.split(separator: 0x0A, omittingEmptySubsequences: false)
        // Behind the last end of line another one begins, which is not there yet.
        if !isLast { lines.removeLast() }
        for line in lines {
            count += 1
            guard let start = line.firstIndex(where: { $0 > 0x20 }), line[start] != UInt8(ascii: "#"),
                let last = line.lastIndex(where: { $0 > 0x20 })
            else { continue }
            guard entries.count < ImageManifest.mostImages else { throw ImageManifest.tooMany }
            entries.append(Self.entry(line[start...last], count))
        }
        return entries
    }

    private static func entry(_ word: Substring.UTF8View, _ line: Int) -> ImageManifest.Entry {
        let beginning = word.prefix(8).map { $0 | 0x20 }
        guard beginning.starts(with: "http://".utf8) || beginning.starts(with: "https://".utf8),
            word.allSatisfy({ $0 > 0x20 && $0 != 0x7F }), word.count <= ImageReference.longestURL,
            let url = String(word)
        else { return .wrongLine(line) }
        return .image(ImagePrefetch.Item(ImageReference(url: url)), line: line)
    }
}

/// The elements of a manifest that is a JSON array.
struct ManifestElements: Sendable {
    private let values: [JSONValue]

    /// Parses the array. Its elements are looked at later.
    /// - Throws: `invalidParams` for what is no array, or one that is too long
    init(_ bytes: [UInt8]) throws(WireError) {
        let value: JSONValue
        do {
            value = try JSONValue(parsing: bytes)
        } catch {
            throw WireError(.invalidParams, "the manifest begins like a JSON array and is none")
        }
        guard value.count <= ImageManifest.mostImages else { throw ImageManifest.tooMany }
        values = Array(value.elements)
    }

    var count: Int { values.count }

    /// What some of them say.
    /// - Parameter places: which, counted from 0
    func entries(_ places: Range<Int>) -> [ImageManifest.Entry] {
        places.map { place in
            // Why it is none is not told: it would be told from the file.
            guard let item = try? ImagePrefetch.Item(values[place]) else { return .wrongElement(place + 1) }
            return .image(item, line: nil)
        }
    }
}
