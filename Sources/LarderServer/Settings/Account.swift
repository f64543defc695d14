internal import Glibc
internal import Logging

/// A user or a group, as the settings name it.
public enum Account: Sendable, Hashable {
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
            if let number = kind == .user ? Self.user(name) : Self.group(name) { return number }
            logger.warning(
                "the settings name an account that this host does not have; nobody is let in by it",
                metadata: ["setting": "\(setting)", "name": "\(name)"])
            return nil
        }
    }

    /// getpwnam(3)
    private static func user(_ name: String) -> UInt32? {
        var (record, buffer) = (passwd(), [CChar](repeating: 0, count: 1 << 16))
        var found: UnsafeMutablePointer<passwd>?
        guard getpwnam_r(name, &record, &buffer, buffer.count, &found) == 0, let found else { return nil }
        return found.pointee.pw_uid
    }

    /// getgrnam(3)
    static func group(_ name: String) -> UInt32? {
        var (record, buffer) = (Glibc.group(), [CChar](repeating: 0, count: 1 << 16))
        var found: UnsafeMutablePointer<Glibc.group>?
        guard getgrnam_r(name, &record, &buffer, buffer.count, &found) == 0, let found else { return nil }
        return found.pointee.gr_gid
    }
}
