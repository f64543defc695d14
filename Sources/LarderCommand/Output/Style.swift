import Glibc
import LarderClient

/// Colour, where it helps and is wanted.
struct Style {
    let isColoured: Bool

    /// Colours on a terminal that can, unless `NO_COLOR` is set (https://no-color.org).
    static var standardOutput: Style {
        func variable(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
        return Style(isTerminal: Output.isTerminal, noColor: variable("NO_COLOR"), terminal: variable("TERM"))
    }

    init(isTerminal: Bool, noColor: String, terminal: String) {
        isColoured = isTerminal && noColor.isEmpty && terminal != "dumb"
    }

    /// Bold text.
    func strong(_ text: String) -> String { wrapped(text, "1") }

    /// A state's name in its colour: green where all is well, yellow where it will do, red where it does not.
    func state(_ state: ConfigState) -> String {
        switch state {
        case .fresh, .refreshing: wrapped(state.rawValue, "32")
        case .stale, .initializing: wrapped(state.rawValue, "33")
        case .failed: wrapped(state.rawValue, "31")
        default: state.rawValue.printable
        }
    }

    /// How good an image is.
    func freshness(_ freshness: ImageFreshness) -> String {
        freshness == .stale ? warning(freshness.rawValue) : good(freshness.rawValue.printable)
    }

    /// Something that is as it should be.
    func good(_ text: String) -> String { wrapped(text, "32") }

    /// Something that will do.
    func warning(_ text: String) -> String { wrapped(text, "33") }

    /// Something that went wrong.
    func problem(_ text: String) -> String { wrapped(text, "31") }

    /// Something that came into being.
    func added(_ text: String) -> String { wrapped(text, "32") }

    private func wrapped(_ text: String, _ code: String) -> String {
        isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}
