import Foundation
import LarderUpstream
import TestSupport
import Testing

@testable import LarderImages

@Suite("Content codings of images", .timeLimit(.minutes(15)))
struct ContentCodingTests {
    private static let svg = Array(
        ("<svg xmlns='http://www.w3.org/2000/svg' width='30' height='20'>"
            + (0..<500).map { "<rect x='\($0)' width='1' height='1'/>" }.joined() + "</svg>").utf8)

    /// The bytes in the formats gzip, zlib and raw deflate.
    private static func compressed(_ bytes: [UInt8]) throws -> (gzip: [UInt8], zlib: [UInt8], raw: [UInt8]) {
        let gzip = try withTemporaryDirectory { directory in
            let path = directory + "/image"
            try Data(bytes).write(to: URL(filePath: path))
            let command = try Command.run("gzip", ["-n", path], directory: directory, input: "")
            guard command.end == .exit(0) else { throw HarnessError("gzip: \(command.log)") }
            return Array(try Data(contentsOf: URL(filePath: path + ".gz")))
        }
        let raw = Array(gzip[10..<(gzip.count - 8)])
        var (low, high) = (1, 0)
        for byte in bytes {
            low = (low + Int(byte)) % 65_521
            high = (high + low) % 65_521
        }
        let checksum = [high >> 8, high & 0xFF, low >> 8, low & 0xFF].map { UInt8($0) }
        return (gzip, [0x78, 0x9C] + raw + checksum, raw)
    }

    private func body(
        of script: @escaping RawOrigin.Script, limits: SpaceLimits = SpaceLimits(freeBytes: 0, bytesPerImage: 1 << 20)
    ) async throws -> [UInt8] {
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run(limits: limits) { fixture in
                guard case .published(let blob, _, _) = try await fixture.download(server.url).run() else { return [] }
                #expect(server.requests.count == 1)
                let bytes = try await fixture.disk.contents(blob.digest)
                #expect(blob.size == bytes.count && blob.digest == BlobDigest(sha256: bytes))
                return bytes
            }
        }
    }

    @Test(
        "an intact image is taken as it is, whatever its declared coding",
        arguments: [
            "aws-chunked", "none", "utf-8", "identity, identity", "gzip", "deflate", "aws-chunked,gzip", "br", "",
        ])
    func mislabeled(_ coding: String) async throws {
        for image in [picture(1, size: 5000), Self.svg] {
            let bytes = try await body { _, _ in [.ok(image, "Content-Encoding: \(coding)", "Content-Type: image/x")] }
            #expect(bytes == image)
        }
    }

    @Test("a compressed image is decoded, and its digest and size are those of the decoded bytes")
    func compressed() async throws {
        let forms = try Self.compressed(Self.svg)
        for (coding, form) in [
            ("gzip", forms.gzip), ("X-GZIP", forms.gzip), ("aws-chunked, gzip", forms.gzip), ("deflate", forms.zlib),
            ("deflate", forms.raw), ("gzip", forms.gzip + [0, 0, 0]),
        ] {
            #expect(try await body { _, _ in [.ok(form, "Content-Encoding: \(coding)")] } == Self.svg, "\(coding)")
            let pieces = form.map { RawOrigin.Step.chunk([$0]) }
            let bytes = try await body { _, _ in
                RawOrigin.Answer(
                    steps: [.head("HTTP/1.1 200 OK", "Content-Encoding: \(coding)", "Transfer-Encoding: chunked")]
                        + pieces + [.text("0\r\n\r\n")])
            }
            #expect(bytes == Self.svg, "\(coding)")
        }
        // A body may have several members (RFC 1952, section 2.2).
        let half = Self.svg.count / 2
        let members =
            try Self.compressed(Array(Self.svg[..<half])).gzip + Self.compressed(Array(Self.svg[half...])).gzip
        #expect(try await body { _, _ in [.ok(members, "Content-Encoding: gzip")] } == Self.svg)
    }

    @Test("a compressed body is limited by the size of the image and by the ratio of the sizes")
    func bombs() async throws {
        let large = Self.svg.dropLast(6) + [UInt8](repeating: 0x20, count: 3 << 20) + Array("</svg>".utf8)
        let form = try Self.compressed(Array(large)).gzip
        let script: RawOrigin.Script = { _, _ in [.ok(form, "Content-Encoding: gzip")] }
        let small = await #expect(throws: ImageError.self) {
            try await body(of: script, limits: SpaceLimits(freeBytes: 0, bytesPerImage: 1 << 19))
        }
        #expect(small?.code == .tooLarge)
        let error = await #expect(throws: ImageError.self) {
            try await body(of: script, limits: SpaceLimits(freeBytes: 0, bytesPerImage: 8 << 20))
        }
        #expect(error?.cause?.code == .unsupportedEncoding)
        #expect(error?.message.contains("100 times") == true)
    }

    @Test("an incomplete or damaged compressed body is an error, and is not resumed")
    func incomplete() async throws {
        let form = try Self.compressed(Self.svg).gzip
        // The last eight bytes are a checksum and the size.
        var damaged = form
        damaged[form.count - 8] ^= 1
        for (bytes, cause) in [(Array(form.dropLast(20)), "truncated"), (damaged, "unsupportedEncoding")] {
            let script: RawOrigin.Script = { _, _ in [.ok(bytes, "Content-Encoding: gzip", "ETag: \"a\"")] }
            try await RawOrigin.serve(script) { server in
                try await DownloadFixture.run { fixture in
                    let error = await #expect(throws: ImageError.self) { try await fixture.download(server.url).run() }
                    #expect(error.map { "\($0.cause?.code.rawValue ?? "")" } == cause)
                    #expect(!server.requests.contains { $0.lowercased().contains("\r\nrange:") })
                    #expect(fixture.isEmpty)
                }
            }
        }
        // After an interruption the image is requested from its start.
        let script: RawOrigin.Script = { number, _ in
            number > 0
                ? [.ok(form, "Content-Encoding: gzip", "ETag: \"a\"")]
                : [
                    .head("HTTP/1.1 200 OK", "Content-Encoding: gzip", "ETag: \"a\"", "Content-Length: \(form.count)"),
                    .send(Array(form[..<400])), .close,
                ]
        }
        try await RawOrigin.serve(script) { server in
            try await DownloadFixture.run { fixture in
                guard case .published(let blob, _, _) = try await fixture.download(server.url).run() else {
                    Issue.record("not published")
                    return
                }
                #expect(blob.size == Self.svg.count)
                #expect(server.requests.count == 2)
                #expect(!server.requests.contains { $0.lowercased().contains("\r\nrange:") })
            }
        }
    }
}
