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

    /// Returns the file itself if it is in memory, else a copy of its content from the current position on. A separate
    /// thread copies, because reading a pipe or a slow disk blocks.
    /// - Throws: `invalidArgument` if the file cannot be copied; `cancelled` if the task is cancelled.
    static func containing(_ file: CInt) async throws(LarderClientError) -> MemoryFile {
        if larder_get_seals(file) >= 0 { return MemoryFile(file, isOwn: false) }
        let cancellation = try Cancellation()
        let result = await withTaskCancellationHandler {
            await onOwnThread { Result { () throws(LarderClientError) in try Self.copy(of: file, cancellation) } }
        } onCancel: {
            cancellation.signal()
        }
        return try result.get()
    }

    private static func copy(of file: CInt, _ cancellation: Cancellation) throws(LarderClientError) -> MemoryFile {
        // The wait for input would be endless if the descriptor is not open for reading.
        let flags = fcntl(file, F_GETFL)
        guard flags >= 0, flags & O_ACCMODE != O_WRONLY else { throw failure("read the image", EBADF) }
        let descriptor = larder_memfd_create("larder-image")
        guard descriptor >= 0 else { throw failure("create a file in memory", errno) }
        let copy = MemoryFile(descriptor, isOwn: true)
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        var total = 0
        while true {
            try cancellation.waitForInput(of: file)
            let count = read(file, &chunk, chunk.count)
            if count < 0, errno == EINTR || errno == EAGAIN { continue }
            guard count >= 0 else { throw failure("read the image", errno) }
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
            guard count > 0 else { throw Self.failure("copy the image to memory", errno) }
            rest = rest.dropFirst(count)
        }
    }

    fileprivate static func failure(_ action: String, _ code: CInt) -> LarderClientError {
        LarderClientError(.invalidArgument, "cannot \(action): \(String(cString: strerror(code)))")
    }
}

/// Ends the wait for a file that another thread reads.
private final class Cancellation: Sendable {
    private let descriptor: CInt

    init() throws(LarderClientError) {
        descriptor = larder_eventfd()
        guard descriptor >= 0 else { throw MemoryFile.failure("create a descriptor", errno) }
    }

    deinit { close(descriptor) }

    func signal() {
        var one: UInt64 = 1
        _ = write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits until a file can be read without blocking, has ended, or cannot be read.
    /// - Throws: `cancelled` after ``signal()``.
    func waitForInput(of file: CInt) throws(LarderClientError) {
        var descriptors = [
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: file, events: Int16(POLLIN), revents: 0),
        ]
        while poll(&descriptors, nfds_t(descriptors.count), -1) < 0 {
            guard errno == EINTR else { throw MemoryFile.failure("wait for the image", errno) }
        }
        if descriptors[0].revents != 0 { throw .cancelled }
    }
}
