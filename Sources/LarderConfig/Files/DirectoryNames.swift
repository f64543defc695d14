import CLinuxShims
import Glibc
import LarderPlatform
internal import LarderUpstream

/// The error number of a system call that failed.
struct Errno: Error {
    let number: CInt
}

/// The names in a directory, without "." and "..", in no order. Names are bytes: they need not be UTF-8.
///
/// - Parameter directory: an open directory; it stays open and keeps its position
func directoryNames(_ directory: CInt) throws(Errno) -> [[UInt8]] {
    // A descriptor of its own: closedir(3) closes it, and duplicates would share their position.
    let own = uninterrupted { openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) }
    guard own >= 0 else { throw Errno(number: errno) }
    guard let stream = fdopendir(own) else {
        let number = errno
        close(own)
        throw Errno(number: number)
    }
    defer { closedir(stream) }
    var names: [[UInt8]] = []
    while true {
        errno = 0
        guard let entry = readdir(stream) else {
            // At the end errno is as it was (readdir(3)).
            if errno != 0 { throw Errno(number: errno) }
            return names
        }
        let name = withUnsafeBytes(of: &entry.pointee.d_name) { Array($0.prefix { $0 != 0 }) }
        if name != [0x2e] && name != [0x2e, 0x2e] { names.append(name) }
    }
}

extension [UInt8] {
    func ends(with suffix: [UInt8]) -> Bool { self.suffix(suffix.count).elementsEqual(suffix) }
}
