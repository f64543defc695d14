import LarderJSON
@testable import LarderConfigModel
@testable import LarderConfigSources
@testable import LarderUpstream

/// Checks that an event stream gives the same events however it is split, and the events that the specification
/// requires.
@Sendable
func fuzzEvents(_ input: UnsafeRawBufferPointer) {
    for limit in [16, 1 << 20] {
        var first: EventStream?
        for pieces in splits(of: input) {
            let stream = EventStream(pieces, limit)
            require(first.map { $0 == stream } ?? true, "split differently, the stream gives \(stream), not \(first!)")
            first = stream
        }
        if limit > input.count {
            require(first == EventStream(lineByLine: Array(input)), "the events differ from those of the specification")
        }
    }
}

private struct EventStream: Equatable {
    var events: [EventStreamParser.Event] = []
    var lastEventID = "before"
    var retry: Duration?
    var isOverflowing = false

    init(_ pieces: [[UInt8]], _ limit: Int) {
        var parser = EventStreamParser(maximumEventBytes: limit, lastEventID: lastEventID)
        for piece in pieces { events += parser.parse(piece) }
        (lastEventID, retry, isOverflowing) = (parser.lastEventID, parser.retry, parser.isOverflowing)
    }

    /// Parses a complete stream as the specification describes it: first into lines, then into fields.
    init(lineByLine bytes: [UInt8]) {
        var (type, id) = ("", lastEventID)
        var data: [[UInt8]] = []
        for line in Self.lines(bytes.starts(with: [0xEF, 0xBB, 0xBF]) ? bytes.dropFirst(3) : bytes[...]) {
            if line.isEmpty {
                lastEventID = id
                if !data.isEmpty {
                    events.append(
                        .init(type: type.isEmpty ? "message" : type, data: Array(data.joined(separator: [0x0A]))))
                }
                (type, data) = ("", [])
                continue
            }
            let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
            var value = parts.count > 1 ? parts[1] : []
            if value.first == UInt8(ascii: " ") { value.removeFirst() }
            switch String(decoding: parts[0], as: UTF8.self) {
            case "data": data.append(Array(value))
            case "event": type = String(decoding: value, as: UTF8.self)
            case "id" where !value.contains(0): id = String(decoding: value, as: UTF8.self)
            case "retry" where !value.isEmpty && value.allSatisfy({ (0x30...0x39).contains($0) }):
                retry = .milliseconds(min(Double(String(decoding: value, as: UTF8.self))!, 30 * 86_400_000))
            default: break
            }
        }
    }

    /// Returns the complete lines.
    private static func lines(_ bytes: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
        var lines: [ArraySlice<UInt8>] = []
        var rest = bytes
        while let end = rest.firstIndex(where: { $0 == 0x0A || $0 == 0x0D }) {
            lines.append(rest[..<end])
            let isPair = rest[end] == 0x0D && rest.dropFirst(end - rest.startIndex + 1).first == 0x0A
            rest = rest[(end + (isPair ? 2 : 1))...]
        }
        return lines
    }
}

/// Checks that a response of etcd's gateway gives the same messages however it is split. Decodes each message.
@Sendable
func fuzzEtcd(_ input: UnsafeRawBufferPointer) {
    var first: [[UInt8]?]?
    for pieces in splits(of: input) {
        var framer = EtcdFramer(maximumBytes: 256)
        var messages: [[UInt8]?] = []
        do {
            for piece in pieces {
                framer.append(piece)
                while let message = try framer.next() { messages.append(message) }
            }
        } catch {
            messages.append(nil)
        }
        require(first.map { $0 == messages } ?? true, "split differently, the response gives other messages")
        first = messages
    }
    for message in first ?? [] {
        guard let value = message.flatMap({ try? JSONValue(parsing: $0) }) else { continue }
        _ = (EtcdPage(value), EtcdWatchMessage(value)?.isProgress)
    }
}
