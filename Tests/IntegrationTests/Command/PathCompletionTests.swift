import LarderClient
import LarderJSON
import LarderProtocol
import TestSupport
import Testing

@testable import LarderCommand

@Suite("Completion of paths and values")
struct PathCompletionTests {
    private static let schema = """
        {"properties": {
            "search": {"properties": {"limit": {"type": "integer"}, "mode": {"enum": ["fast", "full"]}}},
            "servers": {}, "a.b": {"properties": {"c": {}}}, "$(reboot)": {}, "x:y": {}, "-v": {}}}
        """

    private func candidates(_ typed: String, _ value: JSONValue? = nil) throws -> [String] {
        let path = try #require(IncompletePath(typed))
        return path.candidates(try DocumentValidation(result(Self.schema)).schema, value)
    }

    private func result(_ schema: String) throws -> ConfigSchema.Result {
        ConfigSchema.Result(
            namespace: "default", schema: try JSONValue(parsing: schema), digest: "", path: "/schema.json",
            enforce: "reject")
    }

    @Test("a path is completed by the member names of the schema, one level below the last complete segment")
    func schemaNames() throws {
        #expect(try candidates("se") == ["search", "servers"])
        #expect(try candidates("search.") == ["search.limit", "search.mode"])
        #expect(try candidates("search.l") == ["search.limit"])
        #expect(try candidates("search.limit.") == [])
    }

    @Test("if only one path matches, its members are candidates, too")
    func onlyMatch() throws {
        #expect(try candidates("sea") == ["search", "search.limit", "search.mode"])
        let found = try candidates("sea", ["search": ["zone": 1]])
        #expect(found == ["search", "search.limit", "search.mode", "search.zone"])
    }

    @Test("names with dots are offered in JSON Pointers; names that a shell would not take literally are left out")
    func unusualNames() throws {
        #expect(try candidates("") == ["search", "servers", "/a.b"])
        #expect(try candidates("/") == ["/search", "/servers", "/a.b", "/-v"])
        #expect(try candidates("/a.b/") == ["/a.b/c"])
        #expect(try candidates("/search/m") == ["/search/mode"])
        #expect(try candidates("$") == [])
    }

    @Test("names of the current configuration follow those of the schema, which need not exist")
    func currentNames() throws {
        #expect(try candidates("", ["zone": 1, "search": [:]]) == ["search", "servers", "/a.b", "zone"])
        #expect(IncompletePath("search.")?.candidates(nil, ["limit": 1]) == ["search.limit"])
        #expect(IncompletePath("search.")?.candidates(nil, 1) == [])
        #expect(IncompletePath("a..b") == nil)
    }

    @Test("values are offered if larder set parses them as the same value")
    func values() {
        let values: [JSONValue] = ["fast", "full", true, 5, "1.10", .null, "a b", "-x", "$(reboot)"]
        #expect(AgentCompletion.candidates(values, typed: "", isString: false) == ["fast", "full", "true", "5"])
        #expect(AgentCompletion.candidates(values, typed: "", isString: true) == ["fast", "full", "1.10"])
        #expect(AgentCompletion.candidates(values, typed: "fu", isString: false) == ["full"])
    }

    @Test("the options before the completed word apply, also quoted or split at the equals sign")
    func options() async {
        let quoted = CompletionLine(["larder", "get", "--socket", "'/tmp/a b'", "-n", "web", "sea"], 6, "sea")
        #expect(quoted.typed == "sea")
        #expect(await quoted.options?.connection.socket == "/tmp/a b")
        #expect(await quoted.options?.namespace.namespace == "web")

        let split = CompletionLine(
            ["larder", "set", "--socket", "=", "/s", "--ttl", "10m", "search.mode", "fa"], 8, "fa")
        #expect(await split.options?.connection.socket == "/s")
        #expect(await split.setCommand?.agent.connection.socket == "/s")
        #expect(await split.setCommand?.path == "search.mode")

        let later = CompletionLine(["larder", "get", "se", "-n", "web"], 2, "web")
        #expect(later.typed == "se")
        #expect(await later.options?.namespace.namespace == "default")

        #expect(await CompletionLine(["larder", "unset", "--all", ""], 3, "").options?.isAll == true)
        #expect(await CompletionLine(["larder", "replace", ""], 2, "").setCommand == nil)
    }
}

extension Integration {
    @Suite("Completion over the socket", .timeLimit(.minutes(30)))
    struct CompletionTests {
        /// Runs `larder` with the arguments that the completion scripts use for the last word of a command line.
        private func complete(_ words: [String], positional: Int = 0, socket: String) throws -> [String] {
            let (index, cursor) = (words.count - 1, words.last?.count ?? 0)
            let request = ["---completion", words[1], "--", "positional@\(positional)", "\(index)", "\(cursor)"]
            let run = try Command.run(
                Products.commandLine, request + words,
                environment: ChildProcess.environment.merging(["LARDER_SOCKET": socket]) { $1 })
            #expect(run.status == 0 && run.log.isEmpty, "\(run.log)")
            return run.output
        }

        @Test("paths and values come from the schema, the files that it refers to, and the current configuration")
        func completion() throws {
            let settings = "{ namespaces: { default: { schema: { path: \"@/schema.json\" } }, web: {} } }"
            try AgentHome.with(settings: settings) { home in
                try home.write("schema.json", #"{"properties": {"search": {"$ref": "search.json"}}}"#)
                try home.write(
                    "search.json",
                    """
                    {"properties": {"limit": {"type": "integer"}, "mode": {"enum": ["fast", "full"]},
                     "on": {"type": "boolean"}}}
                    """)
                let agent = try home.start()
                try agent.call("config.set", ["path": "search", "value": ["zone": "a"]])
                try agent.call("config.set", ["path": "color", "value": "red", "namespace": "web"])
                let (socket, nowhere) = (home.socket, home.directory + "/nowhere")
                let paths = ["search.limit", "search.mode", "search.on", "search.zone"]
                for verb in ["get", "set", "unset", "increment", "explain", "edit", "watch", "wait"] {
                    #expect(try complete(["larder", verb, "search."], socket: socket) == paths, "\(verb)")
                }
                #expect(
                    try complete(["larder", "set", "search.mode", "f"], positional: 1, socket: socket)
                        == ["fast", "full"])
                #expect(
                    try complete(["larder", "set", "search.on", ""], positional: 1, socket: socket)
                        == ["true", "false"])
                #expect(try complete(["larder", "get", "-n", "web", ""], socket: socket) == ["color"])
                #expect(
                    try complete(["larder", "get", "--socket", socket, "search.l"], socket: nowhere)
                        == ["search.limit"])
                #expect(try complete(["larder", "get", ""], socket: nowhere) == [])
            }
        }
    }
}
