import Glibc
import LarderSnapshotFile

/// A way to look up a value.
protocol LookupMethod {
    /// The name in reports.
    var name: String { get }
    /// The number of lookups between two readings of the clock.
    var lookupsPerClockReading: Int { get }
    /// Looks up a value.
    /// - Throws: `unexpected` if the value is missing or wrong
    func lookUp(_ index: Int) throws(BenchError)
}

/// Looks up values in a mapped snapshot.
struct MappedLookup: LookupMethod {
    let name = "mapped"
    let lookupsPerClockReading = 1000
    let snapshot: MappedSnapshot
    let table: LookupTable

    func lookUp(_ index: Int) throws(BenchError) {
        let expected = table.bytes[index]
        let isSame = snapshot.withText(at: table.paths[index]) { text -> Bool in
            guard let text, text.count == expected.count else { return false }
            return expected.withUnsafeBytes { bytes in
                guard let first = text.baseAddress, let second = bytes.baseAddress else { return text.isEmpty }
                return memcmp(first, second, bytes.count) == 0
            }
        }
        guard isSame else {
            throw BenchError(.unexpected, "the mapped snapshot has another value at \(table.paths[index])")
        }
    }
}

/// Looks up values in a dictionary.
struct DictionaryLookup: LookupMethod {
    let name = "dictionary"
    let lookupsPerClockReading = 1000
    private let dictionary: [String: String]
    private let table: LookupTable

    init(table: LookupTable) {
        self.table = table
        dictionary = Dictionary(uniqueKeysWithValues: zip(table.paths, table.texts))
    }

    func lookUp(_ index: Int) throws(BenchError) {
        guard dictionary[table.paths[index]] == table.texts[index] else {
            throw BenchError(.unexpected, "the dictionary has another value at \(table.paths[index])")
        }
    }
}

/// Looks up values with `GET` from Redis.
struct RedisLookup: LookupMethod {
    let name = "redis"
    let lookupsPerClockReading = 1
    private let connection: BlockingConnection
    private let requests: [PreparedBytes]
    private let replies: [[UInt8]]
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 16)

    init(socket: String, table: LookupTable) throws {
        let control = try ControlConnection(to: Peer(kind: .redis, socketPath: socket))
        for (path, text) in zip(table.paths, table.texts) {
            try control.request(RedisRequest.command("SET", path, text))
        }
        connection = try BlockingConnection(to: socket, name: name)
        requests = table.paths.map { PreparedBytes(RedisRequest.command("GET", $0)) }
        replies = table.texts.map { Array("$\($0.utf8.count)\r\n\($0)\r\n".utf8) }
    }

    func lookUp(_ index: Int) throws(BenchError) {
        try connection.send(requests[index].buffer)
        var received = 0
        while received < replies[index].count {
            received += try connection.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[received...]))
        }
        guard buffer[..<received].elementsEqual(replies[index]) else {
            throw BenchError(
                .unexpected, "redis: another client changed a key of this benchmark; use a separate server")
        }
    }
}
