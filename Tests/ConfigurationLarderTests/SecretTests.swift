import Configuration
import Testing

@testable import ConfigurationLarder

@Suite("Secrets")
struct SecretTests {
    private static let document = #"""
        {"db":{"password":"p","port":1,"a.b":"q"},"api":{"token":"t","x":{"token":"u"}},"keys":["k"],"list":["l"]}
        """#

    private func isSecret(
        _ components: [String], _ patterns: [String]?, _ specifier: LarderProvider.Secrets = .none,
        type: ConfigType = .string
    ) throws -> Bool? {
        try snapshot(Self.document, secretPaths: patterns, specifier: specifier)
            .value(forKey: AbsoluteConfigKey(components), type: type).value?.isSecret
    }

    @Test(
        "a value is secret if a pattern matches its path or an ancestor",
        arguments: [
            (["db.password"], ["db", "password"], true), (["db.password"], ["db", "a.b"], false),
            (["db"], ["db", "password"], true), (["db.*"], ["db", "a.b"], true), (["/db/a.b"], ["db", "a.b"], true),
            (["db.a.b"], ["db", "a.b"], false), (["*.token"], ["api", "token"], true),
            (["*.token"], ["api", "x", "token"], false), (["**.token"], ["api", "x", "token"], true),
            (["**.token"], ["api", "token"], true), (["**"], ["api", "token"], true),
            (["api.**.token"], ["api", "token"], true), (["api.x.token.y"], ["api", "x", "token"], false),
            (["nothing", "*.password"], ["db", "password"], true), ([], ["db", "password"], false),
        ] as [([String], [String], Bool)])
    func patterns(patterns: [String], components: [String], expected: Bool) throws {
        #expect(try isSecret(components, patterns) == expected)
    }

    @Test("an array is secret if a pattern matches one of its elements")
    func elements() throws {
        for pattern in ["keys", "keys.*", "keys.0", "keys.**", "**.0"] {
            #expect(try isSecret(["keys"], [pattern], type: .stringArray) == true)
            #expect(try isSecret(["keys", "0"], [pattern]) == true)
        }
        for pattern in ["keys.*.x", "keys.name", "**.token"] {
            #expect(try isSecret(["keys"], [pattern], type: .stringArray) == false)
        }
    }

    @Test("the specifier selects secrets in addition to the patterns, by the key without its context")
    func specifier() throws {
        #expect(try isSecret(["list"], [], .specific(["list"]), type: .stringArray) == true)
        #expect(try isSecret(["list"], [], .all, type: .stringArray) == true)
        #expect(try isSecret(["db", "port"], ["db.port"], .specific(["list"]), type: .int) == true)
        let texts = LarderProvider.Secrets.dynamic { key, content in
            key.context.isEmpty && content == .string("t")
        }
        #expect(try isSecret(["api", "token"], [], texts) == true)
        #expect(try isSecret(["api", "x", "token"], [], texts) == false)
    }

    @Test("all values are secret while the patterns are unknown")
    func unknown() throws {
        #expect(try isSecret(["db", "port"], nil, type: .int) == true)
        #expect(try isSecret(["list"], nil, type: .stringArray) == true)
    }
}
