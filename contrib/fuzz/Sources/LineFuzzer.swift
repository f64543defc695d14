import LarderProtocol

private enum Line: Equatable {
    case line([UInt8])
    case tooLong
}

/// However a stream is cut, and wherever a reader stops and goes on, the lines are those that a split at line feeds gives.
@Sendable
func fuzzLines(_ input: UnsafeRawBufferPointer) {
    for limit in [0, 1, 7, 64, 1 << 20] {
        let expected = split(input, limit)
        for (way, pieces) in arrivals(input).enumerated() {
            var chance = Chance(input)
            let found = framed(pieces, limit) { way == 2 && chance.next(below: 2) == 0 }
            require(found == expected, "limit \(limit), way \(way): \(found) instead of \(expected)")
        }
    }
}

private func split(_ input: UnsafeRawBufferPointer, _ limit: Int) -> [Line] {
    input.split(separator: 0x0A, omittingEmptySubsequences: false).compactMap { line in
        let line = line.last == 0x0D ? line.dropLast() : line
        if line.count > limit { return .tooLong }
        return line.allSatisfy { [0x20, 0x09, 0x0D].contains($0) } ? nil : .line(Array(line))
    }
}

private func framed(_ pieces: [[UInt8]], _ limit: Int, _ stops: () -> Bool) -> [Line] {
    var framer = LineFramer(maximumLineBytes: limit)
    var found: [Line] = []
    func note(_ line: LineFramer.Line) {
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
            var taken = 0
            while taken < bytes.count {
                let rest = UnsafeRawBufferPointer(rebasing: bytes[taken...])
                var offset = 0
                while let line = framer.next(in: rest, at: &offset) {
                    note(line)
                    if stops() { break }
                }
                require(offset > 0 && offset <= rest.count, "the framer took \(offset) bytes")
                taken += offset
            }
        }
        require(framer.pendingBytes <= limit + 1, "more is held than a line may have")
    }
    if let line = framer.finish() { note(line) }
    require(framer.pendingBytes == 0, "something is held after the end")
    return found
}
