extension JSONValue {
    /// The member called `name`; of duplicates the last one. nil if there is none or the value is no object.
    ///
    /// Names are the same when their UTF-8 is, with escapes resolved and without Unicode normalisation.
    public subscript(_ name: String) -> JSONValue? {
        guard entry.kind == Node.Kind.object else { return nil }
        var name = name
        let found = name.withUTF8 { Names.find(document, object: node, UnsafeRawBufferPointer($0)) }
        return found.map { JSONValue(document: document, node: $0) }
    }

    /// The member called `name`, as the subscript finds it, for names that are known when the program is built.
    public func member(_ name: StaticString) -> JSONValue? {
        guard entry.kind == Node.Kind.object else { return nil }
        let found = name.withUTF8Buffer { bytes -> Int in
            Names.find(document, object: node, UnsafeRawBufferPointer(bytes)) ?? -1
        }
        return found < 0 ? nil : JSONValue(document: document, node: found)
    }

    /// Whether the value is a string that says `text`.
    public func isString(_ text: StaticString) -> Bool {
        let entry = entry
        guard entry.kind == Node.Kind.string else { return false }
        return text.withUTF8Buffer { Names.matches(entry, text: document.text, UnsafeRawBufferPointer($0)) }
    }

    /// The element at `index`, from 0. nil if there is none or the value is no array.
    ///
    /// Elements before it are stepped over one by one unless all are scalars; to visit many use `elements`.
    public subscript(_ index: Int) -> JSONValue? {
        let entry = entry
        guard entry.kind == Node.Kind.array, index >= 0, index < Int(entry.span) - 1 else { return nil }
        if Int(entry.storedCount) == Int(entry.span) - 1 {
            return JSONValue(document: document, node: node + 1 + index)
        }
        let nodes = document.nodes
        var element = node + 1
        let end = node + Int(entry.span)
        var left = index
        while element < end {
            if left == 0 { return JSONValue(document: document, node: element) }
            left -= 1
            element += Int(nodes[element].span)
        }
        return nil
    }

    /// The value that `path` leads to, or nil.
    public func value(at path: JSONPath) -> JSONValue? {
        var value = self
        for segment in path.segments {
            switch value.kind {
            case .object:
                guard let member = value[segment] else { return nil }
                value = member
            case .array:
                guard let index = JSONPath.arrayIndex(segment), let element = value[index] else { return nil }
                value = element
            default: return nil
            }
        }
        return value
    }
}
