/// JPEG XL in a container: up to the end of the box with the complete codestream (`jxlc`) or with its last part
/// (`jxlp`).
///
/// A codestream without a container does not record its length, so only a decoder can find its end. It counts as
/// complete after its first bytes, and so does a `jxlc` box that extends to the end of the file.
struct JPEGXLTruncationCheck: TruncationCheck {
    private var isStarted = false

    mutating func step(_ window: Span<UInt8>) throws(Unreadable) -> TruncationStep {
        guard isStarted else {
            isStarted = true
            return window[0] == 0xFF ? .complete(after: FormatSniffer.signatureLength) : .consume(12)
        }
        let box = try BoxHeader.read(window)
        let headerLength = box.headerLength
        if window.has("jxlc", at: 4) { return .complete(after: box.length ?? headerLength) }
        if window.has("jxlp", at: 4) {
            guard window.count >= headerLength + 4 else { return .need(headerLength + 4) }
            // The highest bit of the part number marks the last part.
            if window[headerLength] & 0x80 != 0 { return .complete(after: box.length ?? headerLength + 4) }
        }
        return box.length.map { .consume($0) } ?? .endless
    }
}
