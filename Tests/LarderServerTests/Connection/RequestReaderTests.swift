import LarderProtocol
import NIOCore
import TestSupport
import Testing

@testable import LarderServer

@Suite("Reading requests")
struct RequestReaderTests {
    /// Drives a reader as a connection does. The sizes of reads are random, and so are the times at which the gate
    /// closes. While the gate is closed, no request may start.
    private struct Driver {
        enum End: CaseIterable { case open, halfClosed, disconnected }

        var generator: SeededGenerator
        var reader = RequestReader(maximumLineBytes: 20_000)
        /// The bytes that have not arrived at the socket yet, and the bytes in the socket that have not been read.
        var (coming, arrived): (ArraySlice<UInt8>, ArraySlice<UInt8>)
        let end: End
        var hasEnded = false
        var isGateOpen = true
        var served: [[UInt8]] = []
        var isClosed = false
        /// Whether the reader waits for input although all input has arrived and been read.
        var isIdle = false

        init(_ input: [UInt8], _ end: End, seed: Int) {
            (coming, arrived, self.end) = (input[...], [], end)
            generator = SeededGenerator(seed: UInt64(seed))
        }

        mutating func step() {
            switch reader.nextAction(isGateOpen: isGateOpen) {
            case .wait: wait()
            case .deferRest: reader.resumeScheduled()
            case .read(let maxBytes): read(maxBytes)
            case .serveBacklog:
                #expect(isGateOpen)
                guard let backlog = reader.takeBacklog() else { return }
                serve(Array(buffer: backlog))
            case .serveLastLine:
                #expect(isGateOpen && reader.backlog == nil)
                if let line = reader.takeLastLine() { serve(line) }
            case .close: isClosed = true
            }
        }

        /// Produces the next event that can end the wait of the reader.
        private mutating func wait() {
            if reader.isResumeScheduled {
                reader.resumed()
            } else if !isGateOpen {
                isGateOpen = true
                reader.gateOpened()
            } else if !coming.isEmpty {
                let count = min(coming.count, Int.random(in: 1...30_000, using: &generator))
                arrived += coming.prefix(count)
                coming = coming.dropFirst(count)
                reader.socketBecameReady()
                if Bool.random(using: &generator) { reader.deferLongLine() }
                if coming.isEmpty { reportEnd() }
            } else {
                isIdle = true
            }
        }

        private mutating func reportEnd() {
            hasEnded = end != .open
            switch end {
            case .open: break
            case .halfClosed: reader.peerHalfClosed()
            case .disconnected: reader.peerHungUp(isSliceOver: Bool.random(using: &generator))
            }
        }

        private mutating func read(_ maxBytes: Int) {
            #expect(isGateOpen && reader.backlog == nil && !reader.isResumeScheduled)
            if Int.random(in: 0..<8, using: &generator) == 0 { return reader.readWasInterrupted() }
            if arrived.isEmpty { return hasEnded ? reader.inputEnded() : reader.socketIsEmpty() }
            let isTruncated = Int.random(in: 0..<4, using: &generator) == 0
            let room = isTruncated ? Int.random(in: 1...maxBytes, using: &generator) : maxBytes
            let bytes = Array(arrived.prefix(room))
            arrived = arrived.dropFirst(room)
            serve(bytes)
            reader.didRead(mayHaveMore: isTruncated || bytes.count == maxBytes)
        }

        /// Serves lines until the gate closes or the time slice ends, both at random.
        private mutating func serve(_ bytes: [UInt8]) {
            var offset = 0
            bytes.withUnsafeBytes { bytes in
                while let line = reader.nextLine(in: bytes, at: &offset) {
                    serve(line)
                    if Int.random(in: 0..<6, using: &generator) == 0 { isGateOpen = false }
                    if !isGateOpen || Int.random(in: 0..<6, using: &generator) == 0 { break }
                }
            }
            if offset < bytes.count {
                reader.keep(ByteBuffer(bytes: bytes[offset...]), isGateOpen: isGateOpen)
            }
        }

        private mutating func serve(_ line: LineFramer.Line) {
            switch line {
            case .whole(let bytes): served.append(Array(bytes))
            case .assembled(let bytes):
                #expect(reader.pendingBytes > 0)
                served.append(bytes)
                reader.didServe(bytes)
            case .tooLong: Issue.record("a line is reported as too long")
            }
        }
    }

    @Test(
        "every line is served once and in order, whenever input arrives, the gate closes or a time slice ends",
        arguments: 0..<60)
    func interleavings(seed: Int) {
        var generator = SeededGenerator(seed: UInt64(seed) + 1000)
        var input: [UInt8] = []
        for _ in 0..<Int.random(in: 1...80, using: &generator) {
            let isLong = Int.random(in: 0..<10, using: &generator) == 0
            let count = Int.random(in: 1...(isLong ? 19_000 : 600), using: &generator)
            input +=
                [UInt8](repeating: UInt8.random(in: 0x61...0x7A, using: &generator), count: count) + [0x0A]
        }
        if Bool.random(using: &generator) { input.removeLast() }
        let lines = input.split(separator: 0x0A).map(Array.init)
        for end in Driver.End.allCases {
            var driver = Driver(input, end, seed: seed)
            while !driver.isClosed, !driver.isIdle { driver.step() }
            let hasLast = input.last == 0x0A || end != .open
            let expected = hasLast ? lines : Array(lines.dropLast())
            switch end {
            // If the peer has disconnected, the first request that would have to wait is not served, nor are the
            // requests after it.
            case .disconnected:
                #expect(driver.isClosed && driver.served == Array(expected.prefix(driver.served.count)))
            case .open, .halfClosed: #expect(!driver.isClosed && driver.served == expected)
            }
            #expect(end != .halfClosed || driver.reader.isFinished)
            #expect(end != .disconnected || driver.served.count == expected.count || !driver.isGateOpen)
        }
    }

    @Test(
        "the reader waits while no request may start, the rest of the input is deferred or a line is being served"
    )
    func waits() {
        var reader = RequestReader(maximumLineBytes: 64)
        #expect(reader.nextAction(isGateOpen: false) == .wait)
        #expect(reader.nextAction(isGateOpen: true) == .read(maxBytes: RequestReader.sliceBytes))
        reader.isServing = true
        #expect(reader.nextAction(isGateOpen: true) == .wait)
        reader.isServing = false
        reader.didRead(mayHaveMore: true)
        #expect(reader.nextAction(isGateOpen: true) == .deferRest)
        reader.resumeScheduled()
        #expect(reader.nextAction(isGateOpen: true) == .wait)
        reader.resumed()
        reader.didRead(mayHaveMore: false)
        #expect(reader.nextAction(isGateOpen: true) == .wait)
        reader.socketBecameReady()
        reader.gateOpened()
        #expect(reader.nextAction(isGateOpen: true) == .deferRest)
    }

    @Test("the input that was read but not served comes before further input, and is dropped when the reader stops")
    func backlog() {
        var reader = RequestReader(maximumLineBytes: 64)
        reader.keep(ByteBuffer(string: "a\n"), isGateOpen: false)
        #expect(reader.nextAction(isGateOpen: false) == .wait)
        #expect(reader.nextAction(isGateOpen: true) == .serveBacklog)
        reader.stop()
        #expect(reader.nextAction(isGateOpen: true) == .read(maxBytes: RequestReader.sliceBytes))
    }

    @Test("after the peer disconnects, the connection closes as soon as a request would have to wait")
    func disconnected() {
        var reader = RequestReader(maximumLineBytes: 64)
        reader.peerHungUp(isSliceOver: true)
        #expect(reader.nextAction(isGateOpen: true) == .deferRest)
        reader.resumeScheduled()
        #expect(reader.nextAction(isGateOpen: true) == .wait)
        reader.resumed()
        #expect(reader.nextAction(isGateOpen: false) == .close)
        #expect(reader.nextAction(isGateOpen: true) == .read(maxBytes: RequestReader.sliceBytes))
        reader.inputEnded()
        #expect(reader.nextAction(isGateOpen: true) == .serveLastLine)
        #expect(reader.takeLastLine().map { _ in true } == nil)
        #expect(reader.nextAction(isGateOpen: true) == .close)
    }
}
