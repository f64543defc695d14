import Crypto
import LarderEncoding
package import LarderJSON
import Synchronization

/// SHA-256 of a snapshot's text, worked out when somebody asks for it for the first time.
///
/// Publications are waited for, and most are followed by another one before anybody has asked for their digest. That of a
/// large document is worked out at once: whoever asks may be a thread that serves others, and the document is held until
/// then, by each of the newest generations.
package final class SnapshotDigest: Sendable {
    private enum State {
        case of(JSONValue)
        case known(String)
    }

    /// From here on a document is large: sixteen of them are 64 megabytes. To hash what is smaller takes less than 10 ms.
    private static let largeBytes = 4 << 20

    private let state: Mutex<State>

    /// The digest of a value's compact text.
    package init(of value: JSONValue) {
        let isLarge = value.documentMemory > Self.largeBytes
        state = Mutex(isLarge ? .known(Self.text(of: value)) : .of(value))
    }

    /// A digest that is known: lower-case hex.
    package init(known text: String) { state = Mutex(.known(text)) }

    /// Lower-case hex. Whoever asks meanwhile waits until it is worked out.
    package var text: String {
        state.withLock { state in
            switch state {
            case .known(let text): return text
            case .of(let value):
                let text = Self.text(of: value)
                state = .known(text)
                return text
            }
        }
    }

    /// The digest of a value's compact text: lower-case hex.
    package static func text(of value: JSONValue) -> String { value.withTextBytes { SHA256.hash(data: $0).hex } }
}
