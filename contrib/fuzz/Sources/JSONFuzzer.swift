import LarderJSON

/// Up to three texts, with zero bytes between them. What is JSON, and what it says, is as the simple parser has it; it comes
/// back from its own text as the same; patches do what RFC 7396 says; a difference, applied, is the other value; and scalars
/// that are put in the place of others make what patches make.
@Sendable
func fuzzJSON(_ input: UnsafeRawBufferPointer) {
    let texts = parts(input, 3)
    var parser = JSONParser()
    let values = texts.map { examined($0, &parser) }
    guard let a = values[0], let b = values[1] else { return }
    patches(a, b)
    replacements(a, b)
    if let c = values[2] {
        compositions(a, b, c)
        let merged = PlainJSON.object([]).patched(PlainJSON(a)).patched(PlainJSON(b)).patched(PlainJSON(c))
        require(PlainJSON(MergePatch.merge([a, b, c])) == merged, "three layers merge to something else")
    }
}

private func examined(_ text: [UInt8], _ parser: inout JSONParser) -> JSONValue? {
    let plain = PlainParser.parse(text, maximumDepth: JSONParser.defaultMaximumDepth)
    let value: JSONValue
    do throws(JSONError) {
        value = try JSONValue(parsing: text)
    } catch {
        require(plain == nil, "what is JSON was refused: \(error)")
        require((0...text.count).contains(error.offset), "an error beyond the end of the text: \(error)")
        require(failure(text, &parser) == error, "the parser that keeps its memory says another error")
        return nil
    }
    guard let plain else { fatalError("what is no JSON was taken") }
    require(PlainJSON(value) == plain, "another value was read")
    let again = text.withUnsafeBytes { try? parser.parse($0) }
    require(again == value, "the parser that keeps its memory reads another value")

    let compact = value.compactBytes
    guard let reread = try? JSONValue(parsing: compact) else { fatalError("what was written is no JSON") }
    require(reread == value && PlainJSON(reread) == plain, "what was written says something else")
    require(reread.compactBytes == compact, "what was written is not written so again")
    require(reread.withTextBytes { $0.elementsEqual(compact) }, "what was written is not compact")
    require(value.detached() == value && value.detached().compactBytes == compact, "a copy says something else")
    var budget = 100
    places(value, value, [], &budget)
    return value
}

private func failure(_ text: [UInt8], _ parser: inout JSONParser) -> JSONError? {
    text.withUnsafeBytes { bytes -> JSONError? in
        do throws(JSONError) {
            _ = try parser.parse(bytes)
            return nil
        } catch {
            return error
        }
    }
}

/// Each value is found under its path, however that is written.
private func places(_ root: JSONValue, _ value: JSONValue, _ segments: [String], _ budget: inout Int) {
    budget -= 1
    guard budget > 0 else { return }
    let path = JSONPath(segments)
    require(root.value(at: path) == value, "a value is not where it is")
    require((try? JSONPath(parsing: path.pointer)) == path, "a pointer reads as another path")
    require((try? JSONPath(parsing: path.description)) == path, "a path's text reads as another path")
    _ = root.place(of: path)
    _ = (value.int, value.double, value.count)
    if value.kind == .object {
        for (name, member) in value.members {
            require(value[name] == member, "a member is not what its name finds")
            places(root, member, segments + [name], &budget)
        }
    } else {
        for (index, element) in value.elements.enumerated() {
            require(value[index] == element, "an element is not what its index finds")
            places(root, element, segments + [String(index)], &budget)
        }
    }
}

private func patches(_ a: JSONValue, _ b: JSONValue) {
    let (plainA, plainB) = (PlainJSON(a), PlainJSON(b))
    require((a == b) == (plainA == plainB), "values are equal, or not, and should not be, or should")
    require(PlainJSON(MergePatch.apply(b, to: a)) == plainA.patched(plainB), "a patch does something else")
    require(PlainJSON(MergePatch.apply(b, to: nil)) == PlainJSON.null.patched(plainB), "a patch of nothing")
    require(PlainJSON(MergePatch.merge([a])) == PlainJSON.object([]).patched(plainA), "one layer alone")
    if let patch = MergePatch.difference(from: a, to: b) {
        require(plainA.patched(PlainJSON(patch)) == plainB, "a difference is not the difference")
        require(MergePatch.apply(patch, to: a) == b, "a difference, applied, is not the other value")
        if a == b, a.kind == .object { require(patch == .emptyObject, "equal values have a difference") }
    } else {
        require(plainB.hasNullMember, "there is a difference, and it was not found")
    }
}

private func replacements(_ a: JSONValue, _ b: JSONValue) {
    guard a.kind == .object else { return }
    let whole = a.detached()
    var (targets, values): ([[String]], [JSONValue]) = ([], [])
    scalars(whole, []) { path, _ in targets.append(path) }
    if b.kind == .object { scalars(b, []) { values.append($1) } }
    guard !values.isEmpty else { return }
    var expected = whole
    var made: [JSONValue.Replacement] = []
    for (index, path) in targets.prefix(24).enumerated() {
        let value = values[index % values.count]
        made.append(JSONValue.Replacement(at: path, by: value))
        expected = MergePatch.apply(path.reversed().reduce(value) { JSONValue.object([($1, $0)]) }, to: expected)
    }
    guard let result = whole.replacing(made) else { fatalError("scalars were not replaced") }
    require(result.compactBytes == expected.compactBytes, "scalars in the place of others make something else")
    require(result == expected, "what has the same text is not the same")
    var budget = 100
    places(result, result, [], &budget)
}

/// The scalars to which names of objects lead, but null.
private func scalars(_ value: JSONValue, _ path: [String], _ body: ([String], JSONValue) -> Void) {
    for (name, member) in value.members {
        switch member.kind {
        case .object: scalars(member, path + [name], body)
        case .number, .string, .bool: body(path + [name], member)
        case .array, .null: break
        }
    }
}

private func compositions(_ target: JSONValue, _ first: JSONValue, _ second: JSONValue) {
    guard isComposable(PlainJSON(first), PlainJSON(second)) else { return }
    let both = PlainJSON(target).patched(PlainJSON(first)).patched(PlainJSON(second))
    require(
        PlainJSON(MergePatch.apply(MergePatch.compose(first, second), to: target)) == both,
        "two patches in one do something else than both")
}

/// Whether one patch can say both: not where the second has an object in the place of something else in the first.
private func isComposable(_ first: PlainJSON, _ second: PlainJSON) -> Bool {
    guard case .object(let changes) = second else { return true }
    guard case .object = first else { return false }
    return changes.allSatisfy { change in first[change.name].map { isComposable($0, change.value) } ?? true }
}
