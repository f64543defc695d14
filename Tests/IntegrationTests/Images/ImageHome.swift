import Foundation
import LarderJSON
import TestSupport
import Testing

extension AgentHome {
    /// Runs a test in a new home with an image origin. The test starts the agents itself.
    /// - Parameters:
    ///   - images: Additional members of `images` in the settings, as JSON5.
    ///   - networks: The elements of `allowNetworks` in the settings.
    ///   - gate: The origin to which the image origin forwards requests below `/gate/`.
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

    /// Settings with a section `images`. `minimumFreeBytes` is 0, so that tests pass on a nearly full disk.
    static func imageSettings(_ images: String, networks: String = "'127.0.0.1/32'") -> String {
        "{ images: { allowNetworks: [\(networks)], minimumFreeBytes: 0, \(images) } }"
    }
}

extension LineClient {
    /// Sends `image.get` and returns the id of the request.
    /// - Parameter more: Additional parameters.
    func requestImage(_ url: String, _ more: JSONValue = [:]) throws -> Int {
        try request("image.get", MergePatch.apply(["url": .string(url)], to: more))
    }

    /// Sends `image.get` and waits for the result.
    func image(_ url: String, _ more: JSONValue = [:]) throws -> JSONValue {
        try reply(to: try requestImage(url, more))
    }

    /// Sends `image.get` for an image that the agent must refuse, and returns the error.
    func imageRefusal(_ url: String, _ more: JSONValue = [:]) throws -> Refusal {
        try refusal("image.get", MergePatch.apply(["url": .string(url)], to: more))
    }

    /// All rows of `image.list`, read page by page.
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

    /// The member `images` of `agent.stats`.
    func imageStatistics() throws -> JSONValue {
        try require(try call("agent.stats")["images"], "images in agent.stats")
    }

    /// Waits until a member of ``imageStatistics()`` is at least `value`.
    func waitForImages(_ counter: String, atLeast value: Int) throws {
        try call("agent.stats", until: { ($0["images"]?[counter]?.int ?? -1) >= value })
    }

    /// Waits until a member of ``imageStatistics()`` is `value`.
    func waitForImages(_ counter: String, toBe value: Int) throws {
        try call("agent.stats", until: { $0["images"]?[counter]?.int == value })
    }
}

/// The result of `image.get`, with checks of the file that it names.
struct ServedImage {
    let path: String
    /// The SHA-256 of the image, in 64 hexadecimal digits.
    let digest: String
    let reply: JSONValue

    init(_ reply: JSONValue) throws {
        self.reply = reply
        path = try require(reply["path"]?.string, "path in \(reply)")
        digest = try Self.digest(reply)
    }

    /// The digest in the result of `image.get` or in a row of `image.list`.
    static func digest(_ value: JSONValue) throws -> String {
        let text = try require(value["digest"]?.string, "digest in \(value)")
        guard text.hasPrefix("sha256:") else { throw HarnessError("no SHA-256 digest in \(value)") }
        return String(text.dropFirst("sha256:".count))
    }

    var source: String { reply["source"]?.string ?? "" }
    var freshness: String { reply["freshness"]?.string ?? "" }

    /// Reads the file.
    /// - Throws: An error if digest or size do not match the result.
    func verifiedBytes() throws -> [UInt8] {
        let bytes = try [UInt8](Data(contentsOf: URL(filePath: path)))
        let found = TestImage.digest(bytes)
        guard found == digest, path.hasSuffix("/" + digest) else {
            throw HarnessError("\(path) was served with digest \(digest), but its digest is \(found)")
        }
        guard bytes.count == reply["bytes"]?.int else {
            throw HarnessError("the file has \(bytes.count) bytes: \(reply)")
        }
        return bytes
    }

    /// Whether the file is exactly `image`.
    func isWhole(_ image: TestImage) throws -> Bool { try verifiedBytes() == image.bytes }
}

extension RawOrigin.Answer {
    /// A complete image with `Content-Length`.
    static func image(_ image: TestImage, _ fields: String..., status: String = "200 OK") -> Self {
        head(status, fields + ["Content-Length: \(image.bytes.count)"], image.bytes)
    }

    /// A response with this status, these fields and this body; then the connection closes.
    static func head(_ status: String, _ fields: [String], _ body: some Sequence<UInt8> = []) -> Self {
        let head = ["HTTP/1.1 \(status)", "Connection: close"] + fields
        return .bytes(Array((head.joined(separator: "\r\n") + "\r\n\r\n").utf8) + body, thenClose: true)
    }
}
