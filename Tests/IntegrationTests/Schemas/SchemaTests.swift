import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("Schemas", .timeLimit(.minutes(30)))
    struct SchemaTests {
        private static let schema = """
            {"required": ["limit"], "properties": {"limit": {"type": "integer", "maximum": 100},
             "name": {"type": "string"}}}
            """

        /// Starts an agent whose host layer is `host` and whose schema is ``schema``.
        private func withAgent(_ host: String, _ body: (AgentHome, AgentProcess) throws -> Void) throws {
            try AgentHome.with { home in
                try home.write("schema.json", Self.schema)
                try home.makeDirectory("host")
                try home.write("host/a.json", host)
                try home.write(
                    settings: """
                        { namespaces: { default: {
                            host: { directory: "\(home.directory)/host" }, schema: { path: "\(home.directory)/schema.json" },
                        } } }
                        """)
                try body(home, try home.start())
            }
        }

        @Test("the error for a value from a file has the file and the line")
        func fileAndLine() throws {
            try withAgent("{\n  \"limit\": 10\n}") { home, agent in
                try home.write("host/a.json", "{\n  \"name\": \"a\",\n  \"limit\": 1000\n}")
                let client = try agent.connect()
                let refusal = try client.refusal("config.refresh")
                #expect(refusal.name == "schemaViolation")
                #expect(refusal.detail.contains("host/a.json:3"), "\(refusal.detail)")
                #expect(try home.larder("refresh").status == 14)
            }
        }

        @Test(
            "a peer without the right to read learns that the schema rejects its change, but not why", .needsRoot)
        func withoutRead() throws {
            try AgentHome.with { home in
                try home.write("schema.json", Self.schema)
                try home.makeDirectory("host")
                try home.write("host/a.json", "{\"limit\": 10}")
                try home.write(
                    settings: """
                        { socket: { mode: "0666" }, access: { users: { "4711": ["write"] } }, namespaces: { default: {
                            host: { directory: "\(home.directory)/host" }, schema: { path: "\(home.directory)/schema.json" },
                        } } }
                        """)
                let agent = try home.start()
                let client = try OtherUser.connect(4711, to: agent, home)
                let refusal = try client.refusal("config.set", ["name", 4711])
                #expect(refusal.name == "schemaViolation" && !refusal.detail.contains("4711"))
            }
        }

        @Test("a document to which the schema refers is watched, too; a broken schema stays in force across a restart")
        func reference() throws {
            try withAgent("{\"limit\": 10}") { home, agent in
                let client = try agent.connect()
                func waitForMaximum(_ digest: JSONValue?) throws {
                    try client.call("config.status") { $0["namespaces"]?[0]?["schema"]?["digest"] != digest }
                }
                let before = try agent.call("config.schema")["digest"]
                try home.write("limit.json", "{\"maximum\": 50}")
                try home.write("schema.json", #"{"properties": {"limit": {"$ref": "limit.json"}}}"#)
                try waitForMaximum(before)
                #expect(try client.refusal("config.set", ["limit", 60]).name == "schemaViolation")
                try home.write("host/a.json", "{\"limit\": 70}")
                try agent.waitForLog("namespace default: the schema rejects new content of the layer host")
                // The agent accepts the file once the document to which the schema refers permits it.
                try home.write("limit.json", "{\"maximum\": 80}")
                try client.call("config.wait", ["path": "limit", "equals": 70])
                try home.write("limit.json", "{")
                try agent.waitForLog("namespace default: cannot use the schema")
                agent.kill()
                let next = try home.start()
                #expect(try next.connect().refusal("config.set", ["limit", 90]).name == "schemaViolation")
                let schema = try next.call("config.status")["namespaces"]?[0]?["schema"]
                #expect(schema?["problem"]?.string?.contains("limit.json") == true)
            }
        }

        @Test("a refused file is reported by status and doctor, and accepted once it is corrected")
        func refusedFile() throws {
            try withAgent("{\"limit\": 10}") { home, agent in
                try home.write("host/a.json", "{\"limit\": 1000}")
                try agent.waitForLog("namespace default: the schema rejects new content of the layer host")
                #expect(try agent.call("config.get")["value"] == ["limit": 10])
                let status = try home.larder("status")
                #expect(status.text.contains("expected at most 100, found a number"), "\(status.text)")
                #expect(try home.larder("doctor").text.contains("the schema rejects new content of layer host"))
                try home.write("host/a.json", "{\"limit\": 50}")
                try agent.call("config.wait", ["path": "limit", "equals": 50])
                let namespace = try agent.call("config.status")["namespaces"]?[0]
                #expect(namespace?["schemaRejection"]?.isNull == true)
            }
        }

        @Test("a corrected schema file takes effect; a broken one leaves the previous schema in force")
        func watchedSchema() throws {
            try withAgent("{\"limit\": 10}") { home, agent in
                try home.write("schema.json", "{\"type\": \"objekt\"}")
                try agent.waitForLog("namespace default: cannot use the schema")
                let client = try agent.connect()
                #expect(try client.refusal("config.set", ["limit", 1000]).name == "schemaViolation")
                try home.write("schema.json", "{}")
                try client.call("config.schema") { $0["schema"] == .emptyObject }
                try agent.call("config.set", ["limit", 1000])
            }
        }

        @Test("if the settings name a file that does not exist, the last schema stays in force, also after a restart")
        func missingFile() throws {
            try withAgent("{\"limit\": 10}") { home, agent in
                try home.write(
                    settings: """
                        { namespaces: { default: {
                            host: { directory: "\(home.directory)/host" },
                            schema: { path: "\(home.directory)/other.json", maximumErrors: 1 },
                        } } }
                        """)
                try agent.reload()
                try agent.waitForLog("the schema that was last read from \(home.directory)/schema.json stays in force")
                #expect(try agent.connect().refusal("config.set", ["limit", 1000]).name == "schemaViolation")
                agent.kill()
                let next = try home.start()
                let client = try next.connect()
                #expect(try client.refusal("config.set", ["limit", 1000]).name == "schemaViolation")
                let schema = try next.call("config.schema")
                #expect(schema["path"]?.string == "\(home.directory)/schema.json")
                #expect(try home.larder("status", "--check").status == 1)
                #expect(try home.larder("status").text.contains("the schema that could be used last stays in force"))
                let doctor = try home.larder("doctor")
                #expect(doctor.text.contains("so the schema that could be used last stays in force"), "\(doctor.text)")
                // The new file takes effect once it exists.
                try home.write("other.json", #"{"properties": {"limit": {"maximum": 2000}}}"#)
                try client.call("config.schema") { $0["path"]?.string == "\(home.directory)/other.json" }
                try next.call("config.set", ["limit", 1000])
            }
        }

        @Test("reads are unavailable as long as nothing valid was published; a restart enforces the schema again")
        func restart() throws {
            try withAgent("{\"limit\": 1000}") { home, agent in
                let client = try agent.connect()
                let refusal = try client.refusal("config.get")
                #expect(refusal.name == "unavailable" && refusal.detail.contains("found a number"), "\(refusal.detail)")
                try agent.call("config.set", ["limit", 20])
                agent.kill()
                let next = try home.start()
                #expect(try next.call("config.get")["value"] == ["limit": 20])
                #expect(try next.connect().refusal("config.unset", ["limit"]).name == "schemaViolation")
            }
        }

        @Test("`larder set` exits with status 14 and names the violation; --dry-run lists it after the differences")
        func command() throws {
            try withAgent("{\"limit\": 10}") { home, _ in
                let refused = try home.larder("set", "limit", "twenty")
                #expect(refused.status == 14 && refused.log.contains("expected an integer, found \"twenty\""))
                let json = try JSONValue(parsing: home.larder("set", "limit", "twenty", "--json").log)
                #expect(json["errors"]?[0]?["keyword"] == "type")
                let dryRun = try home.larder("set", "limit", "200", "--dry-run")
                #expect(dryRun.status == 14 && dryRun.text.contains("the result would violate the schema"))
            }
        }
    }
}
