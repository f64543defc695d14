import LarderConfigModel
import LarderJSON
import LarderProtocol
import NIOCore
import Testing

@testable import LarderConfig
@testable import LarderServer

@Suite("Reply cache")
struct ReplyCacheTests {
    private static let status = PublishedStatus(NamespaceStatus(source: nil), holding: Layers())
    private static let line = line("")

    private static func line(_ path: String) -> [UInt8] {
        Array(#"{"id":1,"method":"config.get","params":["\#(path)"]}"#.utf8)
    }

    private static func snapshot(_ revision: Int) -> ConfigSnapshot {
        ConfigSnapshot(value: .emptyObject, revision: revision, publishedAt: 0)
    }

    private static func rights(_ rights: Rights = .all, in namespaces: [String: Rights] = [:]) -> PeerRights {
        var rules = AccessRules()
        rules.general.others = rights
        rules.namespaces = namespaces.mapValues { AccessRules.Grants(others: $0) }
        return PeerRights(of: .stranger, by: rules, version: 0)
    }

    private static func publication() -> ConfigPublication {
        ConfigPublication(namespace: "default", epoch: "e", snapshot: snapshot(1), status: status)
    }

    private func keep(
        _ reply: String, in cache: inout ReplyCache, of publication: ConfigPublication, for line: [UInt8] = Self.line
    ) throws {
        guard let source = SnapshotSource(publication, publication.current) else { return }
        try line.withUnsafeBytes { bytes in
            let template = try #require(RequestTemplate(bytes))
            cache.keep(Array(reply.utf8)[...], for: template, requiring: .inNamespace(.read, "default"), source)
        }
    }

    private func cached(
        in cache: inout ReplyCache, line: [UInt8] = Self.line,
        ifAllowed isAllowed: (Requirement) -> Bool = { _ in true }
    ) throws -> String? {
        try line.withUnsafeBytes { bytes in
            let template = try #require(RequestTemplate(bytes))
            guard let entry = cache.lookup(template), isAllowed(entry.value.requirement) else { return nil }
            var output = JSONWriter()
            let rest = ReplyCache.append(entry, for: template, to: &output)
            return String(decoding: output.bytes, as: UTF8.self) + (rest.map { String(buffer: $0) } ?? "")
        }
    }

    @Test("a reply is cached until the next publication")
    func stale() throws {
        var cache = ReplyCache()
        let publication = Self.publication()
        try keep(#","result":1}"#, in: &cache, of: publication)
        #expect(try cached(in: &cache) == #"{"jsonrpc":"2.0","id":1,"result":1}"#)
        publication.publish(Self.snapshot(2), status: Self.status)
        #expect(try cached(in: &cache) == nil)
        #expect(cache.count == 0)
    }

    @Test("large replies are cached up to a total size")
    func large() throws {
        var cache = ReplyCache()
        let publication = Self.publication()
        let reply = String(repeating: "x", count: ReplyCache.maxLargeBytes / 4)
        for path in 0..<20 { try keep(reply, in: &cache, of: publication, for: Self.line("\(path)")) }
        var found = 0
        for path in 0..<20 {
            guard let text = try cached(in: &cache, line: Self.line("\(path)")) else { continue }
            #expect(text.hasSuffix(reply) && text.utf8.count > reply.utf8.count)
            found += 1
        }
        #expect(1...4 ~= found)
        // A single reply that is larger than this total size is not cached.
        try keep(reply + reply + reply + reply + "x", in: &cache, of: publication, for: Self.line("whole"))
        #expect(try cached(in: &cache, line: Self.line("whole")) == nil)
        publication.publish(Self.snapshot(2), status: Self.status)
        for path in 0..<20 { #expect(try cached(in: &cache, line: Self.line("\(path)")) == nil) }
        #expect(cache.count == 0)
    }

    @Test("isRepeated is true if the last line in the same slot of the cache was equal except for its id")
    func repetition() throws {
        var cache = ReplyCache()
        func isRepeated(_ line: String) throws -> Bool {
            try Array(line.utf8).withUnsafeBytes { cache.isRepeated(try #require(RequestTemplate($0))) }
        }
        #expect(try !isRepeated(#"{"id":1,"method":"config.get"}"#))
        #expect(try isRepeated(#"{"id":2,"method":"config.get"}"#))
        #expect(try isRepeated(#"{"id":"x","method":"config.get"}"#))
        #expect(try !isRepeated(#"{"id":2,"method":"config.get" }"#))
        for number in 0..<10_000 { #expect(try !isRepeated(#"{"id":2,"method":"\#(number)"}"#)) }
        #expect(try !isRepeated(#"{"id":2,"method":"config.get"}"#))
    }

    @Test("a cached reply is sent only to peers that have the right to read its namespace")
    func rights() async throws {
        try await ConnectionFixture.with { _, context in
            var cache = ReplyCache()
            try keep("}", in: &cache, of: Self.publication())
            func isCached(for rights: PeerRights) throws -> Bool {
                try cached(in: &cache) { context.authorizer.decide($0, rights) == nil } != nil
            }
            #expect(try !isCached(for: Self.rights([])))
            #expect(try !isCached(for: Self.rights(Rights([.write, .administer, .secrets]))))
            #expect(try !isCached(for: Self.rights(.all, in: ["default": Rights([.write])])))
            #expect(try isCached(for: Self.rights([], in: ["default": Rights([.read])])))
            #expect(try isCached(for: Self.rights(Rights([.read]), in: ["shop": []])))
            #expect(try isCached(for: Self.rights()))
        }
    }

    @Test("a reply for a removed namespace is not cached, and its ConfigPublication object is deallocated")
    func ended() throws {
        var cache = ReplyCache()
        weak var released: ConfigPublication?
        do {
            let publication = Self.publication()
            released = publication
            try keep("}", in: &cache, of: publication)
            publication.end()
            #expect(try cached(in: &cache) == nil)
            // Simulates a request that found the namespace before its removal and stores its reply after the removal.
            try keep("}", in: &cache, of: publication)
            #expect(try cached(in: &cache) == nil)
        }
        #expect(released == nil)
    }
}
