import LarderJSON

/// A value that sections and functions work on: a value of the configuration, or a pair of a member's name and value.
enum Item {
    case value(JSONValue)
    /// An element of the lists that `sorted` and `enumerated` return. It behaves as an object with `key` and `value`.
    case member(name: String, value: JSONValue)

    /// Returns the member that a step of a path names; nil if it does not exist. For the optional step `name?`, a
    /// member that is literally called `name?` takes precedence over one called `name`.
    func child(_ step: Reference.Step) -> JSONValue? {
        switch self {
        case .value(let value):
            return Self.child(step.name, of: value) ?? (step.isOptional ? Self.child(step.plainName, of: value) : nil)
        case .member(let name, let value):
            if step.plainName == "key" { return .string(name) }
            return step.plainName == "value" ? value : nil
        }
    }

    private static func child(_ name: String, of value: JSONValue) -> JSONValue? {
        switch value.kind {
        case .object: value[name]
        case .array: value.value(at: JSONPath([name]))
        default: nil
        }
    }

    /// The value, or the pair as a JSON object with `key` and `value`.
    var json: JSONValue {
        switch self {
        case .value(let value): value
        case .member(let name, let value): .object([("key", .string(name)), ("value", value)])
        }
    }
}

/// The elements that a section is repeated for.
struct List {
    var items: [Item]
    /// The path of the array or object that the elements come from.
    let path: [String]
    /// Whether the elements are in reverse order, so that their indexes count from the end.
    var isReversed = false

    /// Returns the path of an element.
    func path(to index: Int) -> [String] {
        if case .member(let name, _) = items[index] { return path + [name] }
        return path + ["\(isReversed ? items.count - 1 - index : index)"]
    }

    func reversed() -> List { List(items: items.reversed(), path: path, isReversed: !isReversed) }

    /// Returns the element at an index; `missing` if the index is out of range.
    func element(_ index: Int) -> Operand {
        items.indices.contains(index)
            ? .item(items[index], path: path(to: index)) : .missing(path + ["0"], isOptional: false)
    }
}

/// The value that a reference has during rendering.
enum Operand {
    /// A value, and its path for error messages.
    case item(Item, path: [String])
    case list(List)
    /// The Boolean result of a function. A section over a Boolean result opens no scope.
    case flag(Bool)
    /// There is no value at the path.
    case missing([String], isOptional: Bool)

    static func string(_ text: String) -> Operand { .item(.value(.string(text)), path: []) }
    static func int(_ number: Int) -> Operand { .item(.value(.int(number)), path: []) }

    /// The elements of an array or a list; nil for any other value.
    var list: List? {
        switch self {
        case .list(let list): list
        case .item(.value(let value), let path) where value.kind == .array:
            List(items: value.elements.map { .value($0) }, path: path)
        default: nil
        }
    }

    /// The value as JSON; nil if it is missing.
    var json: JSONValue? {
        switch self {
        case .item(let item, _): item.json
        case .list(let list): .array(list.items.map(\.json))
        case .flag(let flag): .bool(flag)
        case .missing: nil
        }
    }

    /// Returns the result of a function; nil if the function does not apply to this value.
    func applying(_ function: Function) -> Operand? {
        if case .missing = self { return function == .empty ? .flag(true) : self }
        if function == .json { return json.map { .string($0.compactText) } }
        if let list { return list.applying(function) }
        guard let json else { return nil }
        if let text = json.string { return function.result(for: text) }
        if let number = json.int { return function.result(for: number) }
        guard json.kind == .object, case .item(_, let path) = self else { return nil }
        switch function {
        case .empty: return .flag(json.count == 0)
        case .count: return .int(json.count)
        case .enumerated: return .list(List(items: Self.members(json.members), path: path))
        case .sorted:
            return .list(List(items: Self.members(json.members.sorted { $0.name < $1.name }), path: path))
        default: return nil
        }
    }

    private static func members(_ members: some Sequence<(name: String, value: JSONValue)>) -> [Item] {
        members.map { .member(name: $0.name, value: $0.value) }
    }
}

extension List {
    fileprivate func applying(_ function: Function) -> Operand? {
        switch function {
        case .empty: .flag(items.isEmpty)
        case .count: .int(items.count)
        case .first: element(0)
        case .last: element(items.count - 1)
        case .reversed: .list(reversed())
        default: nil
        }
    }
}

/// A JSON Pointer (RFC 6901) in a reference, written as a JSON string: `"/updog/kerberos.principal"`. It can name members
/// with dots, spaces, parentheses or delimiters.
struct QuotedPointer {
    /// The names in the pointer, at least one.
    let names: [String]
    /// The reference without the pointer and its quotation marks.
    let rest: String

    /// Finds the pointer in a reference such as `json("/a b"?)`. Nil if the reference has none.
    init?(in text: String) throws(Reference.Refusal) {
        guard let start = text.firstIndex(of: "\""), Self.canBegin(after: text[..<start].utf8.suffix(2)) else {
            return nil
        }
        guard let end = text.lastIndex(of: "\""), end > start else { throw .pointer }
        let tail = text[text.index(after: end)...]
        guard tail.allSatisfy({ $0 == "?" || $0 == ")" }),
            let pointer = (try? JSONValue(parsing: String(text[start...end])))?.string, pointer.first == "/",
            let path = try? JSONPath(parsing: pointer)
        else { throw .pointer }
        names = path.segments
        rest = String(text[..<start] + tail)
    }

    /// Whether a quotation mark after these last bytes of a reference begins a pointer: at the start of a name, or after
    /// the dot that begins a name.
    static func canBegin(after bytes: some Sequence<UInt8>) -> Bool {
        let last = Array(bytes).suffix(2)
        let name = last.last == UInt8(ascii: ".") ? last.dropLast() : last
        return name.isEmpty || name.last == UInt8(ascii: "(")
    }
}
