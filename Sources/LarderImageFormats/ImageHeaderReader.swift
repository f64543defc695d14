/// Reads the type and size of an image from its first bytes as they arrive, before any part of the image is published.
///
/// The input may be split into pieces of any size; the result is the same. The reader buffers only the bytes that its
/// parser requires: up to 512 KiB for AVIF and HEIC, 64 KiB for JPEG, far less for the other formats.
///
/// The reader rejects an image whose header does not end within a limit. The limit is 16 MiB for PNG, JPEG, JPEG XL,
/// AVIF, HEIC and icons, in which other data may precede the size; it is 1 MiB for GIF and SVG, 128 bytes for bitmaps,
/// and 64 bytes for WebP.
package struct ImageHeaderReader: Sendable {
    /// The state of reading.
    package enum Progress: Sendable, Hashable {
        /// The header is incomplete. Feed more bytes, or call ``ImageHeaderReader/finish()``.
        case needMore
        /// The header was read. Further bytes are ignored.
        case found(ImageHeader)
        /// The bytes are not an acceptable image. Further bytes are ignored.
        case rejected(ImageFormatError)
    }

    package private(set) var progress = Progress.needMore

    private var parser: any HeaderParser = FormatSniffer()
    private var lookAhead = FormatSniffer.lookAhead
    /// Bytes received but not consumed.
    private var window: [UInt8] = []
    /// The number of bytes that the parser requires in the window.
    private var need = 1
    /// The number of bytes that have not arrived yet and will be skipped.
    private var skip = 0
    /// The number of bytes consumed so far, including those still to be skipped.
    private var position = 0
    private(set) var budget = StepBudget()

    package init() {}

    /// Parses the next bytes and returns the new state.
    package mutating func feed(_ bytes: Span<UInt8>) -> Progress {
        budget.receive(bytes.count)
        var start = 0
        while progress == .needMore, start < bytes.count {
            if skip > 0 {
                let passed = min(skip, bytes.count - start)
                skip -= passed
                start += passed
                continue
            }
            // Copies little more than the parser requires, because most of a large piece lies beyond the header.
            let taken = min(max(need - window.count, 512), bytes.count - start)
            for index in start..<start + taken { window.append(bytes[index]) }
            start += taken
            run()
        }
        return progress
    }

    /// Parses the next bytes and returns the new state.
    package mutating func feed(_ bytes: [UInt8]) -> Progress { feed(bytes.span) }

    /// Ends the input. If the header is still incomplete, the image is rejected.
    package mutating func finish() -> Progress {
        if progress == .needMore { end(.rejected(parser.ended(window.span))) }
        return progress
    }

    private mutating func run() {
        let window = window
        var start = 0
        while progress == .needMore, skip == 0, window.count - start >= need {
            guard budget.take() else { return rejectTooLong() }
            let rest = lookAhead - position
            switch parser.step(window.span.extracting(start...)) {
            case .consume(let count):
                assert(count > 0)
                // Compares before adding: lengths in malicious headers may be close to `Int.max`.
                guard count > 0, count <= rest else { return rejectTooLong() }
                position += count
                let buffered = min(count, window.count - start)
                start += buffered
                skip = count - buffered
                need = 1
            case .need(let count):
                assert(count > window.count - start)
                guard count > window.count - start, count <= rest else {
                    return rejectTooLong()
                }
                need = count
            case .becomes(let next):
                parser = next
                lookAhead = type(of: next).lookAhead
                need = 1
            case .found(let header):
                return end(.found(header))
            case .rejected(let error):
                return end(.rejected(error))
            }
        }
        if start > 0 { self.window = Array(window.dropFirst(start)) }
    }

    private mutating func rejectTooLong() { end(.rejected(parser.tooLong)) }

    private mutating func end(_ result: Progress) {
        progress = result
        window = []
    }
}
