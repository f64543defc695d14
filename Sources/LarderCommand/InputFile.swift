import CLinuxShims
import Glibc

/// An open file whose descriptor can be passed to the agent. Standard input and pipes are copied to memory first.
final class InputFile: Sendable {
    let descriptor: CInt

    /// - Parameter name: its path; `-` is standard input.
    init(_ name: String) throws(Failure) {
        let isStandard = name == "-"
        let opened = isStandard ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC)
        guard opened >= 0 else { throw Input.failure(name) }
        if !isStandard, lseek(opened, 0, SEEK_CUR) >= 0 {
            descriptor = opened
            return
        }
        defer { if !isStandard { close(opened) } }
        let memory = larder_memfd_create("larder-image")
        descriptor = memory
        guard memory >= 0 else { throw Input.failure(name) }
        var chunk = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(opened, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Input.failure(name) }
            if count == 0 { return }
            var written = 0
            while written < count {
                let more = chunk[written..<count].withUnsafeBytes { write(memory, $0.baseAddress, $0.count) }
                if more < 0, errno != EINTR { throw Input.failure(name) }
                written += max(0, more)
            }
        }
    }

    deinit { if descriptor >= 0 { close(descriptor) } }
}
