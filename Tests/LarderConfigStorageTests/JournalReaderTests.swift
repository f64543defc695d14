import LarderConfigModel
import LarderJSON
import Testing

@testable import LarderConfigStorage

@Suite("Journal reader")
struct JournalReaderTests {
    @Test("reading a journal that is cut off at any byte returns exactly the complete records before the cut")
    func tornJournal() {
        let records = (1...4).map { number in
            JournalRecord(
                sequence: number, revision: number, digest: "d", publishedAt: 0, released: 0,
                operations: [.set(.init(path: ["n"], value: .int(number), setAt: 0, expiresAt: nil))])
        }
        let encoded = records.map { $0.encoded() }
        let whole = encoded.flatMap { $0 }
        for end in 0...whole.count {
            var torn = Array(whole[..<end])
            torn += [UInt8](repeating: 0, count: 64)
            let reading = JournalReader(torn, after: 0)
            var complete = 0
            var length = 0
            for bytes in encoded where length + bytes.count <= end {
                length += bytes.count
                complete += 1
            }
            #expect(reading.records.map(\.sequence) == Array(1...4).prefix(complete).map { $0 })
            #expect(reading.ending == (length == end ? .clean : .torn))
            #expect(reading.end == length)
        }
    }

    @Test("old records after the end of a reused journal are not read")
    func oldRecordsBehind() {
        func record(_ sequence: Int) -> [UInt8] {
            JournalRecord(
                sequence: sequence, revision: sequence, digest: "d", publishedAt: 0, released: 0,
                operations: [.dropRemote]
            )
            .encoded()
        }
        let old = record(3) + record(4)
        let journal = record(11) + record(12) + [0] + old.dropFirst(40)
        let reading = JournalReader(journal, after: 10)
        #expect(reading.records.map(\.sequence) == [11, 12])
        #expect(reading.end == record(11).count + record(12).count)
        #expect(reading.ending == .clean)
    }

    @Test(
        "a flipped bit loses one record, or two if it is in a line end; `lost` is at least the number of lost records")
    func damagedJournal() {
        let records = (1...4).map { number in
            JournalRecord(
                sequence: number, revision: number, digest: "d", publishedAt: 0, released: 0,
                operations: [.set(.init(path: ["n\(number)"], value: .int(number), setAt: 0, expiresAt: nil))])
        }
        let encoded = records.map { $0.encoded() }
        let whole = encoded.flatMap { $0 } + [UInt8](repeating: 0, count: 64)
        var start = 0
        for (number, bytes) in encoded.enumerated() {
            for index in start..<(start + bytes.count) {
                var damaged = whole
                damaged[index] ^= 1 << UInt8(index % 8)
                let reading = JournalReader(damaged, after: 0)
                let found = reading.records.map(\.sequence)
                // Without the line end, the next record is part of the same line and is lost, too.
                let isLineEnd = index == start + bytes.count - 1
                #expect(found == (1...4).filter { $0 != number + 1 && !(isLineEnd && $0 == number + 2) })
                #expect(reading.ending == (found.last ?? 0 > number + 1 ? .damaged : .torn))
                #expect((found.last ?? 0) + reading.lost >= 4)
            }
            start += bytes.count
        }
    }

    @Test("zeros before complete records are damage, not the end of the journal")
    func zeros() {
        let encoded = (1...60).map { number in
            JournalRecord(
                sequence: number, revision: number, digest: "d", publishedAt: 0, released: 0,
                operations: [.set(.init(path: ["n\(number)"], value: .int(number), setAt: 0, expiresAt: nil))]
            ).encoded()
        }
        let whole = encoded.flatMap { $0 } + [UInt8](repeating: 0, count: 64)
        var one = whole
        one[encoded[0].count] = 0
        let first = JournalReader(one, after: 0)
        #expect(first.records.map(\.sequence) == [1] + Array(3...60))
        #expect(first.ending == .damaged)

        var sector = whole
        for index in 0..<4096 { sector[index] = 0 }
        let second = JournalReader(sector, after: 0)
        #expect(second.records.last?.sequence == 60)
        #expect(second.records.first?.sequence ?? 0 > 1)
        #expect(second.ending == .damaged)

        // The zeros end exactly where the third record begins.
        var exact = whole
        for index in 0..<(encoded[0].count + encoded[1].count) { exact[index] = 0 }
        #expect(JournalReader(exact, after: 0).records.map(\.sequence) == Array(3...60))
    }
}
