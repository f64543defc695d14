import Glibc
internal import LarderEncoding
internal import LarderJSON
internal import Logging

/// A user or group in the settings.
package enum Account: Sendable, Hashable {
    case name(String)
    case number(Int)

    package static func == (left: Account, right: Account) -> Bool {
        switch (left, right) {
        case (.name(let left), .name(let right)): left.isSpelled(as: right)
        case (.number(let left), .number(let right)): left == right
        default: false
        }
    }

    package func hash(into hasher: inout Hasher) {
        switch self {
        case .name(let name): name.hashBytes(into: &hasher)
        case .number(let number): hasher.combine(number)
        }
    }

    /// Whether a number is a valid user or group ID. 2^32 - 1 means "no ID" (chown(2)).
    static func isNumber(_ number: Int) -> Bool { (0..<Int(UInt32.max)).contains(number) }

    /// Whether a text can be the name of a user or group: it is not empty, and contains no colon, no space and no
    /// control character below U+0020.
    static func isName(_ text: String) -> Bool {
        !text.isEmpty && !text.utf8.contains { $0 <= 0x20 || $0 == 0x3a }
    }
}

/// Looks up the IDs of accounts, at the start of the agent and on each reload. An account that does not exist on this
/// host is logged and ignored, because it may have been deleted after the settings were written.
struct AccountNumbers {
    enum Kind: String {
        case user
        case group
    }

    let kind: Kind
    /// The path of the setting that lists the accounts, for the log.
    let setting: String
    let logger: Logger

    /// Returns the ID of an account; nil if it does not exist on this host or the lookup failed.
    func number(of account: Account) -> UInt32? {
        switch account {
        case .number(let number): return UInt32(number)
        case .name(let name):
            let (number, failure) = kind == .user ? Self.user(name) : Self.group(name)
            if let number { return number }
            var metadata: Logger.Metadata = ["setting": "\(setting)", "name": "\(name)"]
            let account = "\(kind.rawValue) \"\(name.excerpt)\" of \(setting)"
            if let failure {
                metadata["error"] = "\(String(cString: strerror(failure)))"
                logger.warning(
                    "cannot look up the \(account), so it has no rights; reload the settings when the lookup works",
                    metadata: metadata)
            } else {
                logger.warning(
                    """
                    the \(account) does not exist on this host, so it has no rights; reload the settings after it has been \
                    created
                    """,
                    metadata: metadata)
            }
            return nil
        }
    }

    /// The ID of an account, or the `errno` of the failed lookup. Both are nil if the account does not exist.
    typealias Answer = (number: UInt32?, failure: CInt?)

    private static func user(_ name: String) -> Answer {
        withRoom { buffer, number in
            var record = passwd()
            var found: UnsafeMutablePointer<passwd>?
            let error = getpwnam_r(name, &record, &buffer, buffer.count, &found)
            number = found?.pointee.pw_uid
            return error
        }
    }

    static func group(_ name: String) -> Answer {
        withRoom { buffer, number in
            var record = Glibc.group()
            var found: UnsafeMutablePointer<Glibc.group>?
            let error = getgrnam_r(name, &record, &buffer, buffer.count, &found)
            number = found?.pointee.gr_gid
            return error
        }
    }

    /// The maximum size in bytes of the buffer for one lookup. It is larger than the record of any realistic group.
    private static let maxBufferSize = 1 << 24

    /// Runs a lookup, and repeats it with larger buffers until the result fits. The result for a group with thousands
    /// of members needs a large buffer.
    /// - Parameter lookUp: calls getpwnam_r(3) or getgrnam_r(3); `ERANGE` means that the buffer is too small
    static func withRoom(_ lookUp: (inout [CChar], inout UInt32?) -> CInt) -> Answer {
        var room = 1 << 14
        while true {
            var number: UInt32?
            var buffer = [CChar](repeating: 0, count: room)
            let error = lookUp(&buffer, &number)
            switch error {
            case 0: return (number, nil)
            // Some account databases return these errors if the name does not exist (getgrnam(3), ERRORS).
            case ENOENT, ESRCH, EBADF, EPERM: return (nil, nil)
            case EINTR: continue
            case ERANGE where room < maxBufferSize: room *= 4
            default: return (nil, error)
            }
        }
    }
}
