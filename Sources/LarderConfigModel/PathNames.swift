import LarderJSON

extension [String] {
    /// Whether a path begins with these names. They are compared as JSON compares them: by their UTF-8, without
    /// normalisation.
    func begins(withNames names: some BidirectionalCollection<String>) -> Bool {
        // Backwards: paths of one configuration mostly begin alike.
        var end = names.count
        if count < end { return false }
        for name in names.reversed() {
            end -= 1
            if !self[end].isSpelled(as: name) { return false }
        }
        return true
    }
}
