import LarderDigest
import LarderEncoding
package import LarderPlatform
import Logging

/// The file of reserved revisions. Revisions up to its bound may have been published although they are not on disk. All
/// functions block on disk I/O.
package struct RevisionReservation: Sendable {
    /// The number of revisions to skip if the last assigned revision is unknown: more than an agent assigns between two
    /// writes of a generation.
    static let unknownRevisions = 1 << 20

    private let namespace: String
    private let path: String
    private let files: any FileSystem
    private let logger: Logger

    /// - Parameter directory: the directory of the namespace
    init(namespace: String, directory: String, files: any FileSystem, logger: Logger) {
        self.namespace = namespace
        path = directory + "/reserved"
        self.files = files
        self.logger = logger
    }

    /// Reserves the revisions up to a bound: after a crash, none of them is assigned to other content.
    package func reserve(_ bound: Int) throws(FileError) {
        try files.replace(path, with: Array("\(bound) \(Self.checksum(of: bound))\n".utf8))
    }

    /// Reads the bound; 0 if nothing was reserved. If the file is damaged, the bound is far above `highestName`.
    /// - Parameter highestName: the highest revision in the name of a generation file
    func bound(after highestName: Int) throws(FileError) -> Int {
        guard let bytes = try files.read(path) else { return 0 }
        let words = bytes.dropLast().split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }
        // Earlier versions of this program wrote no checksum.
        if bytes.last == UInt8(ascii: "\n"), let revision = Int(words[0]), ExactIntegers.range.contains(revision),
            words.count == 1 || words == [words[0], Self.checksum(of: revision)]
        {
            return revision
        }
        logger.error(
            "namespace \(namespace): the file of reserved revisions, \(path), is damaged; numbering continues far above the newest generation",
            metadata: ["namespace": "\(namespace)", "file": "\(path)"])
        return highestName + Self.unknownRevisions
    }

    /// The checksum of a bound, by which damage to the file is detected. If damage lowered the bound unnoticed, a
    /// revision could be assigned twice.
    private static func checksum(of revision: Int) -> String {
        SHA256.hash("reserved \(revision)".utf8).prefix(8).hex
    }
}

/// The integers that every JSON reader represents exactly.
enum ExactIntegers {
    /// The valid revisions and sequence numbers.
    static let range = 0..<(1 << 53)
}
