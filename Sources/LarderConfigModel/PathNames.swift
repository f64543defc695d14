import LarderJSON

extension [String] {
    /// Whether the path begins with these names. Names are compared by their UTF-8, without Unicode normalization.
    func begins(withNames names: some BidirectionalCollection<String>) -> Bool {
        // Compares the last names first, because paths of one configuration often share their first names.
        var end = names.count
        if count < end { return false }
        for name in names.reversed() {
            end -= 1
            if !self[end].isSpelled(as: name) { return false }
        }
        return true
    }
}
