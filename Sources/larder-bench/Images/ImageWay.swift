import CLinuxShims
import Glibc

/// A way for an image's bytes into a client's memory.
enum ImageWay: String, CaseIterable {
    /// image.get, then open(2) and read(2).
    case pathRead
    /// image.get, then open(2), mmap(2) of all its pages, and a look into each of them.
    case pathMap
    /// image.get with a descriptor, then read(2).
    case descriptorRead
    /// image.get with a descriptor, then mmap(2) of all its pages, and a look into each of them.
    case descriptorMap
    /// HTTP over a Unix socket, from nginx's proxy cache, by a connection that is kept.
    case nginx
}

/// A client that takes images by one of the ways, one after the other.
final class ImageTaker {
    let way: ImageWay
    private let connection: WaitingConnection
    private let requests: [PreparedBytes]
    private let imageBytes: Int
    /// The client's memory, used again and again as a decoder does.
    private let memory: UnsafeMutableRawBufferPointer
    private var position = 0
    /// Of what was looked at, so that looking is not left out.
    private(set) var sum: UInt64 = 0

    /// - Parameters:
    ///   - socket: the agent's, or nginx's
    ///   - names: the images' URLs, or for nginx their paths
    ///   - imageBytes: the size that each of them has
    init(_ way: ImageWay, socket: String, names: [String], imageBytes: Int) throws(BenchError) {
        self.way = way
        self.imageBytes = imageBytes
        connection = try WaitingConnection(to: socket, name: way == .nginx ? "nginx" : "larder")
        memory = .allocate(byteCount: imageBytes + 64 * 1024, alignment: 4096)
        memory.initializeMemory(as: UInt8.self, repeating: 0)
        requests = names.map { name in
            PreparedBytes(
                way == .nginx
                    ? Array("GET \(name) HTTP/1.1\r\nHost: bench\r\n\r\n".utf8)
                    : LarderRequest.image(name, id: 1, asDescriptor: way == .descriptorRead || way == .descriptorMap))
        }
    }

    deinit { memory.deallocate() }

    /// Has every image held, and makes sure that it is.
    func warmUp() throws(BenchError) {
        for _ in 0..<(2 * requests.count) { try takeOne() }
    }

    /// Takes images for some time.
    /// - Returns: bytes for each second
    func take(seconds: Double) throws(BenchError) -> Double {
        let start = MonotonicClock.nanoseconds()
        var now = start
        var count = 0
        repeat {
            try takeOne()
            count += 1
            now = MonotonicClock.nanoseconds()
        } while Double(now &- start) < seconds * 1e9
        return Double(count * imageBytes) / Double(now &- start) * 1e9
    }

    private func takeOne() throws(BenchError) {
        try connection.send(requests[position].buffer)
        position = (position + 1) % requests.count
        switch way {
        case .nginx: try takeAnswer()
        case .pathRead, .pathMap:
            let line = try connection.line()
            let file = try Self.open(line.bytes)
            defer { close(file) }
            try takeFile(file, mapped: way == .pathMap)
        case .descriptorRead, .descriptorMap:
            let line = try connection.line()
            guard line.descriptor >= 0 else {
                throw BenchError(
                    .unexpected, "no descriptor came: \(ReplyText.excerpt(UnsafeRawBufferPointer(line.bytes)))")
            }
            defer { close(line.descriptor) }
            try takeFile(line.descriptor, mapped: way == .descriptorMap)
        }
    }

    private func takeFile(_ file: Int32, mapped: Bool) throws(BenchError) {
        if mapped {
            let populate: Int32 = 0x8000  // MAP_POPULATE (mmap(2)), which Swift does not see
            guard let start = mmap(nil, imageBytes, PROT_READ, MAP_SHARED | populate, file, 0), start != MAP_FAILED
            else {
                throw .system("mmap")
            }
            look(at: UnsafeRawBufferPointer(start: start, count: imageBytes))
            munmap(start, imageBytes)
            return
        }
        var filled = 0
        while filled < imageBytes {
            // One byte more than there should be, so that a longer file shows.
            let count = read(file, memory.baseAddress.map { $0 + filled }, imageBytes + 1 - filled)
            if count < 0 { throw .system("read") }
            if count == 0 { break }
            filled += count
        }
        guard filled == imageBytes else {
            throw BenchError(.unexpected, "a file of \(filled) bytes, not \(imageBytes)")
        }
    }

    /// Adds up a byte of each page: then all are in this process's memory, as what is read or received is. What that brings
    /// in is not looked at any closer either.
    private func look(at bytes: UnsafeRawBufferPointer) {
        for offset in stride(from: 0, to: bytes.count, by: 4096) { sum &+= UInt64(bytes[offset]) }
    }

    /// Opens the file that a reply names.
    private static func open(_ line: UnsafeMutableRawBufferPointer) throws(BenchError) -> Int32 {
        let reply = UnsafeRawBufferPointer(line)
        if let start = ReplyText.offset(of: "\"path\":\"", in: reply), let base = line.baseAddress {
            let path = base + start + 8
            if let end = memchr(path, Int32(UInt8(ascii: "\"")), line.count - start - 8) {
                end.storeBytes(of: 0, as: UInt8.self)
                let file = Glibc.open(path.assumingMemoryBound(to: CChar.self), O_RDONLY | O_CLOEXEC)
                if file < 0 { throw .system("open \(String(cString: path.assumingMemoryBound(to: CChar.self)))") }
                return file
            }
        }
        throw BenchError(.refused, "larder did not answer with a path: \(ReplyText.excerpt(reply))")
    }

    /// Reads the answer of nginx: a head, and a body of the expected length, from its cache.
    private func takeAnswer() throws(BenchError) {
        var filled = 0
        while true {
            filled += try connection.read(into: UnsafeMutableRawBufferPointer(rebasing: memory[filled...]))
            let bytes = UnsafeRawBufferPointer(rebasing: memory[..<filled])
            guard let end = ReplyText.offset(of: "\r\n\r\n", in: bytes) else { continue }
            let head = UnsafeRawBufferPointer(rebasing: bytes[..<end])
            guard ReplyText.offset(of: "HTTP/1.1 200 ", in: head) == 0,
                ReplyText.offset(of: "Content-Length: \(imageBytes)", in: head) != nil
            else { throw BenchError(.unexpected, "nginx: \(ReplyText.excerpt(head))") }
            let whole = end + 4 + imageBytes
            guard whole <= memory.count, filled <= whole else {
                throw BenchError(.unexpected, "nginx sent more than it declared")
            }
            while filled < whole {
                filled += try connection.read(into: UnsafeMutableRawBufferPointer(rebasing: memory[filled..<whole]))
            }
            return
        }
    }
}
