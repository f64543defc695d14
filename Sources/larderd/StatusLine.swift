import LarderConfig

/// The part of the status line about namespaces: their number and those in the worst state, and those with problems.
///
/// It is updated with the changes of single namespaces. The time of an update and of ``text(clients:)`` does not grow
/// with the number of namespaces, except for those in a state other than `fresh`.
struct StatusLine {
    /// Texts in ascending order of the namespaces to which they belong, at most one for each.
    private struct Entries {
        private var entries: [(namespace: String, text: String)] = []

        var isEmpty: Bool { entries.isEmpty }

        /// The first three texts, and the number of the others.
        var text: String {
            entries.prefix(3).map(\.text).joined(separator: ", ")
                + (entries.count > 3 ? ", \(entries.count - 3) more" : "")
        }

        /// Replaces the text of a namespace; nil for none.
        /// - Returns: false if it has that text already
        mutating func set(_ text: String?, of namespace: String) -> Bool {
            var (low, high) = (0, entries.count)
            while low < high {
                let middle = (low + high) / 2
                if entries[middle].namespace < namespace { low = middle + 1 } else { high = middle }
            }
            let isPresent = low < entries.count && entries[low].namespace == namespace
            switch (isPresent, text) {
            case (false, nil): return false
            case (false, let text?): entries.insert((namespace, text), at: low)
            case (true, nil): entries.remove(at: low)
            case (true, let text?):
                if entries[low].text == text { return false }
                entries[low].text = text
            }
            return true
        }
    }

    /// The last state other than `refreshing`, by namespace. Before the first one: `refreshing` if there is a document
    /// from before the start, otherwise `initializing`.
    private var states: [String: Freshness] = [:]
    /// The namespaces in each state except `fresh`, beginning with the worst state.
    private var lists = [Freshness.failed, .stale, .initializing, .refreshing].map { (state: $0, entries: Entries()) }
    private var unwritable = Entries()
    /// The namespaces of which new content was rejected. A reason is short, because systemd ignores messages of more
    /// than 4,096 bytes.
    private var rejections = Entries()

    /// Adds a namespace, or updates it. `refreshing` does not replace the previous state.
    /// - Returns: whether the line changes
    mutating func note(_ status: PublishedStatus, of namespace: String) -> Bool {
        let previous = states[namespace]
        let state =
            switch status.freshness {
            case .refreshing: previous ?? (status.awaitsSource ? .initializing : .refreshing)
            case let settled: settled
            }
        states[namespace] = state
        let isMoved = previous != state
        if isMoved {
            for index in lists.indices {
                _ = lists[index].entries.set(lists[index].state == state ? namespace : nil, of: namespace)
            }
        }
        let isDiskNew = unwritable.set(status.isUnwritable ? namespace : nil, of: namespace)
        let isRejectionNew = rejections.set(status.rejection.map { "\(namespace) (\($0))" }, of: namespace)
        return isMoved || isDiskNew || isRejectionNew
    }

    mutating func remove(_ namespace: String) {
        states[namespace] = nil
        for index in lists.indices { _ = lists[index].entries.set(nil, of: namespace) }
        _ = unwritable.set(nil, of: namespace)
        _ = rejections.set(nil, of: namespace)
    }

    func text(clients: Int) -> String {
        var line = states.count == 1 ? "1 namespace" : "\(states.count) namespaces"
        if let worst = lists.first(where: { !$0.entries.isEmpty }) {
            line += ", \(worst.state.rawValue): \(worst.entries.text)"
        } else {
            line += ", fresh"
        }
        line += clients == 1 ? "; 1 client" : "; \(clients) clients"
        if !unwritable.isEmpty { line += "; cannot write to disk: \(unwritable.text)" }
        if !rejections.isEmpty { line += "; rejected new content: \(rejections.text)" }
        return line
    }
}
