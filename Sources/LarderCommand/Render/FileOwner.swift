import ArgumentParser
import Glibc

/// The owner of a file on the command line: `user`, `user:group` or `:group`, as names or numbers.
struct FileOwner: ExpressibleByArgument, Equatable {
    /// The name or number of the user; nil to keep the current one.
    let user: String?
    /// The name or number of the group; nil to keep the current one.
    let group: String?

    init?(argument: String) {
        let parts = argument.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        let names = parts.map { $0.isEmpty ? nil : $0 }
        user = names[0]
        group = names.count > 1 ? names[1] : nil
        if user == nil && group == nil { return nil }
        if names.count > 1, names[1] == nil { return nil }
    }

    /// The numbers for chown(2). The maximum value, which is -1 in C, keeps the current user or group.
    /// - Throws: ``Failure`` if the system has no such user or group.
    func numbers() throws(Failure) -> (user: uid_t, group: gid_t) {
        var numbers = (user: uid_t.max, group: gid_t.max)
        if let user {
            guard let number = uid_t(user) ?? getpwnam(user)?.pointee.pw_uid else {
                throw Failure(.usage, "there is no user \"\(user.printable)\" on this host; correct --owner")
            }
            numbers.user = number
        }
        if let group {
            guard let number = gid_t(group) ?? getgrnam(group)?.pointee.gr_gid else {
                throw Failure(.usage, "there is no group \"\(group.printable)\" on this host; correct --owner")
            }
            numbers.group = number
        }
        return numbers
    }
}

/// Permission bits on the command line: three octal digits, optionally with a leading 0.
struct FileMode: ExpressibleByArgument, Equatable {
    let bits: mode_t

    init?(argument: String) {
        let digits = argument.utf8
        guard digits.count == 3 || (digits.count == 4 && argument.hasPrefix("0")),
            digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "7")).contains($0) }),
            let bits = mode_t(argument, radix: 8)
        else { return nil }
        self.bits = bits
    }
}
