package import LarderConfigModel
import LarderDigest
import LarderEncoding
package import LarderJSON
import LarderUpstream

/// Identifies what a source of the settings sends: validators, seen versions, holds and rejections are only valid for the
/// source with the same identity. It is a digest of everything that selects the document, without credentials, so that
/// a new token or another endpoint of a cluster does not make it another source.
struct SourceIdentity {
    private var hash = SHA256()

    init(kind: String) { add(kind) }

    /// Adds a part; nil if the settings do not have it.
    mutating func add(_ part: (some Sequence<UInt8>)?) {
        guard let part else { return hash.update([0]) }
        let bytes = Array(part)
        // The length before each part ensures that different settings never produce the same input to the hash.
        hash.update([1])
        withUnsafeBytes(of: bytes.count.littleEndian) { hash.update($0) }
        hash.update(bytes)
    }

    mutating func add(_ part: String?) { add(part?.utf8) }

    mutating func add(_ path: JSONPath?) { add(path?.pointer) }

    /// Adds header fields, except for those that contain credentials. The case of their names and their order do not
    /// matter.
    mutating func add(_ headers: [String: String]) {
        let fields = headers.map { (name: $0.key.lowercased(), value: $0.value) }
            .filter { !Self.credentials.contains($0.name) }
            .sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        for field in fields {
            add(field.name)
            add(field.value)
        }
        add(nil as String?)
    }

    /// The names of header fields that contain credentials (RFC 9110, section 11, and RFC 6265).
    private static let credentials: Set = ["authorization", "proxy-authorization", "cookie"]

    /// `sha256:` and 64 hexadecimal digits.
    var text: String { "sha256:" + hash.finalize().hex }
}

extension HTTPSourceSettings {
    var identity: String {
        var identity = SourceIdentity(kind: "http")
        identity.add(url)
        // A request with a body is a POST, and one without is a GET.
        identity.add(body)
        identity.add(access.headers)
        identity.add(responsePath)
        identity.add(versionPath)
        return identity.text
    }
}

extension SSESourceSettings {
    var identity: String {
        var identity = SourceIdentity(kind: "sse")
        identity.add(url)
        identity.add(pollURL)
        identity.add(access.headers)
        identity.add(versionPath)
        return identity.text
    }
}

extension FileSourceSettings {
    var identity: String {
        var identity = SourceIdentity(kind: "file")
        identity.add(path)
        identity.add(versionPath)
        return identity.text
    }
}

extension EtcdSourceSettings {
    var identity: String {
        var identity = SourceIdentity(kind: "etcd")
        switch keys {
        case .prefix(let prefix):
            identity.add("prefix")
            identity.add(prefix)
        case .prefixes(let prefixes):
            identity.add("prefixes")
            for prefix in prefixes { identity.add(prefix) }
        case .key(let key):
            identity.add("key")
            identity.add(key)
        }
        return identity.text
    }
}

/// Formats the URLs of sources for messages and the status.
enum SourceURL {
    /// Removes user information and the query from a URL, because they may contain secrets.
    static func display(_ url: String) -> String {
        var text = url[...]
        if let query = text.firstIndex(where: { $0 == "?" || $0 == "#" }) { text = text[..<query] }
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2, let at = parts[2].lastIndex(of: "@") else { return String(text) }
        let host = parts[2][parts[2].index(after: at)...]
        return ([parts[0], parts[1], host] + parts[3...]).joined(separator: "/")
    }
}

/// The file and line that define a value.
package struct SourceLocation: Sendable, Hashable {
    package var file: String
    /// The line, from 1.
    package var line: Int

    /// Searches the files of a layer for the definition of the value at a path. Blocks on disk I/O.
    ///
    /// - Parameters:
    ///   - location: the file or directory of the layer
    ///   - effect: the known effect of the layer at the path. If the files now have another effect, they have changed.
    ///     Nil for an unknown effect.
    ///   - merge: builds the layer from the documents of the files
    /// - Returns: the location in the last file that affects the path, because that file overrides the others. Nil if
    ///   no file affects the path, or if the files cannot be read or have changed.
    package static func find(
        _ path: [String], in location: String, maximumBytes: Int, effect: PatchEffect?,
        merge: ([JSONValue]) -> ComposedPatch
    ) -> SourceLocation? {
        guard let reading = try? DocumentFiles.read(at: location, maximumBytes: maximumBytes),
            let documents = try? reading.documents(), effect == nil || merge(documents).effect(at: path) == effect
        else { return nil }
        for (file, document) in zip(reading.files, documents).reversed()
        where document.effect(at: path) != .unchanged {
            return SourceLocation(file: file.path, line: DocumentFiles.line(of: JSONPath(path), in: file, document))
        }
        return nil
    }
}
