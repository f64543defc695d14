import Glibc
import LarderPlatform

/// The open descriptors of this process that survive execve(2) unless they are close-on-exec.
///
/// The network library opens descriptors that are not close-on-exec, such as that of the connection to the agent. A
/// started program must inherit only the descriptors with which this process was started, such as a file that a shell
/// opened for it.
struct OpenDescriptors {
    // An array, because this value is created at every start, and the first use of a `Set` makes the runtime search all
    // linked code for protocol conformances.
    private let numbers: [CInt]

    /// The descriptors with which this process was started. ``CommandEntry`` must access this before any other code
    /// opens a descriptor.
    static let inherited = OpenDescriptors()

    private init() { numbers = Self.current() }

    /// Makes all open descriptors close-on-exec, except those in this list.
    func closeOthersOnExec() {
        for number in Self.current() where !numbers.contains(number) {
            let flags = fcntl(number, F_GETFD)
            // fcntl(2) fails if another thread has closed the descriptor since it was listed.
            if flags >= 0 { _ = fcntl(number, F_SETFD, flags | FD_CLOEXEC) }
        }
    }

    /// The descriptors that are open now, from `/proc/self/fd`; the standard streams if `/proc` is not available.
    private static func current() -> [CInt] {
        let directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0, let names = try? DirectoryListing.names(closing: directory) else { return [0, 1, 2] }
        return names.compactMap { CInt(String(decoding: $0, as: UTF8.self)) }.filter { $0 != directory }
    }
}
