extension String {
    /// The text, or its first 200 Unicode code points and an ellipsis if it is longer. For messages that repeat a text
    /// of any length.
    package var excerpt: String {
        let limit = 200
        // A code point has at least one byte.
        guard utf8.count > limit else { return self }
        let beginning = unicodeScalars.prefix(limit)
        return beginning.endIndex == endIndex ? self : String(beginning) + "…"
    }
}
