import Foundation
import LarderJSON
import TestSupport
import Testing

extension Integration {
    @Suite("The command validate", .timeLimit(.minutes(30)))
    struct ValidateCommandTests {
        private static let schema = """
            {"required": ["limit"], "properties": {"limit": {"$ref": "limit.json"}, "name": {"type": "string"}}}
            """
        private static let limit = #"{"type": "integer", "maximum": 100}"#

        /// Starts an agent with a schema that refers to another file, and with the limit 10 in its host layer.
        private func withAgent(_ body: (AgentHome) throws -> Void) throws {
            let settings = """
                { namespaces: { default: { host: { directory: "@/host" }, schema: { path: "@/schema.json" } } } }
                """
            try AgentHome.with(settings: settings) { home in
                try home.write("schema.json", Self.schema)
                try home.write("limit.json", Self.limit)
                try home.makeDirectory("host")
                try home.write("host/a.json", #"{"limit": 10}"#)
                _ = try home.start()
                try body(home)
            }
        }

        @Test("a document is validated together with the other layers; if it is invalid, the exit status is 14")
        func layers() throws {
            try withAgent { home in
                let valid = try home.larder("validate", "-", input: #"{"name": "a"}"#)
                #expect(valid.status == 0 && valid.text == "standard input is valid\n", "\(valid.log)")
                let invalid = try home.larder("validate", "-", input: #"{"limit": 1000}"#)
                #expect(invalid.status == 14, "\(invalid.log)")
                #expect(invalid.text.contains("limit: expected at most 100, found 1000"), "\(invalid.text)")
            }
        }

        @Test("with --schema, a reference follows no symbolic link out of the directory of the schema")
        func schemaLink() throws {
            try AgentHome.with { home in
                for name in ["inside", "outside"] { try home.makeDirectory(name) }
                try home.write("inside/schema.json", #"{"properties": {"limit": {"$ref": "limit.json"}}}"#)
                func validate() throws -> Command {
                    try home.larder(
                        "validate", "-", "--schema", home.directory + "/inside/schema.json", input: #"{"limit": 1}"#)
                }
                try home.write("inside/limit.json", Self.limit)
                #expect(try validate().status == 0)
                try home.write("outside/limit.json", Self.limit)
                unlink(home.directory + "/inside/limit.json")
                symlink("../outside/limit.json", home.directory + "/inside/limit.json")
                let refused = try validate()
                #expect(refused.status != 0 && refused.status != 14, "\(refused)")
                #expect(refused.log.contains("limit.json"), "\(refused.log)")
            }
        }

        @Test("with --layer host, the document is one of the files of the layer")
        func asHost() throws {
            try withAgent { home in
                func validate(_ text: String, as name: String? = nil) throws -> Command {
                    guard let name else { return try home.larder("validate", "-", "--layer", "host", input: text) }
                    try home.makeDirectory("new")
                    try home.write("new/" + name, text)
                    return try home.larder("validate", home.directory + "/new/" + name, "--layer", "host")
                }
                // The member `limit` is required, and host/a.json has it.
                for name in [nil, "0.json", "b.json"] as [String?] {
                    let added = try validate(#"{"name": "a"}"#, as: name)
                    #expect(added.status == 0, "\(added.text)\(added.log)")
                }
                let replaced = try validate(#"{"name": "a"}"#, as: "a.json")
                #expect(replaced.status == 14, "\(replaced.log)")
                #expect(replaced.text.contains("limit"), "\(replaced.text)")
                // The files take effect in the order of their names.
                #expect(try validate(#"{"limit": 1000}"#).status == 14)
                #expect(try validate(#"{"limit": 1000}"#, as: "0.json").status == 0)
                #expect(try validate(#"{"limit": 1000}"#, as: "b.json").status == 14)
                #expect(try validate(#"{"limit": null}"#, as: "b.json").status == 14)

                try home.write("host/c.json5", "{ limit: 2000, // too much\n}")
                #expect(try validate(#"{"limit": 20}"#, as: "b.json").status == 14)
                #expect(try validate(#"{"limit": 20}"#, as: "d.json").status == 0)
                try home.write("host/c.json5", "{ bad")
                let unreadable = try validate(#"{"limit": 20}"#)
                #expect(unreadable.status == 2, "\(unreadable.log)")
                #expect(unreadable.log.contains("host/c.json5:1:"), "\(unreadable.log)")
            }
        }

        @Test("with --layer defaults, the document replaces the file of the defaults")
        func asDefaults() throws {
            let settings = """
                { namespaces: { default: { defaults: { path: "@/defaults.json" }, schema: { path: "@/schema.json" } } } }
                """
            try AgentHome.with(settings: settings) { home in
                try home.write("schema.json", Self.schema)
                try home.write("limit.json", Self.limit)
                try home.write("defaults.json", #"{"limit": 10}"#)
                _ = try home.start()
                #expect(try home.larder("validate", "-", "--layer", "defaults", input: #"{"limit": 20}"#).status == 0)
                #expect(try home.larder("validate", "-", "--layer", "defaults", input: #"{"name": "a"}"#).status == 14)
            }
        }

        @Test("with --json, the violations are printed as JSON")
        func json() throws {
            try withAgent { home in
                let valid = try home.larder("validate", "-", "--json", input: #"{"limit": 20}"#)
                #expect(valid.text == "{\"valid\":true,\"errors\":[]}\n", "\(valid.log)")
                let invalid = try home.larder("validate", "-", "--json", input: #"{"limit": 1000}"#)
                #expect(invalid.status == 14)
                let report = try JSONValue(parsing: invalid.text)
                #expect(report["valid"] == false)
                let error = report["errors"]?[0]
                #expect(error?["path"] == ["limit"] && error?["keyword"] == "maximum", "\(invalid.text)")
            }
        }

        @Test("with --schema, the document is validated alone and without an agent")
        func withoutAgent() throws {
            try withTemporaryDirectory { directory in
                try Self.schema.write(toFile: directory + "/schema.json", atomically: true, encoding: .utf8)
                try Self.limit.write(toFile: directory + "/limit.json", atomically: true, encoding: .utf8)
                func validate(_ document: String) throws -> Command {
                    try Command.run(
                        Products.commandLine, ["validate", "-", "--schema", directory + "/schema.json"],
                        environment: ChildProcess.environment.merging(["LARDER_SOCKET": "/nowhere"]) { $1 },
                        input: document)
                }
                #expect(try validate(#"{"limit": 20}"#).status == 0)
                #expect(try validate(#"{"limit": 1000}"#).status == 14)
                #expect(try validate(#"{"name": "a"}"#).status == 14)
            }
        }
    }
}
