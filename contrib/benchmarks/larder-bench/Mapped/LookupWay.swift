import LarderSnapshotFile

/// A way to look up a value.
protocol LookupWay {
    /// The name in reports.
    var name: String { get }
    /// The number of lookups between two readings of the clock.
    var lookupsAtOnce: Int { get }
    /// Looks up a value.
    /// - Throws: `unexpected` if the value is missing or wrong
    func look(at index: Int) throws(BenchError)
}

/// Looks up values in a mapped snapshot.
struct MappedLookup: LookupWay {
    let name = "mapped"
    let lookupsAtOnce = 1000
    let snapshot: MappedSnapshot
    let table: LookupTable

    func look(at index: Int) throws(BenchError) {
        let found = snapshot.withText(at: table.paths[index]) { $0?.count }
        guard found == table.texts[index].utf8.count else {
            throw BenchError(.unexpected, "the mapped snapshot has something else at \(table.paths[index])")
        }
    }
}

/// Looks up values in a dictionary.
struct DictionaryLookup: LookupWay {
    let name = "dictionary"
    let lookupsAtOnce = 1000
    private let dictionary: [String: String]
    private let table: LookupTable

    init(table: LookupTable) {
        self.table = table
        dictionary = Dictionary(uniqueKeysWithValues: zip(table.paths, table.texts))
    }

    func look(at index: Int) throws(BenchError) {
        guard dictionary[table.paths[index]]?.utf8.count == table.texts[index].utf8.count else {
            throw BenchError(.unexpected, "the dictionary has something else at \(table.paths[index])")
        }
    }
}

/// Looks up values with `GET` from Redis.
struct RedisLookup: LookupWay {
    let name = "redis"
    let lookupsAtOnce = 1
    private let connection: WaitingConnection
    private let requests: [PreparedBytes]
    private let replies: [[UInt8]]
    private let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096, alignment: 16)

    init(socket: String, table: LookupTable) throws {
        let control = try ControlConnection(to: Peer(kind: .redis, socketPath: socket))
        for (path, text) in zip(table.paths, table.texts) { try control.ask(RedisRequest.command("SET", path, text)) }
        connection = try WaitingConnection(to: socket, name: name)
        requests = table.paths.map { PreparedBytes(RedisRequest.command("GET", $0)) }
        replies = table.texts.map { Array("$\($0.utf8.count)\r\n\($0)\r\n".utf8) }
    }

    func look(at index: Int) throws(BenchError) {
        try connection.send(requests[index].buffer)
        var received = 0
        while received < replies[index].count {
            received += try connection.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[received...]))
        }
        guard buffer[..<received].elementsEqual(replies[index]) else {
            throw BenchError(.unexpected, "redis has something else under this key; is it a scratch server?")
        }
    }
}
