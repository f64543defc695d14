import Glibc

/// The user of the packaged service. While this value is in effect, files are opened with the rights of that user, and not
/// with those of root.
struct ServiceUser {
    private static let name = "larder"
    private let rootGroup: gid_t
    private let rootGroups: [gid_t]

    /// Takes effect.
    /// - Returns: nil if root does not run this process, or if the host has no such user
    static func assume() -> ServiceUser? {
        guard geteuid() == 0, let record = getpwnam(name), record.pointee.pw_uid != 0 else { return nil }
        let (user, group) = (record.pointee.pw_uid, record.pointee.pw_gid)
        var groups = [gid_t](repeating: 0, count: Int(max(0, getgroups(0, nil))))
        guard getgroups(CInt(groups.count), &groups) == groups.count else { return nil }
        let root = ServiceUser(rootGroup: getegid(), rootGroups: groups)
        guard initgroups(name, group) == 0, setegid(group) == 0, seteuid(user) == 0 else {
            root.resign()
            return nil
        }
        return root
    }

    /// Restores the rights of root.
    func resign() {
        // The saved user ID is still 0, so these calls cannot fail.
        guard seteuid(0) == 0, setegid(rootGroup) == 0, setgroups(rootGroups.count, rootGroups) == 0 else {
            fatalError("cannot restore the rights of root: \(String(cString: strerror(errno)))")
        }
    }

    /// Whether the user of this process may read a file.
    static func mayRead(_ path: String) -> Bool { faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0 }
}
