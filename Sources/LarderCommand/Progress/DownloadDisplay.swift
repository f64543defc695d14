import LarderClientCore
import LarderProtocol
import Synchronization

/// Displays the progress of one download in a line of a terminal. The line appears once the download has taken a
/// second, so that short downloads show nothing.
final class DownloadDisplay: Sendable {
    private struct State {
        /// The time and the received bytes of the first progress, or of the first after the download started again.
        var first: (at: Duration, bytes: Int)?
        /// Whether the cursor is in the line of the progress.
        var isLineOpen = false
    }

    private let screen: ProgressDisplay.Screen
    private let state = Mutex(State())

    /// The time after which the line appears.
    private static let delay = Duration.seconds(1)

    init(on screen: ProgressDisplay.Screen) { self.screen = screen }

    /// Whether the output is a terminal. Otherwise nothing is displayed.
    var isVisible: Bool { screen.columns() != nil }

    /// Shows new progress.
    func show(_ progress: ImageGet.Progress) {
        guard let columns = screen.columns() else { return }
        let now = screen.now()
        let line = state.withLock { state -> String? in
            let first =
                state.first.flatMap { progress.receivedBytes < $0.bytes ? nil : $0 }
                ?? (at: now, bytes: progress.receivedBytes)
            state.first = first
            guard now - first.at >= Self.delay else { return nil }
            state.isLineOpen = true
            let seconds = (now - first.at) / .seconds(1)
            let rate = Int(Double(progress.receivedBytes - first.bytes) / seconds)
            return Self.line(progress, bytesPerSecond: rate)
        }
        if let line { screen.redraw(line, columns: columns) }
    }

    /// Removes the line, so that other text can follow.
    func end() {
        let isOpen = state.withLock { state in
            defer { state.isLineOpen = false }
            return state.isLineOpen
        }
        if isOpen { screen.write("\r\u{1B}[K") }
    }

    /// The text of the line: `38 MB of 100 MB, 38 %, 1.2 MB/s`.
    static func line(_ progress: ImageGet.Progress, bytesPerSecond: Int) -> String {
        var parts = [Human.bytes(progress.receivedBytes)]
        if let total = progress.totalBytes, total > 0 {
            parts[0] += " of \(Human.bytes(total))"
            parts.append("\(Int(Double(progress.receivedBytes) / Double(total) * 100)) %")
        }
        parts.append("\(Human.bytes(bytesPerSecond))/s")
        if progress.isShared { parts.append("shared with another request") }
        return parts.joined(separator: ", ")
    }
}
