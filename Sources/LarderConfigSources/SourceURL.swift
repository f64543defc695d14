/// Formats the URLs of sources for messages and the status.
enum SourceURL {
    /// Removes user information and the query from a URL, because they may contain secrets.
    static func display(_ url: String) -> String {
        var text = url[...]
        if let query = text.firstIndex(where: { $0 == "?" || $0 == "#" }) { text = text[..<query] }
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2, let at = parts[2].lastIndex(of: "@") else { return String(text) }
        let host = parts[2][parts[2].index(after: at)...]
        return ([parts[0], parts[1], host] + parts[3...]).joined(separator: "/")
    }
}
