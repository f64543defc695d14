import JSON
import Mustache

/// What a template may ask of a value of the configuration, and what it asked in vain.
///
/// The library takes a name that leads nowhere for an empty text. Here it leads to a ``MissingValue``, which counts as
/// false in a section and is a problem once it is to be printed. To do that, a value must know how it was come by: a name
/// in `{{search.limt}}` that is not in `search` is missing; the same name in `{{#search}}{{limt}}{{/search}}` may be
/// further out. The library asks a value that it has just looked up for its representation before it looks further into
/// it, and asks one that a section has opened for its representation before it looks there. So a value is reached,
/// becomes strict, and when a section has opened it, lenient.
final class TemplateProblems {
    /// The names that led nowhere, in the order of the template, each once.
    private(set) var missing: [String] = []
    /// The functions that do not exist for what they were called on.
    private(set) var functions: [String] = []

    fileprivate func note(missing name: String) {
        if !missing.contains(name) { missing.append(name) }
    }

    fileprivate func note(function name: String) {
        if !functions.contains(name) { functions.append(name) }
    }
}

/// How a value was come by; see ``TemplateProblems``.
private enum Stage {
    case root, reached, strict, lenient

    var next: Stage {
        switch self {
        case .root: .root
        case .reached: .strict
        case .strict, .lenient: .lenient
        }
    }
}

/// A value in the configuration together with the way to it.
private struct Place {
    var value: JSONValue
    var path: [String]
    var problems: TemplateProblems

    /// The member or element of a name, as the library wants it.
    func child(_ name: String, _ stage: Stage) -> Any? {
        if let value = member(name) { return Place(value: value, path: path + [name], problems: problems).at(.reached) }
        let isOptional = name.hasSuffix("?")
        let bare = isOptional ? String(name.dropLast()) : name
        if isOptional, let value = member(bare) {
            return Place(value: value, path: path + [bare], problems: problems).at(.reached)
        }
        if stage == .lenient { return nil }
        return MissingValue(path: path + [bare], isOptional: isOptional, problems: problems)
    }

    func at(_ stage: Stage) -> Any {
        value.kind == .array
            ? TemplateList(place: self, stage: stage, elements: Array(value.elements))
            : TemplateValue(place: self, stage: stage)
    }

    private func member(_ name: String) -> JSONValue? {
        value.kind == .array ? value.value(at: JSONPath([name])) : value[name]
    }

    /// Strings as they are, everything else as JSON.
    var text: String { value.string ?? value.compactText }

    /// What a function makes of the value; nil where there is no such function for it.
    func call(_ function: String) -> Any? {
        switch (function, value.kind) {
        case ("json", _): return value.compactText
        case ("empty", .array), ("empty", .object): return value.count == 0
        case ("count", .array), ("count", .object): return value.count
        case ("enumerated", .object): return list(Array(value.members))
        case ("sorted", .object): return list(value.members.sorted { $0.name < $1.name })
        case ("first", .array): return element(0)
        case ("last", .array): return element(value.count - 1)
        case ("reversed", .array):
            return TemplateList(place: self, stage: .strict, elements: value.elements.reversed())
        default: break
        }
        if let string = value.string, let result = string.transform(function) { return result }
        if let number = value.int, let result = number.transform(function) { return result }
        problems.note(function: "\(function)(\(JSONPath(path)))")
        return nil
    }

    private func element(_ index: Int) -> Any {
        child("\(index)", .strict) ?? MissingValue(path: path + ["\(index)"], isOptional: false, problems: problems)
    }

    private func list(_ members: [(name: String, value: JSONValue)]) -> TemplateList {
        TemplateList(
            place: self, stage: .strict,
            elements: members.map { .object([("key", .string($0.name)), ("value", $0.value)]) })
    }
}

/// An object or scalar.
struct TemplateValue: MustacheParent, MustacheCustomRepresentation, MustacheCustomRenderable, MustacheTransformable {
    fileprivate let place: Place
    fileprivate let stage: Stage

    /// The whole of what a template is rendered with.
    init(root value: JSONValue, problems: TemplateProblems) {
        self.init(place: Place(value: value, path: [], problems: problems), stage: .root)
    }

    fileprivate init(place: Place, stage: Stage) {
        self.place = place
        self.stage = stage
    }

    func child(named name: String) -> Any? { place.child(name, stage) }
    var representation: Any? { TemplateValue(place: place, stage: stage.next) }
    var renderText: String { place.text }
    /// False and null open no section.
    var isNull: Bool { place.value.isNull || place.value.bool == false }
    func transform(_ name: String) -> Any? { place.call(name) }
}

/// An array: a section of it is rendered once for each element.
struct TemplateList: MustacheSequence, MustacheParent, MustacheCustomRepresentation, MustacheCustomRenderable,
    MustacheTransformable
{
    fileprivate let place: Place
    fileprivate let stage: Stage
    fileprivate let elements: [JSONValue]

    func makeIterator() -> AnyIterator<Any> {
        var rest = elements.enumerated().makeIterator()
        return AnyIterator {
            rest.next().map { index, value in
                Place(value: value, path: place.path + ["\(index)"], problems: place.problems).at(.strict)
            }
        }
    }

    func child(named name: String) -> Any? { place.child(name, stage) }
    var representation: Any? { TemplateList(place: place, stage: stage.next, elements: elements) }
    var renderText: String { place.text }
    var isNull: Bool { elements.isEmpty }
    func transform(_ name: String) -> Any? { place.call(name) }
}

/// What a name stands for that leads nowhere.
struct MissingValue: MustacheParent, MustacheCustomRenderable, MustacheTransformable {
    fileprivate let path: [String]
    fileprivate let isOptional: Bool
    fileprivate let problems: TemplateProblems

    func child(named name: String) -> Any? {
        let isOptional = isOptional || name.hasSuffix("?")
        let bare = name.hasSuffix("?") ? String(name.dropLast()) : name
        return MissingValue(path: path + [bare], isOptional: isOptional, problems: problems)
    }

    var renderText: String {
        if !isOptional { problems.note(missing: JSONPath(path).description) }
        return ""
    }

    var isNull: Bool { true }
    func transform(_ name: String) -> Any? { name == "empty" ? true : self }
}
