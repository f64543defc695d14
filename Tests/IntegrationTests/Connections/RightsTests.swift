import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Rights of users and groups", .needsRoot)
    struct RightsTests {
        private static func settings(_ access: String, shop: String = "{ shop: { access: {} } }") -> String {
            "{ socket: { mode: '0666' }, access: \(access), namespaces: \(shop) }"
        }

        @Test("a peer has all rights granted to its user, its group, its supplementary groups or `others`")
        func accounts() throws {
            let access = """
                { users: { "4711": ["write"] }, groups: { "4712": ["push"], "4713": ["images"], "4714": ["administer"] }, \
                others: ["read"] }
                """
            try AgentHome.with(settings: Self.settings(access)) { home in
                let agent = try home.start()
                func rights(_ user: Int, _ group: Int, _ groups: [Int]) throws -> JSONValue? {
                    let client = try OtherUser.connect(user, group: group, groups: groups, to: agent, home)
                    return try client.call("agent.info")["rights"]
                }
                #expect(try rights(4711, 1, []) == ["read", "write"])
                #expect(try rights(1, 4712, []) == ["read", "push"])
                #expect(try rights(4711, 4712, [4713, 2, 4714]) == ["read", "write", "push", "administer", "images"])
                #expect(try rights(4713, 4711, []) == ["read"])
                // The rights of a group have the same effect as the rights of a user.
                let member = try OtherUser.connect(1, groups: [4713, 4714], to: agent, home)
                #expect(try member.call("image.list")["images"] == [])
                // Waits until the agent has closed the connections of the previous clients.
                try member.call("agent.clients", until: { $0["clients"]?.count == 1 })
                #expect(try member.refusal("config.set", ["a", 1]).name == "denied")
                #expect(try agent.call("agent.info")["rights"]?.count == 7)
            }
        }

        @Test("without `access` in the settings, other users have no rights, and the error names the setting")
        func defaults() throws {
            try AgentHome.with(settings: "{ socket: { mode: '0666' } }") { home in
                let agent = try home.start()
                let client = try OtherUser.connect(4711, to: agent, home)
                let info = try client.call("agent.info")
                #expect(info["rights"] == [] && info["namespaces"] == [] && info["namespaceRights"] == [:])
                let refusal = try client.refusal("config.get")
                #expect(refusal.name == "denied")
                #expect(refusal.detail.contains(#"right "read" in namespace "default""#), "\(refusal)")
                #expect(refusal.detail.contains(#"grant it with "access""#), "\(refusal)")
                #expect(try client.refusal("config.status").name == "denied")
                #expect(try client.refusal("image.get", ["http://127.0.0.1/"]).name == "denied")
                #expect(try client.call("agent.ping")["pong"] == true)
            }
        }

        @Test("a cached reply is not sent to a peer without the right to read")
        func cachedReplies() throws {
            let shop = "{ shop: { access: { users: { '4711': ['read'] } } } }"
            try AgentHome.with(settings: Self.settings("{ others: ['read'] }", shop: shop)) { home in
                let agent = try home.start()
                try agent.call("config.set", ["a", 1, "shop"])
                let (reader, other) = try (
                    OtherUser.connect(4711, to: agent, home), OtherUser.connect(4712, to: agent, home)
                )
                for _ in 0..<3 {
                    #expect(try reader.call("config.get", ["a", "shop"])["value"] == 1)
                    #expect(try other.refusal("config.get", ["a", "shop"]).name == "denied")
                    #expect(try reader.call("config.get")["value"] == [:])
                    #expect(try other.call("config.get")["value"] == [:])
                }
            }
        }

        @Test("the right `monitor` reveals the figures of all namespaces, but no values and texts of errors")
        func monitor() throws {
            let access = "{ users: { '4711': ['monitor'], '4712': ['read'] } }"
            try AgentHome.with(settings: Self.settings(access)) { home in
                let agent = try home.start()
                try agent.call("config.set", ["a", 1, "shop"])
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", #"{"password": "hunter2" x}"#)
                _ = try home.larder("refresh")
                let (monitor, reader) = try (
                    OtherUser.connect(4711, to: agent, home), OtherUser.connect(4712, to: agent, home)
                )
                func names(_ result: JSONValue) -> [String?]? {
                    result["namespaces"]?.elements.map { $0["namespace"]?.string }
                }
                #expect(names(try monitor.call("agent.metrics")) == ["default", "shop"])
                #expect(try monitor.call("agent.ping")["pong"] == true)
                #expect(try monitor.call("agent.stats")["namespaces"]?.members.map(\.0) == ["default", "shop"])
                let status = try monitor.call("config.status")
                #expect(names(status) == ["default", "shop"])
                let layers = status["namespaces"]?[0]?["layers"]
                let hidden = layers?.elements.first { $0["name"] == "host" }?["problem"]?.string
                #expect(hidden?.contains("requires the right \"read\"") == true, "\(status)")
                #expect(!status.compactText.contains("10.json:") && !status.compactText.contains("hunter2"))
                #expect(names(try monitor.call("config.status", ["shop"])) == ["shop"])
                for method in ["config.get", "config.explain", "config.history", "agent.clients", "image.list"] {
                    #expect(try monitor.refusal(method).name == "denied")
                }
                let refusal = try monitor.refusal("config.get", ["", "shop"])
                #expect(refusal.name == "denied" && !refusal.detail.contains("if that exists"))
                #expect(try monitor.refusal("config.get", ["", "none"]).name == "unknownNamespace")

                #expect(try reader.refusal("agent.metrics").name == "denied")
                #expect(names(try reader.call("config.status")) == ["default"])
                let check = try Command.run(
                    "setpriv", OtherUser.command(4712).dropFirst() + [Products.commandLine, "status", "--check"],
                    environment: home.clientEnvironment)
                #expect(check.log.contains("only for the namespaces that this user may see"), "\(check)")
                #expect(check.status == 12)
            }
        }

        @Test("a hidden text is that of the last error only if the texts are the same")
        func hiddenTexts() throws {
            // No server listens at port 1.
            let source = "{ default: { remote: { http: { url: 'http://127.0.0.1:1/a.json' } } } }"
            try AgentHome.with(settings: Self.settings("{ users: { '4711': ['monitor'] } }", shop: source)) { home in
                let agent = try home.start()
                let (owner, monitor) = try (agent.connect(), OtherUser.connect(4711, to: agent, home))
                func texts(_ status: JSONValue) -> (last: String?, layer: String?) {
                    let namespace = status["namespaces"]?[0]
                    let layer = namespace?["layers"]?.elements.first { $0["name"] == "host" }
                    return (namespace?["lastError"]?["message"]?.string, layer?["problem"]?.string)
                }
                try home.makeDirectory("config.d")
                try home.write("config.d/10.json", "{")
                _ = try owner.refusal("config.refresh")
                // A file that is reread and a source that is polled report independently.
                try owner.call(
                    "config.status",
                    until: { status in
                        let (last, layer) = texts(status)
                        return last?.contains("127.0.0.1:1") == true && layer != nil
                    })
                let (last, layer) = texts(try monitor.call("config.status"))
                #expect(last?.hasSuffix("requires the right \"read\"") == true)
                #expect(layer?.hasSuffix("requires the right \"read\"") == true)
                #expect(last != layer, "clients would leave out the problem of the layer")
            }
        }

        @Test("a reload changes the rights of connected clients, and ends requests that are no longer permitted")
        func reload() throws {
            let all = Self.settings("{ users: { '4711': ['read', 'write'] } }", shop: "{ shop: {} }")
            let less = Self.settings("{ users: { '4711': ['read'] } }")
            try AgentHome.with(settings: all) { home in
                let agent = try home.start()
                let client = try OtherUser.connect(4711, to: agent, home)
                for name in ["default", "shop"] {
                    try client.call("config.subscribe", ["namespace": .string(name)])
                    #expect(try client.event()["namespace"] == .string(name))
                    try client.call("config.get", ["", .string(name)])
                }
                let waits = try ["default", "shop"].map {
                    try client.request("config.wait", ["path": "a", "namespace": .string($0), "equals": 2])
                }
                try client.call("config.set", ["a", 1])
                #expect(try client.event()["value"] == ["a": 1])

                try home.write(settings: less)
                try agent.reload()
                let end = try client.event()
                #expect(end["namespace"] == "shop" && end["kind"] == "end" && end["reason"] == "denied")
                #expect(throws: LineClient.Refusal.self) { try client.reply(to: waits[1]) }
                #expect(try client.refusal("config.get", ["", "shop"]).name == "denied")
                #expect(try client.refusal("config.set", ["a", 3]).name == "denied")
                #expect(try client.call("agent.info")["namespaces"] == ["default"])
                // The subscription and the wait in the other namespace continue.
                try agent.call("config.set", ["a", 2])
                #expect(try client.event()["value"] == ["a": 2])
                #expect(try client.reply(to: waits[0])["value"] == 2)

                try home.write(settings: all)
                try agent.reload()
                try client.call("config.set", ["a", 3, "shop"])
                #expect(try client.call("config.get", ["", "shop"])["value"] == ["a": 3])
            }
        }

        @Test("when a right is removed, requests that need it and wait for the network are denied, except for a push")
        func waiting() throws {
            let origins = try [RawOrigin.listening(.hang), RawOrigin.listening(.hang)]
            defer { for origin in origins { origin.stop() } }
            func settings(_ rights: String) -> String {
                """
                { socket: { mode: '0666' }, access: { others: [\(rights)] }, \
                images: { allowNetworks: ['127.0.0.1/32'], minimumFreeBytes: 0 }, \
                namespaces: { far: { remote: { http: { url: '\(origins[0].documentURL)', intervalSeconds: 86400 } } } } }
                """
            }
            try AgentHome.with(settings: settings("'read', 'push', 'images'")) { home in
                let agent = try home.start()
                let client = try OtherUser.connect(4711, to: agent, home)
                _ = try origins[0].request()
                let waiting = try [
                    client.request("config.refresh", ["far"]),
                    client.request("config.get", ["namespace": "far", "maximumAgeSeconds": 0]),
                    client.request("image.get", [.string(origins[1].documentURL + "/a.png")]),
                ]
                let push = try client.request("config.push", [["a": 1], "far"])
                // The agent has requested the image from its origin, so the agent has also accepted the earlier
                // requests.
                _ = try origins[1].request()
                try client.call("agent.ping")
                try home.write(settings: settings(""))
                try agent.reload()
                for request in waiting {
                    do {
                        Issue.record("the request was answered: \(try client.reply(to: request))")
                    } catch let refusal as LineClient.Refusal {
                        #expect(refusal.name == "denied" && refusal.detail.contains("right"))
                    }
                }
                // The push waits for the refresh, which ends with this response.
                origins[0].answer(.document(#"{"b":2}"#))
                origins[0].disconnect()
                #expect(try client.reply(to: push)["changed"] == true)
                #expect(try agent.call("config.get", ["", "far"])["value"] == ["a": 1])
            }
        }

        @Test("`access` of a namespace that a reload adds or changes applies to the namespace and its plain copy")
        func privateNamespace() throws {
            let others = "{ others: ['read'] }"
            try AgentHome.with(settings: Self.settings(others, shop: "{}")) { home in
                func mode(_ namespace: String) -> mode_t? {
                    var status = stat()
                    let path = "\(home.directory)/current/\(namespace).json"
                    return stat(path, &status) == 0 ? status.st_mode & 0o777 : nil
                }
                let agent = try home.start()
                let client = try OtherUser.connect(4711, to: agent, home)
                #expect(try client.refusal("config.get", ["", "shop"]).name == "unknownNamespace")
                let changes = try DirectoryChanges(home.directory + "/current")
                try home.write(settings: Self.settings(others))
                try agent.reload()
                #expect(try client.refusal("config.get", ["", "shop"]).name == "denied")
                #expect(try client.refusal("config.get", ["", "none"]).name == "denied")
                try changes.wait("the copy of shop") { mode("shop") != nil }
                #expect(mode("shop") == 0o600)
                #expect(mode("default") == 0o640)
                try home.write(settings: Self.settings(others, shop: "{ shop: {}, default: { access: {} } }"))
                try agent.reload()
                #expect(try client.call("config.get", ["", "shop"])["value"] == [:])
                #expect(try client.refusal("config.get").name == "denied")
                try changes.wait("the new modes of the copies") { mode("shop") == 0o640 && mode("default") == 0o600 }
            }
        }

        @Test("a denial is logged with right, namespace, user, process and command; repeated denials are combined")
        func log() throws {
            try AgentHome.with(settings: Self.settings("{ others: ['read'] }")) { home in
                let agent = try home.start()
                let client = try OtherUser.connect(4711, to: agent, home)
                let peer = try client.call("agent.info")["peer"]
                for _ in 0..<50 { #expect(try client.refusal("config.set", ["a", 1]).name == "denied") }
                try client.notify("config.push", ["document": [:], "namespace": "shop"])
                try client.call("agent.ping")
                let set = try agent.waitForLog("config.set")
                for word in ["write", "default", "4711", "\(peer?["pid"]?.int ?? 0)", "socat", "notice"] {
                    #expect(set.contains(word), "\(set)")
                }
                let push = try agent.waitForLog("config.push")
                #expect(push.contains("push") && push.contains("shop"))
                client.close()
                #expect(try agent.stop() == .exit(0))
                let lines = agent.log.split(separator: "\n").filter { $0.contains("config.set was denied") }
                #expect(lines.count < 50)
                // After the agent has ended, the counts in the log add up to all denials.
                let counts = lines.map { $0.firstMatch(of: #/\((\d+) times/#).flatMap { Int($0.1) } ?? 1 }
                #expect(counts.reduce(0, +) == 50, "\(lines)")
            }
        }

        @Test(
            "in the settings, an account that the host does not have is logged and ignored; an unknown right is an error"
        )
        func wrongSettings() throws {
            let unknown = "{ users: { 'no-such-user': ['read'] }, groups: { 'no-such-group': ['read'] } }"
            try AgentHome.with(settings: Self.settings(unknown)) { home in
                let agent = try home.start()
                let account = try agent.waitForLog(#"the user "no-such-user" of "#)
                #expect(
                    account.contains("access.users does not exist on this host") && account.contains("reload"),
                    "\(account)")
                try agent.waitForLog("no-such-group")
                #expect(try OtherUser.connect(4711, to: agent, home).call("agent.info")["rights"] == [])
                try home.write(settings: Self.settings("{ others: ['raed'] }"))
                try agent.reload()
                let line = try agent.waitForLog("the new settings are invalid")
                #expect(line.contains("access.others[0]") && line.contains("did you mean"), "\(line)")
            }
        }
    }
}
