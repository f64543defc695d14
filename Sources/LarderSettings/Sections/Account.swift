import Glibc
internal import Logging

/// A user or a group, as the settings name it.
package enum Account: Sendable, Hashable {
    /// By its name.
    case name(String)
    /// By its number.
    case number(Int)

    /// Whether a number can be an account's: 2^32 - 1 stands for none at all (chown(2)).
    static func isNumber(_ number: Int) -> Bool { (0..<Int(UInt32.max)).contains(number) }

    /// Whether a text can be an account's name.
    static func isName(_ text: String) -> Bool {
        !text.isEmpty && !text.utf8.contains { $0 <= 0x20 || $0 == 0x3a }
    }
}

/// Finds the numbers of accounts, one at a time: at the start and when the settings are read again. One that this host does
/// not know is nobody's, and logged: it may be one that was removed.
struct AccountNumbers {
    enum Kind {
        case user
        case group
    }

    let kind: Kind
    /// Where the accounts stand in the settings.
    let setting: String
    let logger: Logger

    /// The account's number; nil where this host does not know its name.
    func number(of account: Account) -> UInt32? {
        switch account {
        case .number(let number): return UInt32(number)
        case .name(let name):
            let (number, failure) = kind == .user ? Self.user(name) : Self.group(name)
            if let number { return number }
            var metadata: Logger.Metadata = ["setting": "\(setting)", "name": "\(name)"]
            if let failure {
                metadata["error"] = "\(String(cString: strerror(failure)))"
                logger.warning(
                    """
                    an account that the settings name could not be looked up; nobody is let in by it until the settings are \
                    read again
                    """, metadata: metadata)
            } else {
                logger.warning(
                    "the settings name an account that this host does not have; nobody is let in by it",
                    metadata: metadata)
            }
            return nil
        }
    }

    /// An account's number, or the `errno` that kept it from being found; neither where there is none of that name.
    typealias Answer = (number: UInt32?, failure: CInt?)

    /// getpwnam(3)
    private static func user(_ name: String) -> Answer {
        withRoom { buffer, number in
            var record = passwd()
            var found: UnsafeMutablePointer<passwd>?
            let error = getpwnam_r(name, &record, &buffer, buffer.count, &found)
            number = found?.pointee.pw_uid
            return error
        }
    }

    /// getgrnam(3)
    static func group(_ name: String) -> Answer {
        withRoom { buffer, number in
            var record = Glibc.group()
            var found: UnsafeMutablePointer<Glibc.group>?
            let error = getgrnam_r(name, &record, &buffer, buffer.count, &found)
            number = found?.pointee.gr_gid
            return error
        }
    }

    /// The maximum size of the buffer, more than the members of any group need.
    private static let maxBufferSize = 1 << 24

    /// Looks an account up with ever more room for what is known of it: a group's members may be thousands.
    /// - Parameter lookUp: getgrnam_r(3) or its like; `ERANGE` asks for more room.
    static func withRoom(_ lookUp: (inout [CChar], inout UInt32?) -> CInt) -> Answer {
        var room = 1 << 14
        while true {
            var number: UInt32?
            var buffer = [CChar](repeating: 0, count: room)
            let error = lookUp(&buffer, &number)
            switch error {
            case 0: return (number, nil)
            // So say those sources of accounts that have none of that name (getgrnam(3), ERRORS).
            case ENOENT, ESRCH, EBADF, EPERM: return (nil, nil)
            case EINTR: continue
            case ERANGE where room < maxBufferSize: room *= 4
            default: return (nil, error)
            }
        }
    }
}
