extension JSONValue {
    /// Where in the text that was parsed the last step of a path stands that leads to something, for people who look
    /// for it.
    public struct Place: Sendable, Hashable {
        /// The line, from 1: of a member's name, or of an element.
        public let line: Int
        /// How many steps of the path led there; where it is fewer than the path has, nothing is at its end.
        public let depth: Int
    }

    /// The place of a path in the text that this value was parsed from, or of as much of the path as is there. Of members
    /// with the same name it is the last one, which counts.
    ///
    /// Lines end with LF. A value that was made by a program, or copied by `detached()`, is all on one line.
    public func place(of path: JSONPath) -> Place {
        var (found, depth, start) = (self, 0, entry.offset)
        for segment in path.segments {
            if found.kind == .object, let member = found[segment] {
                // A member's name has the node before that of its value.
                (found, start) = (member, document.nodes[member.node - 1].offset)
            } else if let index = JSONPath.arrayIndex(segment), let element = found[index] {
                (found, start) = (element, element.entry.offset)
            } else {
                break
            }
            depth += 1
        }
        let text = UnsafeBufferPointer(start: document.text, count: Int(start))
        let line = 1 + text.count { $0 == UInt8(ascii: "\n") }
        return Place(line: line, depth: depth)
    }
}
