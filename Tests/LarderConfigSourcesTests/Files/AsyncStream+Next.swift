extension AsyncStream where Element: Sendable {
    /// Whether there is one more element; waits for it.
    func next() async -> Bool {
        for await _ in self { return true }
        return false
    }
}
