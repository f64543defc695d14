/// Follows the bytes of an image to the end that its format defines, and so detects an image that was cut off where neither
/// a length nor a chunk shows it. Bytes after that end are ignored.
///
/// It goes from part to part by their lengths, holds a few bytes at most and decodes no pictures. Bytes may be given in
/// pieces of any size; the result does not depend on how they are cut. ``ImageHeaderReader`` decides whether the bytes are
/// an image.
package struct TruncationDetector: Sendable {
    /// Whether the end was reached.
    package private(set) var isComplete = false

    /// The number of frames, if the format's check counted them.
    package private(set) var frameCount: Int?

    private var check: (any TruncationCheck)? = TruncationSniffer()
    /// Bytes that the check has not consumed, always fewer than it waits for.
    private var held: [UInt8] = []
    /// The number of bytes that the check waits for.
    private var need = 1
    /// The number of coming bytes to skip.
    private var skip = 0
    /// Whether the image ends with the skipped bytes.
    private var isLast = false

    /// Makes a reader of one image.
    package init() {}

    /// Takes the next bytes.
    package mutating func feed(_ bytes: [UInt8]) { feed(bytes.span) }

    /// Takes the next bytes.
    package mutating func feed(_ bytes: Span<UInt8>) {
        var start = 0
        while check != nil {
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
        /// The check has consumed so many bytes of the window.
        case consumed(Int)
        /// More bytes are needed first.
        case waits
    }

    private mutating func step(_ window: Span<UInt8>) -> Progress {
        guard var check else { return .waits }
        let step = check.step(window)
        self.check = check
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
            self.check = next
        case .endless:
            end(isComplete: false)
        }
        return .waits
    }

    private mutating func end(isComplete: Bool) {
        self.isComplete = isComplete
        frameCount = check?.frameCount
        check = nil
        held = []
    }
}

/// What a check needs next.
enum TruncationStep {
    /// Consumes bytes. If there are more than the window has, the rest is skipped.
    case consume(Int)
    /// Continue when the window has so many bytes, more than it has now. They are held in memory, so the number is small.
    case need(Int)
    /// Another check continues from here.
    case becomes(any TruncationCheck)
    /// The end is after so many bytes; they may be more than the window has.
    case complete(after: Int)
    /// The end cannot be found.
    case endless
}

/// Follows one format to its end.
///
/// Each step must make progress, so that a check takes time in proportion to the bytes.
protocol TruncationCheck: Sendable {
    /// The number of frames so far; nil if the check does not count them.
    var frameCount: Int? { get }

    /// Reads the bytes that are not consumed, at least as many as the last step needed (one by default).
    mutating func step(_ window: Span<UInt8>) -> TruncationStep
}

extension TruncationCheck {
    var frameCount: Int? { nil }
}

/// Recognises the type, as ``FormatSniffer`` does.
struct TruncationSniffer: TruncationCheck {
    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        guard window.count >= FormatSniffer.signatureLength else { return .need(FormatSniffer.signatureLength) }
        switch FormatSniffer.type(window) {
        case .png: return .becomes(PNGTruncationCheck())
        case .jpeg: return .becomes(JPEGTruncationCheck())
        case .gif: return .becomes(GIFTruncationCheck())
        case .webp: return .becomes(WebPTruncationCheck())
        case .avif, .heic: return .becomes(HEIFTruncationCheck())
        case .jxl: return .becomes(JPEGXLTruncationCheck())
        case .bmp: return .becomes(BMPTruncationCheck())
        case .ico: return .becomes(IconTruncationCheck())
        case .svg: return .becomes(SVGTruncationCheck())
        case nil: return .endless
        }
    }
}
