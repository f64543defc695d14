/// Watches the bytes of an image go by and knows whether it has come to its own end, so that one which was cut off is found
/// where neither a length nor a chunk says so. What follows the end is of no interest.
///
/// It walks from part to part by their lengths and holds a few bytes at most; pictures are not decoded. Bytes may be given
/// in pieces of any size; the answer does not depend on how they are cut. Whether it is an image at all is for
/// ``ImageHeaderReader`` to say.
package struct ImageEndReader: Sendable {
    /// Whether the end was seen.
    package private(set) var isComplete = false

    /// The number of frames, if the walker counted them.
    package private(set) var frameCount: Int?

    private var walker: (any EndWalker)? = EndSniffer()
    /// Bytes that were given and not consumed, always fewer than are waited for.
    private var held: [UInt8] = []
    /// How many bytes the walker waits for.
    private var need = 1
    /// How many of the coming bytes go by unseen.
    private var skip = 0
    /// Whether the end is where those have gone by.
    private var isLast = false

    /// Makes a reader of one image.
    package init() {}

    /// Takes the next bytes.
    package mutating func feed(_ bytes: [UInt8]) { feed(bytes.span) }

    /// Takes the next bytes.
    package mutating func feed(_ bytes: Span<UInt8>) {
        var start = 0
        while walker != nil {
            if skip > 0 {
                let passed = min(skip, bytes.count - start)
                skip -= passed
                start += passed
                guard skip == 0 else { return }
                if isLast { return end(isComplete: true) }
            }
            if held.isEmpty, bytes.count - start >= need {
                let rest = bytes.extracting(start...)
                switch step(rest) {
                case .consumed(let count): start += count
                case .waits: break
                }
            } else if held.count >= need {
                let window = held
                if case .consumed(let count) = step(window.span) { held.removeFirst(count) }
            } else {
                let taken = min(need - held.count, bytes.count - start)
                guard taken > 0 else { return }
                for index in start..<start + taken { held.append(bytes[index]) }
                start += taken
            }
        }
    }

    private enum Progress {
        /// So many bytes of the window are done with.
        case consumed(Int)
        /// More bytes are needed first.
        case waits
    }

    private mutating func step(_ window: Span<UInt8>) -> Progress {
        guard var walker else { return .waits }
        let step = walker.step(window)
        self.walker = walker
        need = 1
        switch step {
        case .consume(let count):
            assert(count > 0)
            let consumed = min(max(count, 1), window.count)
            skip = max(count, 1) - consumed
            return .consumed(consumed)
        case .complete(let count):
            guard count > window.count else {
                end(isComplete: true)
                break
            }
            (skip, isLast) = (count - window.count, true)
            return .consumed(window.count)
        case .need(let count):
            assert(count > window.count)
            need = max(count, window.count + 1)
        case .becomes(let next):
            self.walker = next
        case .endless:
            end(isComplete: false)
        }
        return .waits
    }

    private mutating func end(isComplete: Bool) {
        self.isComplete = isComplete
        frameCount = walker?.frameCount
        walker = nil
        held = []
    }
}

/// What a walker wants after it has looked at its window.
enum EndStep {
    /// The first bytes are done with; how many may be more than the window has, then the rest goes by unseen.
    case consume(Int)
    /// Look again when the window has so many bytes, more than it has now. Few: they are held in memory.
    case need(Int)
    /// Another walker goes on from here.
    case becomes(any EndWalker)
    /// The end is after so many bytes; they may be more than the window has.
    case complete(after: Int)
    /// There is no end that could be found.
    case endless
}

/// Walks through one format to its end, without input and output.
///
/// Each step must make progress, so that walking takes time in proportion to the bytes.
protocol EndWalker: Sendable {
    /// The number of frames that were passed; nil if the walker does not count them.
    var frameCount: Int? { get }

    /// Looks at the bytes that were not consumed yet, at least as many as were asked for (one, if nothing was).
    mutating func step(_ window: Span<UInt8>) -> EndStep
}

extension EndWalker {
    var frameCount: Int? { nil }
}

/// Tells the type, as the header's reader does.
struct EndSniffer: EndWalker {
    mutating func step(_ window: Span<UInt8>) -> EndStep {
        guard window.count >= FormatSniffer.signatureLength else { return .need(FormatSniffer.signatureLength) }
        switch FormatSniffer.type(window) {
        case .png: return .becomes(PNGEndWalker())
        case .jpeg: return .becomes(JPEGEndWalker())
        case .gif: return .becomes(GIFEndWalker())
        case .webp: return .becomes(WebPEndWalker())
        case .avif, .heic: return .becomes(HEIFEndWalker())
        case .jxl: return .becomes(JPEGXLEndWalker())
        case .bmp: return .becomes(BMPEndWalker())
        case .ico: return .becomes(IconEndWalker())
        case .svg: return .becomes(SVGEndWalker())
        case nil: return .endless
        }
    }
}
