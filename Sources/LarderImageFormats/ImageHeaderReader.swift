/// Reads the type and size of an image from its first bytes as they arrive, before anything of it is published.
///
/// Bytes may be given in pieces of any size; the answer does not depend on how they are cut. The reader holds no more
/// than the few bytes that it waits for (1 MiB for AVIF and HEIC, 64 KiB for JPEG, far less for the others) and gives an
/// image up whose header does not end within a limit: 16 MiB for PNG, JPEG, JPEG XL, AVIF, HEIC and icons, whose metadata
/// may come first and are passed over; 1 MiB for GIF and SVG; 128 bytes for bitmaps; 64 bytes for WebP.
package struct ImageHeaderReader: Sendable {
    /// What is known so far.
    package enum Progress: Sendable, Hashable {
        /// Nothing yet; give more bytes, or call ``ImageHeaderReader/finish()``.
        case needMore
        /// The header; further bytes are ignored.
        case found(ImageHeader)
        /// No image that we would keep; further bytes are ignored.
        case refused(ImageFormatError)
    }

    /// What is known so far.
    package private(set) var progress = Progress.needMore

    private var parser: any HeaderParser = FormatSniffer()
    private var lookAhead = FormatSniffer.lookAhead
    /// Bytes that were given and not consumed.
    private var window: [UInt8] = []
    /// How many bytes the parser waits for.
    private var need = 1
    /// How many of the coming bytes go by unseen.
    private var skip = 0
    /// How many bytes were consumed, those to be skipped included.
    private var position = 0

    /// Makes a reader of one image.
    package init() {}

    /// Takes the next bytes.
    package mutating func feed(_ bytes: Span<UInt8>) -> Progress {
        var start = 0
        while progress == .needMore, start < bytes.count {
            if skip > 0 {
                let passed = min(skip, bytes.count - start)
                skip -= passed
                start += passed
                continue
            }
            // Little more than is waited for: the rest of a large piece is most likely not the header's.
            let taken = min(max(need - window.count, 512), bytes.count - start)
            for index in start..<start + taken { window.append(bytes[index]) }
            start += taken
            run()
        }
        return progress
    }

    /// Takes the next bytes.
    package mutating func feed(_ bytes: [UInt8]) -> Progress { feed(bytes.span) }

    /// Says that there are no more bytes: what was not found by now is not there.
    package mutating func finish() -> Progress {
        if progress == .needMore { end(.refused(parser.ended(window.span))) }
        return progress
    }

    private mutating func run() {
        var start = 0
        while progress == .needMore, skip == 0, window.count - start >= need {
            let rest = lookAhead - position
            var parser = parser
            let step = parser.step(window.span.extracting(start...))
            self.parser = parser
            switch step {
            case .consume(let count):
                assert(count > 0)
                // Compared before it is added: lengths in hostile headers come near the largest integer.
                guard count > 0, count <= rest else { return giveUp() }
                position += count
                let held = min(count, window.count - start)
                start += held
                skip = count - held
                need = 1
            case .need(let count):
                assert(count > window.count - start)
                guard count > window.count - start, count <= rest else {
                    return giveUp()
                }
                need = count
            case .becomes(let next):
                self.parser = next
                lookAhead = type(of: next).lookAhead
                need = 1
            case .found(let header):
                return end(.found(header))
            case .refused(let error):
                return end(.refused(error))
            }
        }
        window.removeFirst(start)
    }

    private mutating func giveUp() { end(.refused(parser.tooLong)) }

    private mutating func end(_ result: Progress) {
        progress = result
        window = []
    }
}
