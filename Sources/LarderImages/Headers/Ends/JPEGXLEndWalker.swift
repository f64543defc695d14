/// JPEG XL in a container: boxes up to the whole codestream (`jxlc`) or to its last part (`jxlp`).
///
/// A codestream without a container says nowhere how long it is: its end is known to decoders only. It counts as whole with
/// its first bytes, and so does a `jxlc` box that extends to the end of the file.
struct JPEGXLEndWalker: EndWalker {
    private var isStarted = false

    mutating func step(_ window: Span<UInt8>) -> EndStep {
        guard isStarted else {
            isStarted = true
            return window[0] == 0xFF ? .complete(after: FormatSniffer.signatureLength) : .consume(12)
        }
        guard window.count >= 8 else { return .need(8) }
        var (headerLength, size) = (8, window.big32(0))
        if size == 1 {
            guard window.count >= 16 else { return .need(16) }
            guard window.big32(8) <= 0x7FFF_FFFF else { return .endless }
            (headerLength, size) = (16, window.big32(8) << 32 | window.big32(12))
        }
        guard size == 0 || size >= headerLength else { return .endless }
        if window.has("jxlc", at: 4) { return .complete(after: size == 0 ? headerLength : size) }
        if window.has("jxlp", at: 4) {
            guard window.count >= headerLength + 4 else { return .need(headerLength + 4) }
            // The highest bit of the number marks the last part.
            if window[headerLength] & 0x80 != 0 { return .complete(after: size == 0 ? headerLength + 4 : size) }
        }
        return size == 0 ? .endless : .consume(size)
    }
}
