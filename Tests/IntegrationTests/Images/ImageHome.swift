import Foundation
import LarderJSON
import TestSupport
import Testing

extension AgentHome {
    /// Makes a home with an origin of images beside it, for a test that starts its agents itself.
    /// - Parameters:
    ///   - images: further members of the section `images` of the settings, as JSON5
    ///   - networks: what the settings allow
    ///   - gate: what the origin's `/gate/` stands for
    static func withImages(
        _ images: String = "", networks: String = "'127.0.0.1/32'", gate: RawOrigin? = nil,
        _ body: (AgentHome, ImageOrigin) throws -> Void
    ) throws {
        try with(settings: imageSettings(images, networks: networks)) { home in
            let origin = try ImageOrigin(below: home.directory, gate: gate)
            defer { origin.stop() }
            try body(home, origin)
        }
    }

    /// Settings with a section `images`. The disk that the tests run on may be as full as it likes.
    static func imageSettings(_ images: String, networks: String = "'127.0.0.1/32'") -> String {
        "{ images: { allowNetworks: [\(networks)], minimumFreeBytes: 0, \(images) } }"
    }
}

extension LineClient {
    /// Sends `image.get`.
    /// - Parameter more: further parameters
    /// - Returns: its id
    func requestImage(_ url: String, _ more: JSONValue = [:]) throws -> Int {
        try request("image.get", MergePatch.apply(["url": .string(url)], to: more))
    }

    /// Asks for an image and waits for it.
    func image(_ url: String, _ more: JSONValue = [:]) throws -> JSONValue {
        try reply(to: try requestImage(url, more))
    }

    /// Asks for an image that the agent has to refuse.
    func imageRefusal(_ url: String, _ more: JSONValue = [:]) throws -> Refusal {
        try refusal("image.get", MergePatch.apply(["url": .string(url)], to: more))
    }

    /// All rows of `image.list`, page after page.
    func images(pageSize: Int = 1000) throws -> [JSONValue] {
        var rows: [JSONValue] = []
        var next: JSONValue?
        repeat {
            var params: JSONValue = ["limit": .int(pageSize)]
            if let next { params = MergePatch.apply(["after": next], to: params) }
            let page = try call("image.list", params)
            rows += try require(page["images"], "images").elements
            next = page["next"].flatMap { $0.isNull ? nil : $0 }
        } while next != nil
        return rows
    }

    /// The counters of images.
    func imageStatistics() throws -> JSONValue {
        try require(try call("agent.stats")["images"], "images in agent.stats")
    }

    /// Waits until a counter of images has a value at least.
    func waitForImages(_ counter: String, atLeast wanted: Int) throws {
        try call("agent.stats", until: { ($0["images"]?[counter]?.int ?? -1) >= wanted })
    }

    /// Waits until a counter of images has a value.
    func waitForImages(_ counter: String, toBe wanted: Int) throws {
        try call("agent.stats", until: { $0["images"]?[counter]?.int == wanted })
    }
}

/// A reply to `image.get`, held against what is on disk.
struct ServedImage {
    let path: String
    /// 64 hexadecimal digits.
    let digest: String
    let reply: JSONValue

    init(_ reply: JSONValue) throws {
        self.reply = reply
        path = try require(reply["path"]?.string, "path in \(reply)")
        digest = try Self.digest(reply)
    }

    /// The digest of a reply, or of a row of `image.list`.
    static func digest(_ value: JSONValue) throws -> String {
        let text = try require(value["digest"]?.string, "digest in \(value)")
        guard text.hasPrefix("sha256:") else { throw HarnessError("the digest of \(value)") }
        return String(text.dropFirst("sha256:".count))
    }

    var source: String { reply["source"]?.string ?? "" }
    var freshness: String { reply["freshness"]?.string ?? "" }

    /// The bytes that the file has now, which have to be those that its name stands for.
    func verifiedBytes() throws -> [UInt8] {
        let bytes = try [UInt8](Data(contentsOf: URL(filePath: path)))
        let found = MadeImage.digest(bytes)
        guard found == digest, path.hasSuffix("/" + digest) else {
            throw HarnessError("\(path) was served as \(digest), and its bytes are \(found)")
        }
        guard bytes.count == reply["bytes"]?.int else { throw HarnessError("\(bytes.count) bytes: \(reply)") }
        return bytes
    }

    /// Whether it is a certain image, whole.
    func isWhole(_ image: MadeImage) throws -> Bool { try verifiedBytes() == image.bytes }
}

extension RawOrigin.Answer {
    /// A whole image, as a well-behaved origin sends it.
    static func image(_ image: MadeImage, _ fields: String..., status: String = "200 OK") -> Self {
        head(status, fields + ["Content-Length: \(image.bytes.count)"], image.bytes)
    }

    /// A head with these fields, and whatever is to follow; then the connection is closed.
    static func head(_ status: String, _ fields: [String], _ body: some Sequence<UInt8> = []) -> Self {
        let head = ["HTTP/1.1 \(status)", "Connection: close"] + fields
        return .bytes(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body, thenClose: true)
    }
}
