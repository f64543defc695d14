import LarderEncoding
import Glibc
import LarderJSON5
package import LarderProtocol
package import LarderServer
package import Logging

/// `access` and `namespaces.NAME.access`: the rights of users. Root and the agent's own user have every right.
package struct AccessSettings: Sendable, Equatable {
    /// `users`: the rights of individual users. Default: none.
    package var users: [Account: Set<Right>] = [:]
    /// `groups`: the rights of the members of groups. Default: none.
    package var groups: [Account: Set<Right>] = [:]
    /// `others`: the rights of every user who can connect. Default: none.
    package var others: Set<Right> = []

    /// Creates settings that grant no rights to any account.
    package init() {}
}

extension Settings {
    /// The group that has the rights `read` and `images` if the settings have no `access`.
    private static let defaultGroup = "larder"

    /// Converts the access settings to rules. Names of accounts become IDs.
    ///
    /// An account that does not exist on this host is logged and ignored.
    ///
    /// - Parameter isForHost: whether the agent serves the whole host. Only then is it logged as a warning if the
    ///   default group does not exist; the agent of a single user needs no group.
    package func accessRules(isForHost: Bool, logger: Logger) -> AccessRules {
        var rules = AccessRules()
        if let access {
            rules.general = access.grants(at: SettingsPath.root.appending("access"), logger)
        } else {
            let (group, failure) = AccountNumbers.group(Self.defaultGroup)
            if let group {
                rules.general.groups[group] = Rights([.read, .images])
            } else if let failure {
                logger.warning(
                    """
                    cannot look up the group \(Self.defaultGroup); its members have no access until the settings are \
                    reloaded
                    """,
                    metadata: ["error": "\(String(cString: strerror(failure)))"])
            } else if isForHost {
                logger.warning(
                    """
                    only root and the agent's user have access: the settings have no "access", and there is no group \
                    \(Self.defaultGroup); run addgroup --system \(Self.defaultGroup) and reload, or set "access"; \
                    without systemd, also set socket.group and restart, because otherwise only root can connect
                    """)
            }
        }
        for (name, access) in namespaceAccess.sorted(by: { $0.key < $1.key }) {
            let path = SettingsPath.root.appending("namespaces").appending(name).appending("access")
            rules.namespaces[name] = access.grants(at: path, logger)
        }
        return rules
    }
}

extension AccessSettings {
    /// Reads the access settings of the whole agent.
    init(_ value: SettingsValue, _ path: SettingsPath) throws(SettingsError) {
        try self.init(value, path, rights: .all)
    }

    static func ofNamespaces(
        _ value: SettingsValue, _ path: SettingsPath
    ) throws(SettingsError) -> [String: AccessSettings] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var all: [String: AccessSettings] = [:]
        for name in reader.names {
            all[name] =
                try reader.section(name) { (value, path) throws(SettingsError) in
                    try SettingsReader(value, at: path, knowing: nil).section("access") {
                        (value, path) throws(SettingsError) in
                        try AccessSettings(value, path, rights: .ofNamespaces)
                    }
                } ?? nil
        }
        return all
    }

    /// - Parameter rights: the rights that these settings may grant
    private init(_ value: SettingsValue, _ path: SettingsPath, rights known: Rights) throws(SettingsError) {
        let reader = try SettingsReader(value, at: path, knowing: ["users", "groups", "others"])
        let accounts = { (value: SettingsValue, path: SettingsPath) throws(SettingsError) in
            try Self.accounts(value, path, known)
        }
        users = try reader.section("users", accounts) ?? users
        groups = try reader.section("groups", accounts) ?? groups
        others = try reader.rights("others", known) ?? others
    }

    private static func accounts(
        _ value: SettingsValue, _ path: SettingsPath, _ known: Rights
    ) throws(SettingsError) -> [Account: Set<Right>] {
        let reader = try SettingsReader(value, at: path, knowing: nil)
        var accounts: [Account: Set<Right>] = [:]
        for name in reader.names {
            let account: Account
            if name.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), !name.isEmpty {
                guard let number = Int(name), Account.isNumber(number) else {
                    throw reader.failure(name, "is not a valid account number; use 0 to 4294967294")
                }
                account = .number(number)
            } else {
                guard Account.isName(name) else {
                    throw reader.failure(name, "is not a valid account name; use a name such as \"alice\", or a number")
                }
                account = .name(name)
            }
            accounts[account, default: []].formUnion(try reader.rights(name, known) ?? [])
        }
        return accounts
    }

    fileprivate func grants(at path: SettingsPath, _ logger: Logger) -> AccessRules.Grants {
        func byNumber(
            _ accounts: [Account: Set<Right>], _ kind: AccountNumbers.Kind, _ name: String
        ) -> [UInt32: Rights] {
            let numbers = AccountNumbers(kind: kind, setting: "\(path.appending(name))", logger: logger)
            var rights: [UInt32: Rights] = [:]
            for (account, own) in accounts {
                guard let number = numbers.number(of: account) else { continue }
                rights[number, default: []].formUnion(Rights(own))
            }
            return rights
        }
        return AccessRules.Grants(
            users: byNumber(users, .user, "users"), groups: byNumber(groups, .group, "groups"), others: Rights(others))
    }
}

extension SettingsReader {
    /// Reads a list of rights.
    /// - Parameter known: the rights that the list may contain
    fileprivate func rights(_ name: String, _ known: Rights) throws(SettingsError) -> Set<Right>? {
        guard let value = value(name) else { return nil }
        let names = known.list.map(\.rawValue)
        guard case .array(let elements) = value.content else {
            throw failure(
                name, "must be an array of rights, not \(value.shown); known here: \(names.joined(separator: ", "))")
        }
        var rights: Set<Right> = []
        for (index, element) in elements.enumerated() {
            guard case .string(let text) = element.content else {
                throw failure(name, at: index, element, "must be a right, not \(element.shown)")
            }
            guard let right = Right(rawValue: text) else {
                throw failure(
                    name, at: index, element,
                    "is \(element.shown), which is not a right; \(NearestName.advice(for: text, among: names))")
            }
            guard known.contains(right) else {
                throw failure(
                    name, at: index, element,
                    "is \(element.shown), a right for the whole agent; grant it with the top-level \"access\"; known here: "
                        + names.joined(separator: ", "))
            }
            rights.insert(right)
        }
        return rights
    }
}
