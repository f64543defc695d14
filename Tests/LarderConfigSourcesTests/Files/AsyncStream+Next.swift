extension AsyncStream where Element: Sendable {
    /// Waits for the next element.
    /// - Returns: false if the stream has ended
    func next() async -> Bool {
        for await _ in self { return true }
        return false
    }
}
