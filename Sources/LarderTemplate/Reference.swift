import LarderJSON

/// The content of a tag such as `{{json(search.limit)}}`: the path of a value, and the functions that are called on it.
struct Reference: Sendable, Equatable {
    /// The scope in which the path starts. A scope is a value in which names are looked up: the document, or the value
    /// of an enclosing section.
    enum Start: Sendable {
        /// The innermost scope that has a value for the first name of the path, as for `search.limit`.
        case anywhere
        /// The innermost scope, as for `.search.limit`, or for `.`, the value of the scope itself.
        case here
        /// No scope. The reference is a function without an argument, such as `index()`, which applies to the position
        /// of the current element in a list.
        case place
    }

    struct Step: Sendable, Equatable {
        /// The name as written.
        let name: String
        /// The name without a trailing question mark.
        let plainName: String
        /// Whether the value may be missing, because the name ends with a question mark.
        let isOptional: Bool

        init(_ name: Substring) {
            self.name = String(name)
            isOptional = name.hasSuffix("?") && name.count > 1
            plainName = String(isOptional ? name.dropLast() : name)
        }

        /// Creates a step of a JSON Pointer, in which a question mark is part of the name.
        init(exactly name: String, isOptional: Bool) {
            (self.name, plainName, self.isOptional) = (name, name, isOptional)
        }
    }

    let start: Start
    let steps: [Step]
    /// The functions in the order in which they are called: the innermost first.
    let functions: [Function]
    /// The reference as written.
    let text: String
    /// The byte offset of the reference in the template.
    let offset: Int

    /// Why a text is not a valid reference.
    enum Refusal: Error {
        case empty, emptyStep, parentheses, pointer
        case unknown(String)
    }

    /// Parses the text between the delimiters.
    init(_ text: String, at offset: Int) throws(Refusal) {
        self.text = text
        self.offset = offset
        let pointer = try QuotedPointer(in: text)
        var (name, functions) = try Self.parts(pointer?.rest ?? text)
        functions.reverse()
        self.functions = functions
        if let pointer {
            let isOptional = name.last == "?"
            if isOptional { name.removeLast() }
            guard name.isEmpty || name == "." else { throw .pointer }
            start = name.isEmpty ? .anywhere : .here
            let last = pointer.names.count - 1
            steps = pointer.names.enumerated().map { Step(exactly: $1, isOptional: isOptional && $0 == last) }
            return
        }
        if name.isEmpty {
            // A function that is called without an argument applies to the position of an element in a list, so it must
            // support positions.
            guard let first = functions.first else { throw .empty }
            guard first.isOfPlaces else { throw .parentheses }
            start = .place
            steps = []
            return
        }
        start = name.first == "." ? .here : .anywhere
        if start == .here { name.removeFirst() }
        steps = name.isEmpty ? [] : name.split(separator: ".", omittingEmptySubsequences: false).map { Step($0) }
        // A question mark alone is not a name.
        guard steps.allSatisfy({ !$0.name.isEmpty && $0.name != "?" }) else { throw .emptyStep }
    }

    /// Splits `outer(inner(name))` into `name` and the functions `outer` and `inner`, the outermost first.
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

    /// Two references are equal if their texts are equal, regardless of their offsets.
    static func == (left: Reference, right: Reference) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }
}
