import Glibc
import LarderServer
import LarderProtocol
import Logging
import Testing

@testable import LarderSettings

@Suite("Access settings")
struct AccessSettingsTests {
    private let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    private func rules(_ text: String) throws -> AccessRules {
        try settings(text).accessRules(isForHost: true, logger: logger)
    }

    @Test("the rights of users, groups and all other users are read, for the agent and for single namespaces")
    func everything() throws {
        let settings = try settings(
            """
            {
              access: {
                users: { alice: ["read", "write"], "1000": ["read"] },
                groups: { larder: ["read", "images"], "7": ["administer", "push", "secrets"] }, others: ["images"],
              },
              namespaces: { shop: { access: { groups: { shop: ["read", "write", "push", "secrets"] } } }, web: {} },
            }
            """)
        let access = try #require(settings.access)
        #expect(access.users == [.name("alice"): [.read, .write], .number(1000): [.read]])
        #expect(
            access.groups == [.name("larder"): [.read, .images], .number(7): [.administer, .push, .secrets]])
        #expect(access.others == [.images])
        #expect(settings.namespaceAccess["shop"]?.groups == [.name("shop"): [.read, .write, .push, .secrets]])
        #expect(settings.namespaceAccess["web"] == nil)
    }

    @Test("only rights that the access settings list are granted")
    func absence() throws {
        #expect(try settings("{}").access == nil)
        #expect(try settings("{access: null}").access == nil)
        #expect(try settings("{access: {}}").access == AccessSettings())
        #expect(try rules("{access: {}}") == AccessRules())
        let own = try rules("{access: {others: []}, namespaces: {a: {access: {users: null}}}}")
        #expect(own.namespaces == ["a": AccessRules.Grants()] && own.general == AccessRules.Grants())
    }

    @Test("account names are looked up, and rights given by name and by number are combined")
    func numbers() throws {
        let found = try rules(
            "{access: {users: {root: ['read'], '0': ['write']}, groups: {root: ['push'], '4': ['read']}}}")
        #expect(found.general.users == [0: Rights([.read, .write])])
        #expect(found.general.groups == [0: Rights([.push]), 4: Rights([.read])])
        #expect(try rules("{access: {users: {'no-such-user': ['read']}}}") == AccessRules())
    }

    @Test("an account lookup enlarges its buffer as needed, and distinguishes errors from missing accounts")
    func lookUp() {
        func answer(needing room: Int) -> AccountNumbers.Answer {
            AccountNumbers.withRoom { buffer, number in
                guard buffer.count >= room else { return ERANGE }
                number = 7
                return 0
            }
        }
        for room in [1, 100_000, 1 << 24] { #expect(answer(needing: room) == (7, nil)) }
        #expect(answer(needing: 1 << 24 + 1) == (nil, ERANGE))
        #expect(AccountNumbers.withRoom { _, _ in 0 } == (nil, nil))
        #expect(AccountNumbers.withRoom { _, _ in ENOENT } == (nil, nil))
        #expect(AccountNumbers.withRoom { _, _ in EMFILE } == (nil, EMFILE))
        #expect(AccountNumbers.group("root") == (0, nil))
        #expect(AccountNumbers.group("no-such-group") == (nil, nil))
    }

    @Test(
        "an invalid right or account, or a right that does not apply to namespaces, is reported with a hint",
        arguments: [
            ("{access: {others: ['raed']}}", "access.others[0]", "did you mean \"read\"?"),
            ("{access: {users: {alice: ['read', 'administor']}}}", "access.users.alice[1]", "\"administer\"?"),
            ("{access: {groups: {a: 'read'}}}", "access.groups.a", "must be an array of rights"),
            ("{access: {others: [1]}}", "access.others[0]", "must be a right, not 1"),
            ("{access: {users: ['alice']}}", "access.users", "must be an object"),
            ("{access: {users: {'a b': ['read']}}}", "access.users[\"a b\"]", "not a valid account name"),
            ("{access: {users: {'4294967295': ['read']}}}", "access.users.4294967295", "not a valid account number"),
            ("{access: {user: {}}}", "access.user", "did you mean \"users\"?"),
            (
                "{namespaces: {a: {access: {others: ['images']}}}}", "namespaces.a.access.others[0]",
                "known here: read, write, push, secrets"
            ),
            (
                "{namespaces: {a: {access: {users: {b: ['administer']}}}}}", "namespaces.a.access.users.b[0]",
                "for the whole agent"
            ),
            ("{namespaces: {a: {access: {others: ['wirte']}}}}", "namespaces.a.access.others[0]", "\"write\"?"),
        ])
    func errors(_ text: String, _ member: String, _ hint: String) throws {
        let error = try #require(throws: SettingsError.self) { try settings(text) }
        #expect(error.member == member)
        #expect(error.reason.contains(hint) && error.line == 1, "\(error)")
    }

    @Test("two accounts whose names differ only in Unicode normalization are two accounts")
    func normalization() throws {
        let access = try #require(
            try settings("{access: {users: {'caf\u{e9}': ['read'], 'cafe\u{301}': ['administer']}}}").access)
        #expect(access.users[.name("caf\u{e9}")] == [.read])
        #expect(access.users[.name("cafe\u{301}")] == [.administer])
    }
}
