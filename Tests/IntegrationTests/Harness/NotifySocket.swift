import Glibc
import TestSupport

/// The service manager's side of sd_notify(3): a datagram socket that receives the state of a process.
final class NotifySocket {
    let path: String
    private let descriptor: Descriptor

    init(path: String) throws {
        self.path = path
        unlink(path)
        let descriptor = try Descriptor.socket(AF_UNIX, SOCK_DGRAM)
        self.descriptor = descriptor
        let result = try withUnixAddress(path) { bind(descriptor.number, $0, $1) }
        guard result == 0 else { throw HarnessError.system("bind \(path)") }
    }

    /// Waits for a message that contains this line, such as `READY=1`. Throws if the process ends first.
    func wait(for line: String, until deadline: Deadline = .usual, orUntilEndOf process: ChildProcess) throws {
        while true {
            if let message = receive(), message.split(separator: "\n").contains(where: { $0 == line }) { return }
            if process.readLog(), let end = process.pollEnd() {
                throw HarnessError("the process ended (\(end)) before it sent \(line); its log:\n\(process.logText)")
            }
            try process.waitForLogOutput(or: descriptor.number, until: deadline, "\(line) from process \(process.pid)")
        }
    }

    /// Sends messages to this socket until it accepts no more, as if the service manager had stopped reading.
    func fill() throws {
        let sender = try Descriptor.socket(AF_UNIX, SOCK_DGRAM)
        try withUnixAddress(path) { address, length in
            while sendto(sender.number, "x", 1, CInt(MSG_DONTWAIT), address, length) == 1 {}
        }
    }

    private func receive() -> String? {
        let bytes = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
            count = max(0, recv(descriptor.number, buffer.baseAddress, buffer.count, CInt(MSG_DONTWAIT)))
        }
        return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
    }
}
