/// Detects truncated images by following the structure of a format up to its end. It also finds truncation that neither
/// the content length nor the transfer coding reveals. Bytes after the end are ignored.
///
/// The detector skips from part to part by their lengths, buffers few bytes and decodes no pictures. The input may be
/// split into pieces of any size; the result is the same. ``ImageHeaderReader`` decides whether the bytes are an image.
package struct TruncationDetector: Sendable {
    /// Whether the bytes so far contain the whole image.
    package var isComplete: Bool { hasEnd || (!isEnded && skip == 0 && unconsumed.isEmpty && check.mayEnd) }

    /// The number of frames so far. Nil if the format's check does not count them.
    package var frameCount: Int? { check.frameCount }

    private var check: any TruncationCheck = TruncationSniffer()
    /// Whether the end of the image has been reached.
    private var hasEnd = false
    /// Whether the check has reached a result. Further bytes are ignored then.
    private var isEnded = false
    /// Bytes that the check has not consumed. Between calls of ``feed(_:)`` they are fewer than ``need``.
    private var unconsumed: [UInt8] = []
    /// The number of bytes that the check requires.
    private var need = 1
    /// The number of bytes that have not arrived yet and will be skipped.
    private var skip = 0
    /// Whether the image ends after the skipped bytes.
    private var isLast = false
    private(set) var budget = StepBudget()

    package init() {}

    package mutating func feed(_ bytes: [UInt8]) { feed(bytes.span) }

    /// Parses the next bytes.
    package mutating func feed(_ bytes: Span<UInt8>) {
        budget.receive(bytes.count)
        var start = 0
        while !isEnded {
            if skip > 0 {
                let passed = min(skip, bytes.count - start)
                skip -= passed
                start += passed
                guard skip == 0 else { return }
                if isLast { return end(hasEnd: true) }
            }
            if unconsumed.isEmpty, bytes.count - start >= need {
                let rest = bytes.extracting(start...)
                switch step(rest) {
                case .consumed(let count): start += count
                case .waits: break
                }
            } else if unconsumed.count >= need {
                let window = unconsumed
                if case .consumed(let count) = step(window.span) { unconsumed.removeFirst(count) }
            } else {
                let taken = min(need - unconsumed.count, bytes.count - start)
                guard taken > 0 else { return }
                for index in start..<start + taken { unconsumed.append(bytes[index]) }
                start += taken
            }
        }
    }

    private enum Progress {
        /// The number of bytes of the window that the check consumed.
        case consumed(Int)
        /// The check consumed no bytes: it needs more bytes, has been replaced by another check, or has ended.
        case waits
    }

    private mutating func step(_ window: Span<UInt8>) -> Progress {
        guard budget.take() else {
            end(hasEnd: false)
            return .waits
        }
        need = 1
        switch next(window) {
        case .consume(let count):
            assert(count > 0)
            let consumed = min(max(count, 0), window.count)
            skip = count - consumed
            return .consumed(consumed)
        case .complete(let count):
            guard count > window.count else {
                end(hasEnd: true)
                break
            }
            (skip, isLast) = (count - window.count, true)
            return .consumed(window.count)
        case .need(let count):
            assert(count > window.count)
            need = count
        case .becomes(let next):
            check = next
        case .endless:
            end(hasEnd: false)
        }
        return .waits
    }

    private mutating func next(_ window: Span<UInt8>) -> TruncationStep {
        do throws(Unreadable) {
            return try check.step(window)
        } catch {
            guard case .needs(let count) = error else { return .endless }
            return .need(count)
        }
    }

    private mutating func end(hasEnd: Bool) {
        self.hasEnd = hasEnd
        isEnded = true
        unconsumed = []
    }
}

/// Detects the image type, as ``FormatSniffer`` does, and continues with the check for that type.
struct TruncationSniffer: TruncationCheck {
    mutating func step(_ window: Span<UInt8>) -> TruncationStep {
        guard window.count >= FormatSniffer.signatureLength else { return .need(FormatSniffer.signatureLength) }
        return FormatSniffer.readers(window).map { .becomes($0.end) } ?? .endless
    }
}
