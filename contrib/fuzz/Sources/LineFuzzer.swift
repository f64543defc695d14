import LarderProtocol

private enum Line: Equatable {
    case line([UInt8])
    case tooLong
}

/// Checks that a stream gives the lines between its line feeds, however it is split and wherever the reader pauses.
@Sendable
func fuzzLines(_ input: UnsafeRawBufferPointer) {
    for limit in [0, 1, 7, 64, 1 << 20] {
        let expected = expectedLines(input, limit)
        for (index, pieces) in splits(of: input).enumerated() {
            var generator = SeededGenerator(input)
            let found = framedLines(pieces, limit) { index == 2 && generator.next(below: 2) == 0 }
            require(found == expected, "limit \(limit), split \(index): \(found) instead of \(expected)")
        }
    }
}

private func expectedLines(_ input: UnsafeRawBufferPointer, _ limit: Int) -> [Line] {
    input.split(separator: 0x0A, omittingEmptySubsequences: false).compactMap { line in
        let line = line.last == 0x0D ? line.dropLast() : line
        if line.count > limit { return .tooLong }
        return line.allSatisfy { [0x20, 0x09, 0x0D].contains($0) } ? nil : .line(Array(line))
    }
}

private func framedLines(_ pieces: [[UInt8]], _ limit: Int, _ pauses: () -> Bool) -> [Line] {
    var framer = LineFramer(maximumLineBytes: limit)
    var found: [Line] = []
    func append(_ line: LineFramer.Line) {
        switch line {
        case .whole(let bytes): found.append(.line(Array(bytes)))
        case .assembled(let bytes):
            found.append(.line(bytes))
            framer.reuse(bytes)
        case .tooLong: found.append(.tooLong)
        }
    }
    for piece in pieces {
        piece.withUnsafeBytes { bytes in
            var consumed = 0
            while consumed < bytes.count {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[consumed...])
                var offset = 0
                while let line = framer.next(in: rest, at: &offset) {
                    append(line)
                    if pauses() { break }
                }
                require(offset > 0 && offset <= rest.count, "the framer consumed \(offset) bytes")
                consumed += offset
            }
        }
        require(framer.pendingBytes <= limit + 1, "the framer buffers more than the limit")
    }
    if let line = framer.finish() { append(line) }
    require(framer.pendingBytes == 0, "the framer buffers bytes after the end")
    return found
}
