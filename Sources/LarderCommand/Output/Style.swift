import Glibc
import LarderClientCore

/// Colors text if the terminal supports colors and the user does not disable them.
struct Style {
    let isColoured: Bool

    /// The style for standard output: colors on a terminal that supports them, unless `NO_COLOR` is set
    /// (https://no-color.org).
    static var standardOutput: Style {
        func variable(_ name: String) -> String { getenv(name).map { String(cString: $0) } ?? "" }
        return Style(isTerminal: Output.isTerminal, noColor: variable("NO_COLOR"), terminal: variable("TERM"))
    }

    init(isTerminal: Bool, noColor: String, terminal: String) {
        isColoured = isTerminal && noColor.isEmpty && terminal != "dumb"
    }

    func strong(_ text: String) -> String { wrapped(text, "1") }

    /// The name of a state in its color: green for good, yellow for a warning, red for a failure.
    func state(_ state: ConfigState) -> String {
        switch state {
        case .fresh, .refreshing: wrapped(state.rawValue, "32")
        case .stale, .initializing: wrapped(state.rawValue, "33")
        case .failed: wrapped(state.rawValue, "31")
        default: state.rawValue.printable
        }
    }

    func freshness(_ freshness: ImageFreshness) -> String {
        freshness == .stale ? warning(freshness.rawValue) : good(freshness.rawValue.printable)
    }

    func good(_ text: String) -> String { wrapped(text, "32") }

    func warning(_ text: String) -> String { wrapped(text, "33") }

    func problem(_ text: String) -> String { wrapped(text, "31") }

    func added(_ text: String) -> String { wrapped(text, "32") }

    private func wrapped(_ text: String, _ code: String) -> String {
        isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}
