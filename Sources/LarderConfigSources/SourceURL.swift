/// The URLs of sources in messages and in the status.
enum SourceURL {
    /// A URL without user information and query, which may contain secrets.
    static func display(_ url: String) -> String {
        var text = url[...]
        if let query = text.firstIndex(where: { $0 == "?" || $0 == "#" }) { text = text[..<query] }
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count > 2, let at = parts[2].lastIndex(of: "@") else { return String(text) }
        let host = parts[2][parts[2].index(after: at)...]
        return ([parts[0], parts[1], host] + parts[3...]).joined(separator: "/")
    }
}
