import LarderJSON

/// The input is up to three texts, separated by zero bytes.
///
/// The fuzzer checks that ``JSONParser`` accepts the same texts and reads the same values as ``ReferenceParser``, that
/// values survive writing and parsing, that patches follow RFC 7396, that applying a difference gives the new value,
/// and that replacing scalars has the effect of the equivalent patches.
@Sendable
func fuzzJSON(_ input: UnsafeRawBufferPointer) {
    let texts = parts(input, 3)
    var parser = JSONParser()
    let values = texts.map { checkParsing($0, &parser) }
    guard let a = values[0], let b = values[1] else { return }
    checkPatches(a, b)
    checkReplacements(a, b)
    if let c = values[2] {
        checkComposition(a, b, c)
        let merged = Model.object([]).patched(Model(a)).patched(Model(b)).patched(Model(c))
        require(Model(MergePatch.merge([a, b, c])).isEquivalent(to: merged), "three layers merge to another value")
    }
}

private func checkParsing(_ text: [UInt8], _ parser: inout JSONParser) -> JSONValue? {
    let plain = ReferenceParser.parse(text, maximumDepth: JSONParser.defaultMaximumDepth)
    let value: JSONValue
    do throws(JSONError) {
        value = try JSONValue(parsing: text)
    } catch {
        require(plain == nil, "valid JSON was rejected: \(error)")
        require((0...text.count).contains(error.offset), "the error is beyond the end of the text: \(error)")
        require(parseError(text, &parser) == error, "a reused parser reports another error")
        return nil
    }
    guard let plain else { fatalError("invalid JSON was accepted") }
    require(Model(value).isEquivalent(to: plain), "the parsers read different values")
    let again = text.withUnsafeBytes { try? parser.parse($0) }
    require(again == value, "a reused parser reads another value")

    let compact = value.compactBytes
    guard let reread = try? JSONValue(parsing: compact) else { fatalError("the writer wrote invalid JSON") }
    require(
        reread == value && Model(reread).isEquivalent(to: plain), "a value changes when it is written and parsed")
    require(reread.compactBytes == compact, "written again, the value has another text")
    require(
        reread.withTextBytes { $0.elementsEqual(compact) },
        "the text of a value parsed from compact JSON is not compact")
    require(value.detached() == value && value.detached().compactBytes == compact, "a detached copy differs")
    var budget = 100
    checkPaths(value, value, [], &budget)
    return value
}

private func parseError(_ text: [UInt8], _ parser: inout JSONParser) -> JSONError? {
    text.withUnsafeBytes { bytes -> JSONError? in
        do throws(JSONError) {
            _ = try parser.parse(bytes)
            return nil
        } catch {
            return error
        }
    }
}

/// Checks that each value is found under its path, by pointer, path text, name and index.
private func checkPaths(_ root: JSONValue, _ value: JSONValue, _ segments: [String], _ budget: inout Int) {
    budget -= 1
    guard budget > 0 else { return }
    let path = JSONPath(segments)
    require(root.value(at: path) == value, "a value is not found under its path")
    require((try? JSONPath(parsing: path.pointer)) == path, "a JSON pointer is parsed as another path")
    require((try? JSONPath(parsing: path.description)) == path, "the text of a path is parsed as another path")
    _ = root.place(of: path)
    _ = (value.int, value.double, value.count)
    if value.kind == .object {
        for (name, member) in value.members {
            require(value[name] == member, "a name finds another member")
            checkPaths(root, member, segments + [name], &budget)
        }
    } else {
        for (index, element) in value.elements.enumerated() {
            require(value[index] == element, "an index finds another element")
            checkPaths(root, element, segments + [String(index)], &budget)
        }
    }
}

private func checkPatches(_ a: JSONValue, _ b: JSONValue) {
    let (plainA, plainB) = (Model(a), Model(b))
    require((a == b) == plainA.isEquivalent(to: plainB), "the comparison of two values is wrong")
    require(
        Model(MergePatch.apply(b, to: a)).isEquivalent(to: plainA.patched(plainB)), "a patch has another result")
    require(
        Model(MergePatch.apply(b, to: nil)).isEquivalent(to: Model.null.patched(plainB)),
        "a patch without a target has another result")
    require(
        Model(MergePatch.merge([a])).isEquivalent(to: Model.object([]).patched(plainA)),
        "merging one layer has another result")
    if let patch = MergePatch.difference(from: a, to: b) {
        require(
            plainA.patched(Model(patch)).isEquivalent(to: plainB),
            "by RFC 7396, the difference does not give the other value")
        require(MergePatch.apply(patch, to: a) == b, "applying the difference does not give the other value")
        if a == b, a.kind == .object { require(patch == .emptyObject, "equal values have a difference") }
    } else {
        require(plainB.hasNullMember, "a patch exists, but no difference was found")
    }
}

private func checkReplacements(_ a: JSONValue, _ b: JSONValue) {
    guard a.kind == .object else { return }
    let whole = a.detached()
    var (targets, values): ([[String]], [JSONValue]) = ([], [])
    scalars(whole, []) { path, _ in targets.append(path) }
    if b.kind == .object { scalars(b, []) { values.append($1) } }
    guard !values.isEmpty else { return }
    var expected = whole
    var replacements: [JSONValue.Replacement] = []
    for (index, path) in targets.prefix(24).enumerated() {
        let value = values[index % values.count]
        replacements.append(JSONValue.Replacement(at: path, by: value))
        expected = MergePatch.apply(path.reversed().reduce(value) { JSONValue.object([($1, $0)]) }, to: expected)
    }
    guard let result = whole.replacing(replacements) else { fatalError("replacing scalars failed") }
    require(result.compactBytes == expected.compactBytes, "replacing scalars differs from the equivalent patches")
    require(result == expected, "values with the same text are not equal")
    var budget = 100
    checkPaths(result, result, [], &budget)
}

/// Calls `body` for each scalar that is not null and not within an array.
private func scalars(_ value: JSONValue, _ path: [String], _ body: ([String], JSONValue) -> Void) {
    for (name, member) in value.members {
        switch member.kind {
        case .object: scalars(member, path + [name], body)
        case .number, .string, .bool: body(path + [name], member)
        case .array, .null: break
        }
    }
}

private func checkComposition(_ target: JSONValue, _ first: JSONValue, _ second: JSONValue) {
    guard isComposable(Model(first), Model(second)) else { return }
    let both = Model(target).patched(Model(first)).patched(Model(second))
    require(
        Model(MergePatch.apply(MergePatch.compose(first, second), to: target)).isEquivalent(to: both),
        "a composed patch differs from both patches in order")
}

/// Whether one patch can have the effect of both patches in order. No patch can if the second patch has an object where
/// the first has a value that is not an object.
private func isComposable(_ first: Model, _ second: Model) -> Bool {
    guard case .object(let changes) = second else { return true }
    guard case .object = first else { return false }
    return changes.allSatisfy { change in first[change.name].map { isComposable($0, change.value) } ?? true }
}

// `Model` and `ReferenceParser` are those of LarderJSONTests.
extension Model {
    /// Returns this value with a merge patch applied.
    func patched(_ patch: Model) -> Model { Model.mergePatch(self, patch) }

    /// Whether a member of the object, or of an object nested in it, is null. Arrays are not searched.
    fileprivate var hasNullMember: Bool { members.contains { $0.value == .null || $0.value.hasNullMember } }
}
