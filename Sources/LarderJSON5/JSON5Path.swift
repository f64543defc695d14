/// A path in a document: the member names and array indexes that lead from the root to a value.
package struct JSON5Path: CustomStringConvertible {
    private enum Step {
        case name(String)
        case index(Int)
    }

    private var steps: [Step]

    /// The whole document. Its description is "the settings".
    package static let root = JSON5Path(steps: [])

    /// The path of a member of the value at this path.
    package func appending(_ name: String) -> JSON5Path {
        JSON5Path(steps: steps + [.name(name)])
    }

    /// Extends the path by a name.
    mutating func append(_ name: String) { steps.append(.name(name)) }

    /// Extends the path by an index.
    mutating func append(_ index: Int) { steps.append(.index(index)) }

    mutating func removeLast() { steps.removeLast() }

    /// The path of an element of the array at this path.
    package func appending(_ index: Int) -> JSON5Path {
        JSON5Path(steps: steps + [.index(index)])
    }

    /// The path in the form `limits.connections`. Names with other characters than letters, digits, `_` and `-` are in
    /// brackets, as in `namespaces["web.v1"].durability`.
    package var description: String {
        guard !steps.isEmpty else { return "the settings" }
        var text = ""
        for step in steps {
            switch step {
            case .name(let name) where !name.isEmpty && name.utf8.allSatisfy(Self.isWord):
                text += text.isEmpty ? name : ".\(name)"
            case .name(let name): text += "[\(JSON5Shown.quoted(name))]"
            case .index(let index): text += "[\(index)]"
            }
        }
        return text
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"): true
        default: false
        }
    }
}
