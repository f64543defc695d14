import Testing

@testable import larder_bench

@Suite("Replay of traces")
struct ReplayTests {
    private func hits<Policy: ReplayPolicy>(_ type: Policy.Type, _ keys: [Int], size: Int = 1, capacity: Int) throws
        -> Int
    {
        let trace = try Trace(csv: Array(keys.map { "\($0),\(size)\n" }.joined().utf8))
        var policy = Policy(trace, capacity: capacity)
        return trace.requests.indices.count { policy.request($0) }
    }

    @Test("a trace may have a header, empty lines, commas in keys, and no final line feed")
    func reading() throws {
        let text = "key,size\r\nhttps://a/1,2.png,30\r\n\nb, 7\nhttps://a/1,2.png,99\nb,7"
        let trace = try Trace(csv: Array(text.utf8))
        #expect(trace.requests == [0, 1, 0, 1])
        #expect(trace.sizes == [30, 7])
        #expect(trace.nextRequests() == [2, 3, .max, .max])
    }

    @Test("an invalid line is reported with its number", arguments: ["a,1\nb,x\n", "a,1\nb\n", "a,1\nb,-1\n"])
    func invalid(_ text: String) {
        let error = #expect(throws: BenchError.self) { try Trace(csv: Array(text.utf8)) }
        #expect(error?.description.contains("line 2") == true)
    }

    @Test("an empty trace is rejected")
    func empty() { #expect(throws: BenchError.self) { try Trace(csv: Array("key,size\n".utf8)) } }

    @Test("LRU evicts the object with the oldest last request, Belady the one whose next request is furthest away")
    func policies() throws {
        // The requests cycle through one object more than the cache holds, so LRU never hits.
        let cycle = (0..<12).map { $0 % 4 }
        #expect(try hits(LRUReplay.self, cycle, capacity: 3) == 0)
        #expect(try hits(BeladyReplay.self, cycle, capacity: 3) == 6)
        #expect(try hits(LRUReplay.self, [1, 2, 1, 3, 1, 2], capacity: 2) == 2)
        #expect(try hits(LRUReplay.self, [1, 1, 1], size: 5, capacity: 4) == 0)
        #expect(try hits(BeladyReplay.self, [1, 1, 1], size: 5, capacity: 4) == 0)
        #expect(try hits(S3FIFOReplay.self, [1, 1, 1], size: 5, capacity: 4) == 0)
    }

    @Test("if all objects have the same size, no policy has more hits than Belady")
    func optimum() throws {
        var state: UInt64 = 5
        let keys = (0..<5000).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let wide = Int(state >> 33) % 400
            return wide * wide / 400
        }
        let best = try hits(BeladyReplay.self, keys, size: 1000, capacity: 50_000)
        let (own, lru) = (
            try hits(S3FIFOReplay.self, keys, size: 1000, capacity: 50_000),
            try hits(LRUReplay.self, keys, size: 1000, capacity: 50_000)
        )
        #expect(own <= best && lru <= best)
        #expect(own > 0 && lru > 0)
    }
}
