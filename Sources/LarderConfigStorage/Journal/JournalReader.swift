import Glibc

/// What a start finds in a journal.
///
/// Behind the last record stands a zero byte; see ``JournalRecord``. Anything else there is a write that a crash cut off,
/// which nobody was told of, or damage to a record that somebody was told of. The two cannot be told apart with certainty,
/// so that either way no number is given again that a lost record may have carried.
struct JournalReader: Sendable {
    /// How the journal ends.
    enum Ending: Sendable {
        case clean
        /// Bytes that are no record, and no record behind them.
        case torn
        /// Records are missing before others that are whole.
        case damaged
    }

    /// The whole records that follow the generation, in order.
    var records: [JournalRecord] = []
    /// The offset at which the next record belongs.
    var end = 0
    var ending = Ending.clean
    /// How many records may be missing, at most.
    var lost = 0
    /// Whether there are changes that only another version of this program knows.
    var isOfAnotherVersion = false

    /// No record has fewer bytes.
    private static let smallestRecord = 128
    /// More records than any journal has.
    private static let allRecords = 1 << 20
    /// More zeros than end marks that happen to follow each other: a sector was lost.
    private static let minLostZeros = 64

    /// - Parameters:
    ///   - zeros: how many zeros follow these bytes in the file.
    ///   - sequence: the last record that the generation contains.
    init(_ journal: [UInt8], zeros: Int = 0, after sequence: Int) {
        var last: Int?
        var position = 0
        while let (record, next) = Self.record(in: journal, at: position),
            last.map({ $0 + 1 == record.sequence }) ?? true
        {
            last = record.sequence
            take(record, after: sequence)
            position = next
        }
        end = position
        if let first = records.first, first.sequence > sequence + 1 { ending = .damaged }
        resynchronize(journal, from: position, last: last ?? sequence, after: sequence)
        if ending == .clean, journal.isEmpty {
            // Once there was a record there always is one, or what is left of it.
            if sequence > 0 { (ending, lost) = (.damaged, Self.allRecords) }
            return
        }
        if ending == .clean, Self.isMarked(journal, zeros: zeros, at: position, after: last ?? sequence) { return }
        let written = (journal.lastIndex { $0 != 0 } ?? -1) + 1
        lost = max(0, written - position) / Self.smallestRecord + 1
        if ending == .clean { ending = .torn }
    }

    /// Whether a zero stands there that says that the record before it is the last.
    private static func isMarked(
        _ journal: [UInt8], zeros: Int, at position: Int, after sequence: Int
    ) -> Bool {
        guard position < journal.count else { return zeros > 0 }
        guard journal[position] == 0 else { return false }
        // What stands behind it was written before, and begins with no more zeros than an end mark or two.
        let next = journal[position...].firstIndex { $0 != 0 } ?? journal.endIndex
        if next < journal.endIndex, next - position >= minLostZeros { return false }
        guard let lineEnd = journal.lineEnd(from: position),
            let lacking = JournalRecord.sequenceWithoutFirstByte(journal[position..<lineEnd])
        else { return true }
        return lacking <= sequence
    }

    /// Takes up the records behind damage: behind line ends, and behind zeros, which a disk that lost a sector gives.
    /// Records of an earlier pass through the file have lower numbers; one that was refused has lost its first byte.
    private mutating func resynchronize(_ journal: [UInt8], from position: Int, last: Int, after sequence: Int) {
        var last = last
        var position = position
        while let lineEnd = journal.lineEnd(from: position) {
            let line = journal[position..<lineEnd]
            position = lineEnd + 1
            let start = line.lastIndex(of: 0).map { $0 + 1 } ?? line.startIndex
            guard let record = JournalRecord(line[start...]) else {
                if let unknown = JournalRecord.sequenceOfAnotherVersion(line[start...]), unknown > last {
                    isOfAnotherVersion = true
                }
                continue
            }
            guard record.sequence > last else { continue }
            last = record.sequence
            take(record, after: sequence)
            end = lineEnd + 1
            ending = .damaged
        }
    }

    private mutating func take(_ record: JournalRecord, after sequence: Int) {
        if record.sequence > sequence { records.append(record) }
    }

    private static func record(in journal: [UInt8], at position: Int) -> (JournalRecord, next: Int)? {
        guard let lineEnd = journal.lineEnd(from: position),
            let record = JournalRecord(journal[position..<lineEnd])
        else { return nil }
        return (record, lineEnd + 1)
    }
}

extension [UInt8] {
    /// Where the next line ends. A start reads the journals of all namespaces: memchr(3) takes a fraction of the time of a
    /// loop.
    fileprivate func lineEnd(from start: Int) -> Int? {
        withUnsafeBytes { bytes in
            guard start < bytes.count, let base = bytes.baseAddress else { return nil }
            let found = memchr(base + start, CInt(UInt8(ascii: "\n")), bytes.count - start)
            return found.map { UnsafeRawPointer($0) - base }
        }
    }
}
