import LarderJSON
import Testing

@testable import LarderConfigSources

@Suite("Messages of the etcd gateway")
struct EtcdMessagesTests {
    private static let header =
        #""header":{"cluster_id":"18446744073709551615","member_id":"1","revision":"8","raft_term":"2"}"#

    private func message(_ rest: String) throws -> EtcdWatchMessage {
        try #require(EtcdWatchMessage(try JSONValue(parsing: "{\"result\":{\(Self.header)\(rest)}}")))
    }

    @Test("a page is decoded with its revision, its pairs and whether more pages follow")
    func page() throws {
        let page = try #require(
            EtcdPage(
                try JSONValue(
                    parsing: """
                        {\(Self.header),"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"7","version":"4","value":"Mw=="},
                        {"key":"Yg==","create_revision":"4","mod_revision":"4","version":"1"}],"more":true,"count":"3"}
                        """)))
        #expect(page.header == EtcdHeader(cluster: "18446744073709551615", revision: 8))
        #expect(
            page.pairs == [
                EtcdPair(key: [0x61], value: [0x33], modified: 7), EtcdPair(key: [0x62], value: [], modified: 4),
            ])
        #expect(page.hasMore)
    }

    @Test("a number may be a string or a JSON number, and a missing number is 0")
    func numbers() throws {
        let range: JSONValue = [
            "header": ["revision": "7"], "kvs": [["key": "YQ==", "value": "MQ==", "mod_revision": "6"]],
        ]
        let pages = try #require(
            EtcdPage.all(ofTransaction: [
                "header": ["cluster_id": "5", "revision": "7"],
                "responses": [["response_range": range], ["response_range": ["more": true]]],
            ]))
        #expect(pages.map(\.header) == [EtcdHeader(cluster: "5", revision: 7), EtcdHeader(cluster: "5", revision: 7)])
        #expect(pages.map(\.pairs.count) == [1, 0])
        #expect(pages.map(\.hasMore) == [false, true])
        #expect(EtcdPage.all(ofTransaction: ["responses": []]) == nil)
        #expect(
            EtcdPage.all(ofTransaction: ["header": ["cluster_id": "5"], "responses": [["response_put": [:]]]]) == nil)
        let page = try #require(EtcdPage(["header": ["cluster_id": 5, "revision": 3]]))
        #expect(page.header == EtcdHeader(cluster: "5", revision: 3))
        #expect(page.pairs.isEmpty && !page.hasMore)
        #expect(try #require(EtcdPage(["header": ["cluster_id": "5"]])).header.revision == 0)
    }

    @Test("decoding a malformed message returns nil")
    func garbage() {
        let bad: [JSONValue] = [
            [:], ["header": 1], ["header": ["cluster_id": [], "revision": "1"]],
            ["header": ["cluster_id": "1", "revision": "x"]],
            ["header": ["cluster_id": "1", "revision": "1"], "kvs": [["key": "%%%"]]],
            ["header": ["cluster_id": "1", "revision": "1"], "kvs": [1]],
        ]
        for value in bad { #expect(EtcdPage(value) == nil, "\(value)") }
        #expect(EtcdWatchMessage(["result": ["header": ["cluster_id": "1"], "events": [["type": "DELETE"]]]]) == nil)
        #expect(EtcdWatchMessage(["error": ["message": "x"]]) == nil)
    }

    @Test("events, creation, cancellation and progress are distinguished")
    func watch() throws {
        #expect(try message(#","created":true"#).isCreated)
        #expect(!(try message(#","created":true"#).isProgress))
        #expect(try message("").isProgress)
        // The response to a progress request may arrive before earlier events.
        #expect(!(try message(#","watch_id":"-1""#).isProgress))
        #expect(!(try message(#","fragment":true"#).isProgress))
        let events = try message(
            #","events":[{"kv":{"key":"YQ==","mod_revision":"5","value":"MQ=="}},{"type":"DELETE","kv":{"key":"Yg==","mod_revision":"6"}}]"#
        )
        #expect(
            events.events == [
                EtcdEvent(pair: EtcdPair(key: [0x61], value: [0x31], modified: 5), isDeletion: false),
                EtcdEvent(pair: EtcdPair(key: [0x62], value: [], modified: 6), isDeletion: true),
            ])
        #expect(!events.isProgress)
        let end = try message(#","canceled":true,"compact_revision":"5""#)
        #expect(end.cancelReason == "" && end.compactRevision == 5)
    }

    @Test(
        "errors are decoded in the forms of all etcd versions",
        arguments: [
            (#"{"error":"TEXT","message":"TEXT","code":11}"#, EtcdError.Kind.compacted),
            (#"{"code":11,"message":"TEXT","details":[]}"#, .compacted),
            (
                #"{"error":{"grpc_code":14,"http_code":503,"message":"TEXT","http_status":"Service Unavailable"}}"#,
                .unavailable
            ),
            (#"{"error":{"code":14,"message":"TEXT","details":[]}}"#, .unavailable),
            (#"{"error":"TEXT","message":"TEXT","code":16}"#, .unauthenticated),
            (#"{"error":"TEXT","message":"TEXT","code":7}"#, .refused),
            (#"{"error":"TEXT","message":"TEXT","code":3}"#, .refused),
            (#"{"error":"TEXT"}"#, .unavailable),
        ])
    func errorResponses(text: String, kind: EtcdError.Kind) throws {
        let response = try #require(EtcdErrorResponse(try JSONValue(parsing: text)))
        let error = response.error(from: "http://a:1")
        #expect(error.kind == kind)
        #expect(error.message.hasPrefix("etcd at http://a:1 reported: TEXT"))
    }

    @Test(
        "a missing, outdated or invalid token is recognized by the text of the error",
        arguments: [
            "etcdserver: user name is empty", "etcdserver: revision of auth store is old",
            "etcdserver: invalid auth token",
        ])
    func tokens(text: String) throws {
        let response = try #require(EtcdErrorResponse(["code": 3, "message": .string(text)]))
        #expect(response.error(from: "a").kind == .unauthenticated)
    }

    @Test("the reason of a cancelled watch is decoded like other errors")
    func cancelReasons() {
        let denied = EtcdErrorResponse(
            cancelReason: "rpc error: code = PermissionDenied desc = etcdserver: permission denied")
        #expect(denied.error(from: "a").kind == .refused)
        #expect(denied.text == "etcdserver: permission denied")
        let token = EtcdErrorResponse(
            cancelReason: "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token")
        #expect(token.error(from: "a").kind == .unauthenticated)
        #expect(EtcdErrorResponse(cancelReason: "etcdserver: no leader").error(from: "a").kind == .unavailable)
    }

    @Test("error text from a server is shown on one line and truncated")
    func oneLine() throws {
        let response = try #require(
            EtcdErrorResponse(["message": .string("a\nb\u{1b}" + String(repeating: "x", count: 999))]))
        let message = response.error(from: "e").message
        #expect(!message.contains("\n") && !message.contains("\u{1b}"))
        #expect(message.count < 400)
    }
}
