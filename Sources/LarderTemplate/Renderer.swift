import LarderJSON

/// Carries out the instructions of a template once.
struct Renderer {
    /// A value that names are looked up in.
    private struct Scope {
        var item: Item
        var path: [String]
    }

    /// A section that is being rendered.
    private struct Section {
        /// What it is repeated for; nil where it is rendered once.
        let list: List?
        /// Which of these it is at.
        var index = 0
        /// Whether it has opened a scope.
        let hasScope: Bool
    }

    private let template: Template
    private var scopes: [Scope]
    private var sections: [Section] = []
    private var output: [UInt8] = []
    private var missing = MissingNames()

    init(template: Template, root: JSONValue) {
        self.template = template
        scopes = [Scope(item: .value(root), path: [])]
    }

    /// The text that comes out.
    mutating func text() throws(TemplateError) -> String {
        output.reserveCapacity(template.source.count)
        var next = 0
        while next < template.instructions.count {
            switch template.instructions[next] {
            case .text(let range): output += template.source[range]
            case .value(let reference, let isEscaped): print(try operand(reference), isEscaped: isEscaped)
            case .open(let reference, let isInverted, let close):
                guard open(try operand(reference), isInverted: isInverted) else {
                    next = close + 1
                    continue
                }
            case .close(let open):
                if again() {
                    next = open + 1
                    continue
                }
            }
            next += 1
        }
        if let error = missing.error { throw error }
        return String(decoding: output, as: UTF8.self)
    }

    // MARK: Sections

    /// Begins a section.
    /// - Returns: whether there is anything to render.
    private mutating func open(_ operand: Operand, isInverted: Bool) -> Bool {
        let list = operand.list
        let isTrue = list.map { !$0.items.isEmpty } ?? Self.isTrue(operand)
        guard isTrue != isInverted else { return false }
        if isInverted {
            sections.append(Section(list: nil, hasScope: false))
        } else if let list {
            scopes.append(Scope(item: list.items[0], path: list.path(to: 0)))
            sections.append(Section(list: list, hasScope: true))
        } else if case .item(let item, let way) = operand {
            scopes.append(Scope(item: item, path: way.path))
            sections.append(Section(list: nil, hasScope: true))
        } else {
            sections.append(Section(list: nil, hasScope: false))
        }
        return true
    }

    /// Ends a section, or begins it with the next element.
    /// - Returns: whether it is to be rendered again.
    private mutating func again() -> Bool {
        let last = sections.count - 1
        if let list = sections[last].list, sections[last].index + 1 < list.items.count {
            sections[last].index += 1
            let index = sections[last].index
            scopes[scopes.count - 1] = Scope(item: list.items[index], path: list.path(to: index))
            return true
        }
        if sections.removeLast().hasScope { scopes.removeLast() }
        return false
    }

    private static func isTrue(_ operand: Operand) -> Bool {
        switch operand {
        case .item(.value(let value), _): !value.isNull && value.bool != false
        case .item(.member, _), .list: true
        case .flag(let flag): flag
        case .missing: false
        }
    }

    // MARK: Values

    private mutating func print(_ operand: Operand, isEscaped: Bool) {
        switch operand {
        case .missing(let path, let isOptional):
            if !isOptional { missing.note(path) }
        default:
            guard let json = operand.json else { return }
            let text = json.string ?? json.compactText
            if isEscaped { appendEscaped(text) } else { output += text.utf8 }
        }
    }

    private mutating func appendEscaped(_ text: String) {
        for byte in text.utf8 {
            switch UnicodeScalar(byte) {
            case "<": output += "&lt;".utf8
            case ">": output += "&gt;".utf8
            case "&": output += "&amp;".utf8
            case "\"": output += "&quot;".utf8
            case "'": output += "&#39;".utf8
            default: output.append(byte)
            }
        }
    }

    // MARK: Names

    private func operand(_ reference: Reference) throws(TemplateError) -> Operand {
        var functions = reference.functions[...]
        var operand: Operand
        if reference.start == .place {
            guard let section = sections.last(where: { $0.list != nil }), let list = section.list else {
                throw error(reference, "there is no \(reference.text.shownName) outside a list")
            }
            guard let result = functions.removeFirst().result(forElement: section.index, of: list.items.count) else {
                throw error(reference, "there is no \(reference.text.shownName)")
            }
            operand = result
        } else {
            operand = value(reference)
        }
        for function in functions {
            guard let result = operand.applying(function) else {
                throw error(reference, "there is no \(reference.text.shownName) for what is there")
            }
            operand = result
        }
        return operand
    }

    private func value(_ reference: Reference) -> Operand {
        let innermost = scopes.count - 1
        guard let first = reference.steps.first else {
            return .item(scopes[innermost].item, Way(base: scopes[innermost].path))
        }
        var level = innermost
        while true {
            let scope = scopes[level]
            if let child = scope.item.child(first) { return descend(from: child, reference, scope) }
            if level == 0 || reference.start == .here { return nothing(reference, from: 0, in: scope) }
            level -= 1
        }
    }

    /// Follows a reference from what its first step leads to. From there on, only one way counts.
    private func descend(from child: JSONValue, _ reference: Reference, _ scope: Scope) -> Operand {
        var value = child
        for (index, step) in reference.steps.enumerated().dropFirst() {
            guard let next = Item.value(value).child(step) else { return nothing(reference, from: index, in: scope) }
            value = next
        }
        return .item(.value(value), way(reference, in: scope))
    }

    private func nothing(_ reference: Reference, from step: Int, in scope: Scope) -> Operand {
        .missing(
            way(reference, in: scope).path, isOptional: reference.steps[step...].contains(where: \.isOptional))
    }

    /// The way to a value. A member that a list consists of is at its name already, so `value` leads no further.
    private func way(_ reference: Reference, in scope: Scope) -> Way {
        if case .member = scope.item, reference.steps[0].plainName == "value" {
            return Way(base: scope.path, reference: reference, first: 1)
        }
        return Way(base: scope.path, reference: reference)
    }

    private func error(_ reference: Reference, _ text: String) -> TemplateError {
        TemplateError(.function, at: reference.offset, in: template.source, text)
    }
}

/// The names that led nowhere, in the order of the template, each once.
struct MissingNames {
    private var names: [String] = []
    private var areMore = false

    /// As many as an error can be read with.
    private static let maxNames = 20

    mutating func note(_ path: [String]) {
        if areMore { return }
        let name = JSONPath(path).description
        if names.contains(name) { return }
        if names.count == Self.maxNames { areMore = true } else { names.append(name) }
    }

    /// What to say about them, if there are any.
    var error: TemplateError? {
        if names.isEmpty { return nil }
        let list = names.map(\.shownName).joined(separator: ", ")
        return TemplateError(missing: "nothing is at \(list)\(areMore ? " and at others" : "")")
    }
}
