import CLinuxShims
import Glibc

/// A file in memory that can be passed to the agent. The agent refuses files that are not in memory, because reading
/// them could block the agent.
final class MemoryFile: Sendable {
    /// The maximum size of a copy. For comparison, the agent's default limit for an image is 64 MiB.
    private static let maxBytes = 1 << 30

    let descriptor: CInt
    private let isOwn: Bool

    private init(_ descriptor: CInt, isOwn: Bool) { (self.descriptor, self.isOwn) = (descriptor, isOwn) }

    deinit { if isOwn { close(descriptor) } }

    /// Returns the file itself if it is in memory, else a copy of its content from the current position on. Copying
    /// blocks one of the threads that run tasks.
    @concurrent
    static func containing(_ file: CInt) async throws(LarderClientError) -> MemoryFile {
        if larder_get_seals(file) >= 0 { return MemoryFile(file, isOwn: false) }
        let descriptor = larder_memfd_create("larder-image")
        guard descriptor >= 0 else { throw failure("create a file in memory") }
        let copy = MemoryFile(descriptor, isOwn: true)
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        var total = 0
        while true {
            let count = read(file, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw failure("read the image") }
            if count == 0 { return copy }
            total += count
            guard total <= maxBytes else {
                throw LarderClientError(
                    .invalidArgument, "the image is larger than \(maxBytes) bytes; store a smaller image")
            }
            try copy.append(chunk[..<count])
        }
    }

    private func append(_ bytes: ArraySlice<UInt8>) throws(LarderClientError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Self.failure("copy the image to memory") }
            rest = rest.dropFirst(count)
        }
    }

    private static func failure(_ action: String) -> LarderClientError {
        LarderClientError(.invalidArgument, "cannot \(action): \(String(cString: strerror(errno)))")
    }
}
