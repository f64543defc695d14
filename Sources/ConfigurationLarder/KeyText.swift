import LarderJSON

/// The text form of a key, for access reports and errors. Values are never found by it.
enum KeyText {
    /// Returns the components separated by dots if that is unambiguous, else a JSON Pointer. The same text is a path
    /// for `larder get`. Dotted texts need at most one allocation.
    static func text(of components: [String]) -> String {
        let isDotted =
            !components.contains { $0.isEmpty || $0.utf8.contains(UInt8(ascii: ".")) }
            && components.first?.utf8.first != UInt8(ascii: "/")
        return isDotted ? components.joined(separator: ".") : JSONPath(components).pointer
    }
}
