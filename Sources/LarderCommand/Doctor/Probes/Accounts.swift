import Glibc

/// Looks up users and groups in the host's databases (getpwuid_r(3), getgrgid_r(3), getgrouplist(3)).
enum Accounts {
    private static let bufferSize = 1 << 16

    /// The name of a user; `user NUMBER` if the host has no name for the ID.
    static func name(ofUser id: uid_t) -> String { knownName(ofUser: id) ?? "user \(id)" }

    /// The name of a user; nil if the host has no name for the ID.
    static func knownName(ofUser id: uid_t) -> String? {
        var (record, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
        var buffer = [CChar](repeating: 0, count: bufferSize)
        guard getpwuid_r(id, &record, &buffer, buffer.count, &found) == 0, let name = found?.pointee.pw_name else {
            return nil
        }
        return String(cString: name)
    }

    /// The name of a group; `group NUMBER` if the host has no name for the ID.
    static func name(ofGroup id: gid_t) -> String { knownName(ofGroup: id) ?? "group \(id)" }

    /// The name of a group; nil if the host has no name for the ID.
    static func knownName(ofGroup id: gid_t) -> String? {
        var (record, found) = (Self.noGroup, UnsafeMutablePointer<group>?.none)
        var buffer = [CChar](repeating: 0, count: bufferSize)
        guard getgrgid_r(id, &record, &buffer, buffer.count, &found) == 0, let name = found?.pointee.gr_name else {
            return nil
        }
        return String(cString: name)
    }

    /// The groups of a user in the host's databases. A process of the user gets them only at the next login.
    static func groups(ofUser name: String, primary: gid_t) -> Set<gid_t> {
        var count: Int32 = 4096
        var groups = [gid_t](repeating: 0, count: Int(count))
        guard getgrouplist(name, primary, &groups, &count) >= 0 else { return [primary] }
        return Set(groups.prefix(Int(count)))
    }

    static var ownGroups: Set<gid_t> {
        var groups = [gid_t](repeating: 0, count: 65_536)
        let count = getgroups(Int32(groups.count), &groups)
        return Set(groups.prefix(max(0, Int(count)))).union([getegid()])
    }

    private static var noGroup: group { group() }
}
