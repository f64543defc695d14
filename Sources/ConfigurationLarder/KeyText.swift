import LarderJSON

/// The text form of a key, for access reports and errors. Values are never found by it.
enum KeyText {
    /// Returns the components separated by dots if that is unambiguous, else a JSON Pointer. The same text is a path
    /// for `larder get`. Dotted texts need at most one allocation.
    static func text(of components: [String]) -> String {
        var count = max(0, components.count - 1)
        for component in components {
            if component.isEmpty || component.utf8.contains(UInt8(ascii: ".")) { return JSONPath(components).pointer }
            count += component.utf8.count
        }
        if components.first?.utf8.first == UInt8(ascii: "/") { return JSONPath(components).pointer }
        return String(unsafeUninitializedCapacity: count) { buffer in
            var end = 0
            for component in components {
                if end > 0 {
                    buffer[end] = UInt8(ascii: ".")
                    end += 1
                }
                for byte in component.utf8 {
                    buffer[end] = byte
                    end += 1
                }
            }
            return end
        }
    }
}
