import ArgumentParser
import CLinuxShims
import Glibc
import LarderPlatform
import SystemPackage

/// The owner, mode and extended attributes of a file, for the new file that replaces it.
struct FileMetadata {
    /// The user; nil for the user that a new file gets.
    var user: uid_t?
    /// The group; nil for the group that a new file gets.
    var group: gid_t?
    /// The permission bits. Of a file with an access control list, the bits of the group are the mask of the list.
    var mode: mode_t
    /// Nil for the attributes that a new file gets.
    private var attributes: [Attribute]?

    private struct Attribute {
        /// The bytes of the name, with a null at the end.
        let name: [CChar]
        let value: [UInt8]

        var text: String { String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self) }
    }

    /// A new file may inherit these attributes from its directory. They grant rights, so they are removed from the new
    /// file if the replaced file does not have them.
    private static let accessLists = ["system.posix_acl_access", "system.nfs4_acl"].map { Array($0.utf8CString) }
    /// The SELinux label. The attributes `security.ima` and `security.evm` are not kept, because they are digests of
    /// the replaced file.
    private static let label = Array("security.selinux".utf8CString)
    private static let userPrefix = "user.".utf8.map { CChar(bitPattern: $0) }

    /// The metadata of a new file.
    init(mode: mode_t) { self.mode = mode }

    /// Reads the metadata of a file.
    /// - Parameter status: the status of the file.
    /// - Throws: ``Failure`` if an attribute cannot be read, because the new file would lose it.
    init(of path: String, _ status: stat) throws(Failure) {
        (user, group, mode) = (status.st_uid, status.st_gid, status.st_mode & 0o7777)
        var attributes: [Attribute] = []
        do throws(Errno) {
            let names: [CChar] = try Self.bytes { larder_attribute_names(path, $0, $1) } ?? []
            let userNames = names.split(separator: 0).filter { $0.starts(with: Self.userPrefix) }
            // The access control lists come last, because they may take away the right to set the other attributes.
            let kept = userNames.map { Array($0) + [0] } + [Self.label] + Self.accessLists
            for name in kept {
                let value: [UInt8]? = try Self.bytes { larder_attribute(path, name, $0, $1) }
                if let value { attributes.append(Attribute(name: name, value: value)) }
            }
        } catch {
            throw Failure(
                .failure,
                "cannot read the attributes of \(path.printable), which the new file must keep: \(error); run larder as "
                    + "the owner of the file, or remove the file first")
        }
        self.attributes = attributes
    }

    /// Gives the metadata to a new file that only this process's user can access so far.
    /// - Parameters:
    ///   - path: the path of the replaced file, for errors.
    ///   - ownerRemedy: what the user can do if the owner cannot be set, other than to run larder as root.
    /// - Throws: ``Failure`` if the new file cannot get all metadata. The caller must not put it in place, because other
    ///   users might then have more rights than before.
    func apply(
        to descriptor: CInt, named path: String, ownerRemedy: String = "remove the file first"
    ) throws(Failure) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.failure("owner", path) }
        // The owner is set first, because its change clears bits of the mode.
        let (user, group) = (user ?? status.st_uid, group ?? status.st_gid)
        if (user, group) != (status.st_uid, status.st_gid), fchown(descriptor, user, group) != 0 {
            throw Self.failure("owner", path, ownerRemedy)
        }
        if let attributes {
            // The mode of the new file has no rights for its group, so the inherited list has not granted any yet.
            for list in Self.accessLists where !attributes.contains(where: { $0.name == list }) {
                guard larder_remove_attribute(descriptor, list) == 0 || Self.isAbsence(errno) else {
                    throw Self.failure("access control list", path)
                }
            }
            for attribute in attributes {
                let (name, value) = (attribute.name, attribute.value)
                // An attribute such as the label may have this value already, and this process may not set it.
                let current: [UInt8]? = try? Self.bytes { larder_open_attribute(descriptor, name, $0, $1) }
                if current == value { continue }
                guard larder_set_attribute(descriptor, name, value, value.count) == 0 else {
                    throw Self.failure("attribute \(attribute.text.printable)", path)
                }
            }
        }
        // The mode is set last. Before the list is in place, the bits of the group would be rights of the group.
        guard fstat(descriptor, &status) == 0, status.st_mode & 0o7777 == mode || fchmod(descriptor, mode) == 0 else {
            throw Self.failure("mode", path)
        }
    }

    /// Calls `read` with a buffer of sufficient size.
    /// - Returns: nil if there is no such attribute, or if the file system does not support attributes.
    private static func bytes<Element: ExpressibleByIntegerLiteral>(
        _ read: (UnsafeMutablePointer<Element>?, Int) -> Int
    ) throws(Errno) -> [Element]? {
        while true {
            var count = read(nil, 0)
            var bytes = [Element](repeating: 0, count: max(count, 0))
            if count > 0 { count = read(&bytes, count) }
            if count >= 0 { return Array(bytes.prefix(count)) }
            if isAbsence(errno) { return nil }
            // With ERANGE, the attribute has become longer since the first call.
            if errno != ERANGE { throw .current }
        }
    }

    private static func isAbsence(_ code: CInt) -> Bool { [ENODATA, ENOTSUP, ENOSYS].contains(code) }

    private static func failure(_ part: String, _ path: String, _ remedy: String = "remove the file first") -> Failure {
        Failure(
            .failure,
            "cannot set the \(part) of \(path.printable): \(String(cString: strerror(errno))); run larder as root, or "
                + remedy)
    }
}

extension Failure {
    /// The failure to replace a file.
    /// - Parameter code: the `errno` of rename(2).
    static func cannotReplace(_ path: String, _ code: CInt) -> Failure {
        let text = "cannot replace \(path.printable): \(String(cString: strerror(code)))"
        guard code == EBUSY else { return Failure(.failure, text) }
        return Failure(
            .failure,
            "\(text); the file is a mount point, such as a single file that is mounted into a container; mount its "
                + "directory instead, or write to a directory that is mounted")
    }
}

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
