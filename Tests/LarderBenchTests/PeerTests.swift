import LarderJSON
import Testing

@testable import larder_bench

@Suite("Benchmark requests and replies")
struct PeerTests {
    private let larder = Peer(kind: .larder, socketPath: "")
    private let redis = Peer(kind: .redis, socketPath: "")

    private func failure(_ peer: Peer, _ reply: String) -> BenchError? {
        Array(reply.utf8).withUnsafeBytes { peer.failure(in: $0) }
    }

    @Test("a request to the agent is one line, with the namespace unless it is the default one")
    func larderRequests() {
        let get = larder.getRequest(path: "a.b", namespace: "default", id: 7)
        let expected = #"{"jsonrpc":"2.0","id":7,"method":"config.get","params":{"path":"a.b"}}"# + "\n"
        #expect(String(decoding: get, as: UTF8.self) == expected)
        let subscribe = larder.subscribeRequest(path: "c", namespace: "relaxed")
        #expect(String(decoding: subscribe, as: UTF8.self).contains(#""params":{"namespace":"relaxed","path":"c"}"#))
    }

    @Test("special characters in a path are escaped")
    func escaping() {
        let get = larder.getRequest(path: "a\"\\\n\u{e9}", namespace: "default", id: 7)
        #expect(String(decoding: get, as: UTF8.self).contains(#""path":"a\"\\\né""#))
    }

    @Test("a command to Redis counts bytes, not characters")
    func redisRequests() {
        #expect(
            redis.setRequest(path: "é", namespace: "default", value: "20")
                == Array("*3\r\n$3\r\nSET\r\n$2\r\né\r\n$2\r\n20\r\n".utf8))
    }

    @Test("the value of a set request is its last parameter")
    func values() {
        let set = larder.setRequest(path: "p", namespace: "default", value: ["a": 1])
        let expected = #"{"jsonrpc":"2.0","id":100,"method":"config.set","params":{"path":"p","value":{"a":1}}}"# + "\n"
        #expect(String(decoding: set, as: UTF8.self) == expected)
    }

    @Test("a set request for etcd contains the value unchanged, as if it were base64 text, padded to a valid length")
    func etcdRequests() {
        let etcd = Peer(kind: .etcd, socketPath: "")
        let put = etcd.setRequest(path: "key", namespace: "default", value: "abcde")
        let body = #"{"key":"a2V5","value":"abcdexxx"}"#
        #expect(String(decoding: put, as: UTF8.self).hasSuffix("Content-Length: \(body.utf8.count)\r\n\r\n\(body)"))
        #expect(failure(etcd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") != nil)
        #expect(failure(etcd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") == nil)
    }

    @Test("a reply whose value looks like an error is not an error")
    func errors() {
        #expect(failure(larder, #"{"jsonrpc":"2.0","id":1,"result":{"value":{"error":1}}}"#) == nil)
        #expect(
            failure(larder, #"{"jsonrpc":"2.0","id":1,"error":{"message":"no \"result\": here"}}"#) != nil)
        #expect(failure(redis, "-ERR unknown command\r\n") != nil)
        #expect(failure(redis, "$4\r\n-ERR\r\n") == nil)
    }

    @Test("a reply must begin with the prefix of its id; prefixes come from replies with ascending ids and one value")
    func prefixes() throws {
        func reply(_ id: Int, _ value: String) -> [UInt8] {
            Array(#"{"jsonrpc":"2.0","id":\#(id),"result":{"value":"\#(value)","revision":1}}"#.utf8)
        }
        let prefixes = try ReplyPrefixes([reply(5, "x"), reply(6, "x")], of: larder, value: "x", firstID: 5)
        #expect(reply(5, "other").withUnsafeBytes { prefixes.match($0, at: 0) })
        #expect(!reply(5, "x").withUnsafeBytes { prefixes.match($0, at: 1) })
        #expect(throws: BenchError.self) {
            try ReplyPrefixes([reply(6, "x"), reply(5, "x")], of: larder, value: "x", firstID: 5)
        }
        #expect(throws: BenchError.self) { try ReplyPrefixes([reply(5, "y")], of: larder, value: "x", firstID: 5) }
        #expect(throws: BenchError.self) {
            try ReplyPrefixes([Array("$-1\r\n".utf8)], of: redis, value: "x", firstID: 5)
        }
    }

    @Test("a search finds a text at either end and after a partial match")
    func search() {
        #expect(ReplyText.end(of: "aab", in: Array("aaab".utf8)) == 4)
        #expect(ReplyText.end(of: "a", in: Array("a".utf8)) == 1)
        #expect(ReplyText.end(of: "ab", in: Array("a".utf8)) == nil)
        #expect(ReplyText.offsets(of: "ab", in: Array("abxabab".utf8)) == [0, 3, 5])
    }
}
