import Glibc
package import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderPlatform

/// The location of a secret: a token or a password. The secret is read for each use, so that a replacement takes effect
/// at once. Descriptions and messages may contain this location, never the secret.
package enum Credential: Sendable, Equatable {
    /// A file that belongs to the agent's user or to root and that others cannot read.
    case file(String)
    /// A systemd credential of the service, by name (`LoadCredential=`, systemd.exec(5)).
    case systemd(String)

    package static func == (left: Credential, right: Credential) -> Bool {
        switch (left, right) {
        case (.file(let left), .file(let right)), (.systemd(let left), .systemd(let right)): left.isSpelled(as: right)
        default: false
        }
    }

    /// The maximum size of a secret, in bytes.
    package static let maximumBytes = 64 * 1024

    /// Reads the secret, without trailing line breaks. Blocks on disk I/O.
    ///
    /// - Parameter directory: the directory of the systemd credentials, by default `$CREDENTIALS_DIRECTORY`
    /// - Throws: `upstreamFailed`, with the name of the file but not its content
    package func read(systemd directory: String? = Self.systemdDirectory) throws(ConfigError) -> String {
        let path: String
        switch self {
        case .file(let file): path = file
        case .systemd(let name):
            guard let directory else {
                throw ConfigError(
                    .upstreamFailed,
                    "there is no credential \"\(name)\": systemd passed none to the agent; add "
                        + "LoadCredential=\(name):FILE to its unit, or name a file")
            }
            path = directory + "/" + name
        }
        do throws(FileReadError) {
            // systemd restricts access to the directory of the credentials, so the mode of the files in it does not
            // matter.
            let isGuarded = if case .systemd = self { true } else { false }
            let bytes = try StableFileReader(
                name: path.cPath, path: path, maximumBytes: Self.maximumBytes, mustBePrivate: !isGuarded
            ).read().bytes
            guard let text = String(validating: ByteOrderMark.dropped(from: bytes), as: UTF8.self) else {
                throw FileReadError(.ioFailed, path, "it is not UTF-8 text; replace it")
            }
            let secret = text.trimmingLineEnds
            guard !secret.isEmpty else { throw FileReadError(.empty, path, "it is empty; write the secret to it") }
            return secret
        } catch {
            throw ConfigError(.upstreamFailed, "\(error)")
        }
    }

    /// `$CREDENTIALS_DIRECTORY`, which does not change after the start of the agent.
    private static var systemdDirectory: String? { getenv("CREDENTIALS_DIRECTORY").map { String(cString: $0) } }
}

extension String {
    /// The text without trailing line breaks, which most editors and `echo` add.
    fileprivate var trimmingLineEnds: String {
        var scalars = unicodeScalars[...]
        while let last = scalars.last, last == "\n" || last == "\r" { scalars.removeLast() }
        return String(scalars)
    }
}
