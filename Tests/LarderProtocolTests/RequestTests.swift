import LarderJSON
import LarderProtocol
import Testing

@Suite("Requests")
struct RequestTests {
    private func request(_ text: String) throws -> Request { try Request(JSONValue(parsing: text)) }

    @Test("a request may omit jsonrpc and params")
    func shortest() throws {
        let request = try request(#"{"id":1,"method":"agent.ping"}"#)
        #expect(request.id?.text == "1")
        #expect(request.method.string == "agent.ping")
        #expect(request.params == nil)
    }

    @Test("null params count as omitted")
    func nullParameters() throws {
        // Some JSON-RPC libraries send null for a method without parameters.
        #expect(try request(#"{"id":1,"method":"m","params":null}"#).params == nil)
    }

    @Test(
        "an id keeps its original text",
        arguments: ["1", "1.0", "-0", "1e3", #""a""#, #""é""#, "null", "12345678901234567890"])
    func identity(text: String) throws {
        #expect(try request(#"{"id":\#(text),"method":"m"}"#).id?.text == text)
    }

    @Test("names that occur twice within the parameters do not make a request invalid")
    func duplicateParameters() throws {
        #expect(try request(#"{"id":1,"method":"m","params":{"a":1,"a":2}}"#).params?["a"] == 2)
    }

    @Test("a request without id is a notification")
    func notification() throws {
        #expect(try request(#"{"method":"m"}"#).id == nil)
    }

    @Test(
        "an invalid request is rejected with a reason, and with the id of the request if that id is valid",
        arguments: [
            ("1", "null", "JSON object"), (#""x""#, "null", "JSON object"), ("{}", "null", "\"method\" is missing"),
            (#"{"id":7}"#, "7", "\"method\" is missing"), (#"{"id":7,"method":1}"#, "7", "must be a string"),
            (#"{"id":{},"method":"m"}"#, "null", "\"id\" must be"),
            (#"{"id":true,"method":"m"}"#, "null", "\"id\" must be"),
            (#"{"id":7,"method":"m","params":"x"}"#, "7", "\"params\" must be"),
            (#"{"jsonrpc":"1.0","id":7,"method":"m"}"#, "7", "must be \"2.0\""),
            (#"{"jsonrpc":2.0,"id":7,"method":"m"}"#, "7", "must be \"2.0\""),
            (#"{"id":1,"id":2,"method":"m"}"#, "null", "\"id\" occurs more than once"),
            (#"{"method":"m","method":"m", "id":1,"\u0069d":2}"#, "null", "\"method\" occurs more than once"),
            (#"{"id":7,"method":"a","method":"b"}"#, "7", "\"method\" occurs more than once"),
            (#"{"id":7,"method":"m","x":1,"x":1}"#, "7", "\"x\" occurs more than once"),
        ])
    func refusals(text: String, id: String, reason: String) throws {
        let invalid = try #require(throws: Request.Invalid.self) { try request(text) }
        #expect(invalid.id.text == id)
        #expect(invalid.error.code == .invalidRequest)
        #expect(invalid.error.detail.contains(reason), "\(invalid.error.detail)")
    }
}

@Suite("Typed parameters")
struct ParameterTests {
    private func get(_ text: String) throws -> ConfigGet.Parameters {
        try ConfigGet.Parameters(params: JSONValue(parsing: text))
    }

    @Test("named and positional parameters are equivalent")
    func forms() throws {
        for text in [
            #"{"path":"a.b","namespace":"web"}"#, #"["a.b","web"]"#, #"{"path":["a","b"],"namespace":"web"}"#,
            #"["/a/b","web"]"#,
        ] {
            let parameters = try get(text)
            #expect(parameters.path.segments == ["a", "b"])
            #expect(parameters.namespace == "web")
        }
    }

    @Test("absent and null parameters take their defaults")
    func defaults() throws {
        for text in ["{}", "[]", #"{"path":null,"namespace":null}"#, "[null]"] {
            let parameters = try get(text)
            #expect(parameters.path.segments == [])
            #expect(parameters.namespace == "default")
        }
        #expect(try ConfigGet.Parameters(params: nil).path.segments == [])
    }

    @Test(
        "a wrong type is an error that names the member",
        arguments: [#"{"path":7}"#, #"{"namespace":[]}"#, "[true]", #"["a",{}]"#, #"{"path":[1]}"#])
    func wrongTypes(text: String) throws {
        let error = try #require(throws: WireError.self) { try get(text) }
        #expect(error.code == .invalidParams)
        #expect(error.detail.contains("\"path\"") || error.detail.contains("\"namespace\""), "\(error.detail)")
    }

    @Test("too many positional parameters are rejected")
    func tooMany() throws {
        let error = try #require(throws: WireError.self) { try get(#"["a","web",1,2,3]"#) }
        let known = "path, namespace, maximumAgeSeconds, staleIfErrorSeconds"
        #expect(error.detail == "too many positional parameters: 5; the method has 4 (\(known))")
        let none = try #require(throws: WireError.self) { try AgentPing.Parameters(params: [1]) }
        #expect(none.detail == "too many positional parameters: 1; the method has none")
    }

    @Test("a path has at most 65,536 bytes", arguments: [#""X""#, #"["X"]"#, #""/X""#])
    func longPaths(form: String) throws {
        func path(of bytes: Int) throws -> JSONPath {
            let name = String(repeating: "x", count: bytes - form.utf8.count + 1)
            return try get(#"{"path":\#(form.replacing("X", with: name))}"#).path
        }
        #expect(try path(of: 65_536).segments.map(\.utf8.count) == [65_537 - form.utf8.count])
        let error = try #require(throws: WireError.self) { try path(of: 65_537) }
        #expect(error.code == .invalidParams)
        #expect(error.detail.hasSuffix("it has 65537 bytes, more than 65536"), "\(error.detail)")
    }

    @Test("the error for a number out of range names the minimum")
    func ranges() throws {
        let text = #"{"path":"a","value":1,"ttlMilliseconds":0}"#
        let error = try #require(throws: WireError.self) {
            try ConfigSet.Parameters(params: JSONValue(parsing: text))
        }
        #expect(error.detail.contains("\"ttlMilliseconds\" is 0; it must be from 1"))
    }

    @Test("every parameter that is a revision accepts the largest revision and rejects a larger number")
    func largestRevision() throws {
        func read(_ revision: String) -> [String?] {
            let readers: [(JSONValue) throws -> Void] = [
                { _ = try ConfigSubscribe.Parameters(params: ["since": $0]) },
                { _ = try ConfigWait.Parameters(params: ["revisionAtLeast": $0]) },
                { _ = try ConfigRollback.Parameters(params: ["revision": $0]) },
                { _ = try ConfigDiff.Parameters(params: ["from": $0]) },
                { _ = try ConfigDiff.Parameters(params: ["from": 1, "to": $0]) },
                { _ = try ConfigAcknowledge.Parameters(params: ["revision": $0, "epoch": "e", "accepted": true]) },
            ]
            return readers.map { reader in
                do {
                    try reader(JSONValue(parsing: revision))
                    return nil
                } catch {
                    return (error as? WireError)?.detail ?? "\(error)"
                }
            }
        }
        #expect(read("9007199254740991").allSatisfy { $0 == nil })
        for detail in read("9007199254740992") {
            let detail = detail ?? "accepted"
            #expect(detail.contains("is 9007199254740992; it must be from "))
            #expect(detail.contains(" to 9007199254740991"))
        }
    }

    @Test(
        "config.set requires replaceAll for an empty path and rejects it for any other path",
        arguments: [
            (#"{"path":"","value":{}}"#, "\"replaceAll\": true"),
            (#"{"path":[],"value":{},"replaceAll":false}"#, "\"replaceAll\": true"),
            (#"{"path":"a","value":1,"replaceAll":true}"#, "\"replaceAll\" is only for an empty \"path\""),
        ])
    func confirmation(text: String, detail: String) throws {
        let error = try #require(throws: WireError.self) {
            try ConfigSet.Parameters(params: JSONValue(parsing: text))
        }
        #expect(error.code == .invalidParams)
        #expect(error.detail.contains(detail), "\(error.detail)")
    }

    @Test("parameters survive a round trip")
    func roundTrips() throws {
        let set = ConfigSet.Parameters(
            path: JSONPath(["a.b", "c/d"]), value: ["x": [1, 2]], namespace: "web", ttlMilliseconds: 5)
        let read = try ConfigSet.Parameters(params: JSONValue.building { set.write(to: &$0) })
        #expect(read.path == set.path)
        #expect(read.value == set.value)
        #expect(read.namespace == "web")
        #expect(read.ttlMilliseconds == 5)
        #expect(!read.replaceAll)

        let whole = ConfigSet.Parameters(path: JSONPath([]), value: ["a": 1], replaceAll: true)
        #expect(try ConfigSet.Parameters(params: JSONValue.building { whole.write(to: &$0) }).replaceAll)
        let all = ConfigUnset.Parameters(path: JSONPath([]), all: true)
        #expect(try ConfigUnset.Parameters(params: JSONValue.building { all.write(to: &$0) }).all)

        let subscribe = ConfigSubscribe.Parameters(
            path: JSONPath(["a"]), namespace: "web", mode: .patch, since: 4, epoch: "00ff00ff00ff00ff")
        let readSubscribe = try ConfigSubscribe.Parameters(params: JSONValue.building { subscribe.write(to: &$0) })
        #expect(readSubscribe.mode == .patch)
        #expect(readSubscribe.since == 4)
        #expect(readSubscribe.epoch == "00ff00ff00ff00ff")
    }
}

@Suite("Encoding of errors")
struct WireErrorTests {
    @Test("every error code survives a round trip", arguments: WireError.Code.all)
    func roundTrip(code: WireError.Code) throws {
        let error = WireError(code, "what to do")
        #expect(WireError(from: JSONValue.building { error.write(to: &$0) }) == error)
    }

    @Test("error names are unique; error codes are positive or defined by JSON-RPC 2.0")
    func table() {
        let names = WireError.Code.all.map(\.name)
        #expect(Set(names).count == names.count)
        for code in WireError.Code.all {
            #expect(code.number > 0 || [-32700, -32600, -32601, -32602, -32603].contains(code.number))
        }
    }

    @Test("an error with a code that only newer agents know keeps its number, name and detail")
    func unknown() throws {
        let value = try JSONValue(
            parsing: #"{"code":99,"message":"New","data":{"name":"brandNew","retryable":true,"detail":"d"}}"#)
        let error = WireError(from: value)
        #expect(error.code.number == 99)
        #expect(error.code.name == "brandNew")
        #expect(error.code.isRetryable)
        #expect(error.detail == "d")
    }
}

@Suite("Encoding of events")
struct ConfigEventTests {
    @Test(
        "the head and the body of an event together form one notification, which decodes to that event",
        arguments: [
            ConfigEvent.Content.snapshot(["a": 1], .initial), .snapshot(nil, .change), .snapshot(.null, .gap),
            .patch(["a": nil as JSONValue? ?? .null], from: 3), .end(.shutdown),
            // This version does not know the reason. Clients must accept it, because later versions may add reasons.
            .snapshot(2, ConfigEvent.Reason(rawValue: "brandNew")), .end(ConfigEvent.Reason(rawValue: "brandNew")),
            .unknown(kind: "digest"),
        ])
    func roundTrip(content: ConfigEvent.Content) throws {
        for skipped in [0, 4] {
            let event = ConfigEvent(
                subscription: 2, sequence: 9, skipped: skipped, namespace: "web", epoch: "00ff00ff00ff00ff",
                revision: 12, state: .stale, content: content)
            let body = ConfigEvent.body(
                namespace: "web", epoch: "00ff00ff00ff00ff", revision: 12, state: .stale, content: content)
            func written(_ body: ArraySlice<UInt8>) -> [UInt8] {
                var writer = JSONWriter()
                body.withUnsafeBytes {
                    ConfigEvent.append(subscription: 2, sequence: 9, skipped: skipped, body: $0, to: &writer)
                }
                return writer.bytes
            }
            let line = written(body[...])
            // A large body is not copied behind the head, but sent in a separate write.
            #expect(written([]) + body == line)
            #expect(line.last == UInt8(ascii: "\n"))
            #expect(line.dropLast().contains(UInt8(ascii: "\n")) == false)
            let message = try JSONValue(parsing: Array(line.dropLast()))
            #expect(message["method"]?.string == "config.event")
            #expect(message["id"] == nil)
            #expect(try ConfigEvent(params: #require(message["params"])) == event)
        }
    }
}

@Suite("Timestamps")
struct TimestampTests {
    @Test(
        "timestamps are written and read in RFC 3339 form",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"), (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (1_709_251_199_000, "2024-02-29T23:59:59.000Z"),
        ])
    func known(milliseconds: Int, text: String) {
        #expect(Timestamp(milliseconds: milliseconds).description == text)
        #expect(Timestamp(text)?.milliseconds == milliseconds)
    }

    @Test("a time on every day of 800 years survives a round trip")
    func everyDay() {
        for day in stride(from: -146_097, to: 146_097, by: 1) {
            let time = Timestamp(milliseconds: day * 86_400_000 + 3_723_004)
            guard time.description.utf8.count == 24 else { continue }
            #expect(Timestamp(time.description) == time)
        }
    }

    @Test(
        "a timestamp in another form is rejected",
        arguments: [
            "", "2023-11-14", "2023-13-14T22:13:20.123Z", "2023-02-29T22:13:20.123Z", "2023-11-14T22:13:20.123+",
        ])
    func refused(text: String) {
        #expect(Timestamp(text) == nil)
    }
}
