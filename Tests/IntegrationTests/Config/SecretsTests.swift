import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Secrets")
    struct SecretsTests {
        private static let secret = "hunter2-is-no-password"
        private static let settings = """
            { socket: { mode: '0666' }, access: { users: { "4711": ['read', 'secrets'] }, others: ['read'] },
              namespaces: { default: {
              host: { directory: '@/config.d' }, secrets: ['db.password', '*.token', 'tls.**'], locks: ['tls.pin'],
              experiments: { member: 'experiments' },
            } } }
            """

        /// Runs `body` with an agent that has secrets in several layers.
        private func withSecrets(_ body: (AgentHome, AgentProcess) throws -> Void) throws {
            try AgentHome.with(settings: Self.settings) { home in
                // The other user needs access to the socket.
                chmod(home.directory, 0o755)
                try home.makeDirectory("config.d")
                try home.write(
                    "config.d/10.json",
                    #"{"db":{"host":"h","password":"\#(Self.secret)"},"tls":{"pin":"\#(Self.secret)"}}"#)
                let agent = try home.start(logLevel: "trace")
                let document: JSONValue = [
                    "api": ["token": .string(Self.secret), "url": "u"],
                    "experiments": [
                        ["name": "arm", "percentage": 100, "values": ["cdn": ["token": .string(Self.secret)]]]
                    ],
                ]
                try agent.call("config.push", ["document": document])
                try agent.call("config.set", ["path": "tls.key", "value": ["pem": .string(Self.secret)]])
                try body(home, agent)
            }
        }

        @Test("the user that the agent runs as gets unmasked values of secrets")
        func owner() throws {
            try withSecrets { _, agent in
                let explanation = try agent.call("config.explain", ["path": "db.password"])
                #expect(explanation["value"] == .string(Self.secret))
                #expect(explanation["masked"] == nil)
                #expect(explanation["layers"]?[1]?["value"] == .string(Self.secret))
            }
        }

        @Test("a user with the right `secrets` gets unmasked values", .needsRoot)
        func right() throws {
            try withSecrets { home, agent in
                let client = try OtherUser.connect(4711, to: agent, home)
                let explanation = try client.call("config.explain", ["path": "db.password"])
                #expect(explanation["value"] == .string(Self.secret))
                #expect(explanation["masked"] == nil)
            }
        }

        @Test(
            "a user without the right `secrets` gets masked values, both in the result and for each layer", .needsRoot)
        func otherUser() throws {
            try withSecrets { _, agent in
                func call(_ method: String, _ params: JSONValue) throws -> JSONValue {
                    let line = LineClient.text(id: 1, method, params) + "\n"
                    let command = try Command.run(
                        "setpriv",
                        ["--reuid=65534", "--regid=65534", "--clear-groups", "socat"] + Socat.timeout
                            + ["-", "UNIX-CONNECT:\(agent.socket)"], input: line)
                    let recorder = Recorder()
                    recorder?.sent(line.dropLast().utf8)
                    let reply = try require(command.output.first, "a reply; socat says: \(command.log)")
                    recorder?.received(reply.utf8)
                    return try LineClient.result(of: JSONValue(parsing: reply))
                }
                #expect(try call("agent.info", [:])["peer"]?["uid"] == 65534)
                for (path, layer) in [("db.password", 1), ("api.token", 2), ("cdn.token", 3), ("tls.key.pem", 4)] {
                    let explanation = try call("config.explain", ["path": .string(path)])
                    #expect(explanation["value"] == "<masked>")
                    #expect(explanation["masked"] == true)
                    #expect(explanation["layers"]?[layer]?["value"] == "<masked>")
                    #expect(explanation["layers"]?[layer]?["masked"] == true)
                    #expect(!explanation.compactText.contains(Self.secret))
                }
                let whole = try call("config.explain", [:])
                #expect(
                    whole["value"] == [
                        "db": ["host": "h", "password": "<masked>"], "tls": "<masked>",
                        "api": ["token": "<masked>", "url": "u"], "cdn": ["token": "<masked>"],
                    ])
                #expect(!whole.compactText.contains(Self.secret))
                let plain = try call("config.explain", ["path": "db.host"])
                #expect(plain["value"] == "h" && plain["masked"] == nil)
                // config.get, which programs use, does not mask values.
                #expect(try call("config.get", ["path": "db.password"])["value"] == .string(Self.secret))
            }
        }

        @Test("log, status and errors do not contain secrets, even if the configuration is rejected")
        func nowhereElse() throws {
            try withSecrets { home, agent in
                let client = try agent.connect()
                let secret = JSONValue.string(Self.secret)
                var texts: [String] = []
                func refuse(_ method: String, _ params: JSONValue? = nil) throws {
                    texts.append(try client.refusal(method, params).detail)
                }
                try refuse("config.set", ["path": "tls", "value": ["pin": secret]])
                try refuse("config.set", ["path": "", "value": secret, "replaceAll": true])
                try refuse("config.push", ["document": ["experiments": [["name": "x", "values": ["token": secret]]]]])
                try refuse("config.push", ["document": ["experiments": secret]])
                try refuse("config.push", ["document": secret])
                try client.call("config.set", ["path": "list", "value": [secret]])
                try refuse("config.set", ["path": "list.0", "value": secret])
                try home.write("config.d/20.json", #"{"db":{"password":"\#(Self.secret)",}}"#)
                try refuse("config.refresh")
                // The refresh has read the file. Waits until the agent has also read it because of the file watcher.
                try agent.waitForLog("20.json")
                try home.write("config.d/20.json", #""\#(Self.secret)""#)
                try refuse("config.refresh")
                texts.append(try client.call("config.status").compactText)
                texts.append(agent.log)
                for text in texts { #expect(!text.contains(Self.secret), "\(text)") }
            }
        }
    }
}
