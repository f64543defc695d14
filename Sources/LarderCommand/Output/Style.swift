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

    func strong(_ text: String) -> String { wrapped(text, .bold) }

    /// The name of a state in its color: green for good, yellow for a warning, red for a failure.
    func state(_ state: ConfigState) -> String {
        switch state {
        case .fresh, .refreshing: wrapped(state.rawValue, .green)
        case .stale, .initializing: wrapped(state.rawValue, .yellow)
        case .failed: wrapped(state.rawValue, .red)
        default: state.rawValue.printable
        }
    }

    func freshness(_ freshness: ImageFreshness) -> String {
        freshness == .stale ? warning(freshness.rawValue) : good(freshness.rawValue.printable)
    }

    func good(_ text: String) -> String { wrapped(text, .green) }

    func warning(_ text: String) -> String { wrapped(text, .yellow) }

    func problem(_ text: String) -> String { wrapped(text, .red) }

    private func wrapped(_ text: String, _ color: Color) -> String {
        isColoured ? color.sequence + text + Color.none.sequence : text
    }

    /// The control sequences that this type writes.
    static let sequences = Color.allCases.map(\.sequence)

    /// Renditions of ECMA-48 (SGR).
    private enum Color: Int, CaseIterable {
        case none = 0
        case bold = 1
        case red = 31
        case green = 32
        case yellow = 33

        var sequence: String { "\u{1B}[\(rawValue)m" }
    }
}
