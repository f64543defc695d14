import Glibc
import LarderPlatform

/// Which descriptors a process has open: what survives execve(2) unless each says otherwise.
///
/// The connection to the agent and what its library waits with do not say so. What is started from here gets what this
/// program was started with, such as a file that a shell opened for it, and nothing of this program's own.
struct OpenDescriptors {
    // No set: every start makes one of these, and the first set of a kind costs the runtime a search through all that is
    // linked in, for what its elements conform to.
    private let numbers: [CInt]

    /// What this process was started with, if ``Entry`` asked first.
    static let inherited = OpenDescriptors()

    private init() { numbers = Self.current() }

    /// Has all others closed by execve(2).
    func closeOthersOnExec() {
        for number in Self.current() where !numbers.contains(number) {
            let flags = fcntl(number, F_GETFD)
            // It may have been closed meanwhile, by another thread.
            if flags >= 0 { _ = fcntl(number, F_SETFD, flags | FD_CLOEXEC) }
        }
    }

    /// The descriptors that proc(5) lists; the standard streams if there is no `/proc`.
    private static func current() -> [CInt] {
        let directory = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0, let names = try? DirectoryListing.names(closing: directory) else { return [0, 1, 2] }
        return names.compactMap { CInt(String(decoding: $0, as: UTF8.self)) }.filter { $0 != directory }
    }
}
