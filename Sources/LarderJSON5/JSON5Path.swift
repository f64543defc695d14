/// A place in a document: the member names, and indexes in arrays, from the top of the file down to it.
package struct JSON5Path: CustomStringConvertible {
    private enum Step {
        case name(String)
        case index(Int)
    }

    private let steps: [Step]

    /// The document as a whole, which a description calls the settings.
    package static let root = JSON5Path(steps: [])

    private init(steps: [Step]) {
        self.steps = steps
    }

    /// A member of what this path leads to.
    package func appending(_ name: String) -> JSON5Path {
        JSON5Path(steps: steps + [.name(name)])
    }

    /// An element of what this path leads to.
    package func appending(_ index: Int) -> JSON5Path {
        JSON5Path(steps: steps + [.index(index)])
    }

    /// `limits.connections`; a name that is no plain word goes into brackets, as in `namespaces["web.v1"].durability`.
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
