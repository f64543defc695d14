import Glibc
import LarderClientCore
import LarderPlatform

/// The directory of an agent's state and images. It is removed, with its contents, when this object is released.
final class AgentDirectory: Sendable {
    let path: String

    var state: String { path + "/state" }
    var images: String { path + "/images" }

    /// Creates a directory in memory if possible, otherwise among the temporary files.
    init() throws(LarderClientError) {
        let runtime = getenv("XDG_RUNTIME_DIR").map { String(cString: $0) } ?? ""
        let temporary = getenv("TMPDIR").map { String(cString: $0) } ?? ""
        for parent in ["/dev/shm", runtime, temporary, "/tmp"] where parent.hasPrefix("/") {
            var template = Array("\(parent)/larder-test-XXXXXX".utf8CString)
            if mkdtemp(&template) != nil {
                path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
                return
            }
        }
        throw LarderClientError(
            .unreachable, "cannot create a directory in /tmp: \(String(cString: strerror(errno)))",
            advice: "set TMPDIR to a directory that the test can write to", systemError: errno)
    }

    deinit { try? removeTree(path) }
}
