extension String {
    /// A name as an error shows it: of one that is longer than anybody reads only the beginning. It is cut by code points:
    /// a character may consist of any number of them.
    var shownName: String {
        let most = 60
        guard let end = unicodeScalars.index(startIndex, offsetBy: most, limitedBy: endIndex), end < endIndex else {
            return self
        }
        return String(unicodeScalars[..<end]) + "…"
    }
}
