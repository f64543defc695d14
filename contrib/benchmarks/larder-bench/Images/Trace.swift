import Foundation

/// A sequence of requests for objects.
struct Trace: Sendable {
    /// The object number of each request. Objects are numbered in the order of their first requests.
    private(set) var requests: [UInt32] = []
    /// The size of each object in bytes, taken from its first request.
    private(set) var sizes: [Int] = []

    /// Parses lines that consist of a key, a comma and a size in bytes. The key is everything before the last comma.
    /// Empty lines are skipped, as is a first line without a size.
    ///
    /// - Throws: ``BenchError/Code/unsuitable`` with the number of an invalid line
    init(csv: some Sequence<UInt8>) throws {
        var objects: [[UInt8]: UInt32] = [:]
        var line: [UInt8] = []
        var number = 0
        for byte in csv {
            guard byte == UInt8(ascii: "\n") else {
                line.append(byte)
                continue
            }
            number += 1
            try add(line, number, &objects)
            line.removeAll(keepingCapacity: true)
        }
        if !line.isEmpty { try add(line, number + 1, &objects) }
        guard !requests.isEmpty else { throw BenchError(.unsuitable, "the trace has no requests") }
    }

    private mutating func add(_ line: [UInt8], _ number: Int, _ objects: inout [[UInt8]: UInt32]) throws {
        var line = line[...]
        while let last = line.last, last == UInt8(ascii: "\r") || last == UInt8(ascii: " ") { line = line.dropLast() }
        if line.isEmpty { return }
        let comma = line.lastIndex(of: UInt8(ascii: ","))
        let text = comma.map { line[($0 + 1)...].drop { $0 == UInt8(ascii: " ") } }
        guard let comma, let text, let size = Int(String(decoding: text, as: UTF8.self)), size >= 0 else {
            if number == 1 { return }
            throw BenchError(.unsuitable, "line \(number) of the trace is not a key, a comma and a size in bytes")
        }
        let key = Array(line[..<comma])
        if let object = objects[key] { return requests.append(object) }
        let object = UInt32(sizes.count)
        objects[key] = object
        sizes.append(size)
        requests.append(object)
    }

    /// Returns, for each request, the position of the next request for the same object; `Int.max` if there is none.
    func nextRequests() -> [Int] {
        var next = [Int](repeating: .max, count: requests.count)
        var last = [Int](repeating: .max, count: sizes.count)
        for position in requests.indices.reversed() {
            let object = Int(requests[position])
            next[position] = last[object]
            last[object] = position
        }
        return next
    }
}
