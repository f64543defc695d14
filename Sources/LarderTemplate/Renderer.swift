import LarderJSON

/// Renders a template once.
struct Renderer {
    /// A value in which names are looked up.
    private struct Scope {
        var item: Item
        var path: [String]
    }

    private struct Section {
        /// The elements that the section is repeated for; nil if it is rendered once.
        let list: List?
        /// The index in `list` of the element that is being rendered; 0 if `list` is nil.
        var index = 0
        /// Whether the section opened a scope.
        let hasScope: Bool
    }

    private let template: Template
    private var scopes: [Scope]
    private var sections: [Section] = []
    private var output: [UInt8] = []
    /// The names in the template that have no value, in the order of the template and without duplicates.
    private var missing: [String] = []
    /// The maximum number of names that the error lists. More names are not collected, except one.
    private static let maxMissing = 20

    init(template: Template, root: JSONValue) {
        self.template = template
        scopes = [Scope(item: .value(root), path: [])]
    }

    /// Renders the template.
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
        guard missing.isEmpty else {
            let list = missing.prefix(Self.maxMissing).map(\.shownName).joined(separator: ", ")
            let others = missing.count > Self.maxMissing ? " and others" : ""
            throw TemplateError(missing: "no value at \(list)\(others)")
        }
        return String(decoding: output, as: UTF8.self)
    }

    // MARK: Sections

    /// Starts a section with the value of its tag.
    /// - Returns: whether the content of the section is rendered
    private mutating func open(_ operand: Operand, isInverted: Bool) -> Bool {
        let list = operand.list
        let isTrue = list.map { !$0.items.isEmpty } ?? Self.isTrue(operand)
        guard isTrue != isInverted else { return false }
        if isInverted {
            sections.append(Section(list: nil, hasScope: false))
        } else if let list {
            scopes.append(Scope(item: list.items[0], path: list.path(to: 0)))
            sections.append(Section(list: list, hasScope: true))
        } else if case .item(let item, let path) = operand {
            scopes.append(Scope(item: item, path: path))
            sections.append(Section(list: nil, hasScope: true))
        } else {
            sections.append(Section(list: nil, hasScope: false))
        }
        return true
    }

    /// Called at the end of a section's content: continues with the next element of the list, or ends the section.
    /// - Returns: whether the content is rendered again
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
            if isOptional || missing.count > Self.maxMissing { return }
            let name = JSONPath(path).description
            if !missing.contains(name) { missing.append(name) }
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
                throw error(reference, "\(reference.text.shownName) is only available in a list")
            }
            guard let result = functions.removeFirst().result(forElement: section.index, of: list.items.count) else {
                throw error(reference, "\(reference.text.shownName) is not available here")
            }
            operand = result
        } else {
            operand = value(reference)
        }
        for function in functions {
            guard let result = operand.applying(function) else {
                throw error(reference, "\(reference.text.shownName) does not apply to this value")
            }
            operand = result
        }
        return operand
    }

    private func value(_ reference: Reference) -> Operand {
        let innermost = scopes.count - 1
        guard let first = reference.steps.first else {
            return .item(scopes[innermost].item, path: scopes[innermost].path)
        }
        var level = innermost
        while true {
            let scope = scopes[level]
            if let child = scope.item.child(first) { return descend(from: child, reference, scope) }
            if level == 0 || reference.start == .here { return nothing(reference, from: 0, in: scope) }
            level -= 1
        }
    }

    /// Follows the steps of a reference after its first step. `child` is the value of the first step. If a later step
    /// has no value, outer scopes are not searched.
    private func descend(from child: JSONValue, _ reference: Reference, _ scope: Scope) -> Operand {
        var value = child
        for (index, step) in reference.steps.enumerated().dropFirst() {
            guard let next = Item.value(value).child(step) else { return nothing(reference, from: index, in: scope) }
            value = next
        }
        return .item(.value(value), path: path(reference, in: scope))
    }

    private func nothing(_ reference: Reference, from step: Int, in scope: Scope) -> Operand {
        .missing(path(reference, in: scope), isOptional: reference.steps[step...].contains(where: \.isOptional))
    }

    /// The path of the value that a reference has in a scope. If the value of the scope is a pair of a member's name
    /// and value, the path of the scope already ends with that name. A first step `value` of the reference then adds
    /// nothing to the path.
    private func path(_ reference: Reference, in scope: Scope) -> [String] {
        var steps = reference.steps[...]
        if case .member = scope.item, steps[0].plainName == "value" { steps.removeFirst() }
        return scope.path + steps.map(\.plainName)
    }

    private func error(_ reference: Reference, _ text: String) -> TemplateError {
        TemplateError(.function, at: reference.offset, in: template.source, text)
    }
}
