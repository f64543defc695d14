/// What a tag names: a way to a value and the functions that are called on it.
struct Reference: Sendable, Equatable {
    /// Where the way begins.
    enum Start: Sendable {
        /// In the innermost value that has a member of the first name: `name.of.it`.
        case anywhere
        /// In the innermost value: `.name.of.it`, and `.` for itself.
        case here
        /// Nowhere: functions without a name are about the place within a list, `index()`.
        case place
    }

    struct Step: Sendable, Equatable {
        /// As it is written.
        let name: String
        /// Without the question mark at its end.
        let plainName: String
        /// Whether what it leads to may be missing.
        var isOptional: Bool { name != plainName }

        init(_ name: Substring) {
            self.name = String(name)
            plainName = String(name.hasSuffix("?") && name.count > 1 ? name.dropLast() : name)
        }
    }

    let start: Start
    let steps: [Step]
    /// In the order in which they are called, the innermost first.
    let functions: [Function]
    /// As it is written.
    let text: String
    /// Where it is in the template.
    let offset: Int

    /// Why a text is no reference.
    enum Refusal: Error {
        case empty, emptyStep, parentheses
        case unknown(String)
    }

    /// Reads what is between the delimiters.
    init(_ text: String, at offset: Int) throws(Refusal) {
        self.text = text
        self.offset = offset
        var (name, functions) = try Self.parts(text)
        functions.reverse()
        self.functions = functions
        if name.isEmpty {
            // What is called on nothing must be about a place.
            guard let first = functions.first else { throw .empty }
            guard first.isOfPlaces else { throw .parentheses }
            start = .place
            steps = []
            return
        }
        start = name.first == "." ? .here : .anywhere
        if start == .here { name.removeFirst() }
        steps = name.isEmpty ? [] : name.split(separator: ".", omittingEmptySubsequences: false).map { Step($0) }
        // The question mark alone is a name for nothing either.
        guard steps.allSatisfy({ !$0.name.isEmpty && $0.name != "?" }) else { throw .emptyStep }
    }

    /// The way of its steps from `first` on.
    func path(from first: Int) -> [String] { steps[first...].map(\.plainName) }

    /// `outer(inner(name))` as `name` and the functions, the outermost first.
    private static func parts(_ text: String) throws(Refusal) -> (Substring, [Function]) {
        let pieces = text.split(separator: "(", omittingEmptySubsequences: false)
        let last = pieces[pieces.count - 1]
        let name = last.prefix { $0 != ")" }
        let closing = last[name.endIndex...]
        guard closing.allSatisfy({ $0 == ")" }), closing.count == pieces.count - 1 else { throw .parentheses }
        var functions: [Function] = []
        for piece in pieces.dropLast() {
            if piece.isEmpty || piece.contains(")") { throw .parentheses }
            guard let function = Function(rawValue: String(piece)) else { throw .unknown(text) }
            functions.append(function)
        }
        return (name, functions)
    }

    /// The same if it says the same, wherever it stands.
    static func == (left: Reference, right: Reference) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }
}
