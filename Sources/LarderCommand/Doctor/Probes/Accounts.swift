import Glibc
import LarderClientCore

/// Looks up users and groups in the host's databases (getgrouplist(3), ``AccountName``).
enum Accounts {
    /// The name of a user; `user NUMBER` if the host has no name for the ID.
    static func name(ofUser id: uid_t) -> String { AccountName.ofUser(id) ?? "user \(id)" }

    /// The name of a group; `group NUMBER` if the host has no name for the ID.
    static func name(ofGroup id: gid_t) -> String { AccountName.ofGroup(id) ?? "group \(id)" }

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
}
