package import LarderJSON

/// A value in a document, and its position.
package struct JSON5Value: Sendable {
    package enum Content: Sendable {
        case null
        case bool(Bool)
        /// A number, and its text as written, which error messages show.
        case number(Double, text: String)
        case string(String)
        case array([JSON5Value])
        case object([Member])
    }

    /// A member of an object. Names are unique within an object, except in a result of ``JSON5Parser/parseAll(_:unless:)``.
    package struct Member: Sendable {
        package let name: String
        /// The position of the name in the text, in Unicode scalars.
        package let offset: Int
        package let value: JSON5Value

        package init(name: String, offset: Int, value: JSON5Value) {
            (self.name, self.offset, self.value) = (name, offset, value)
        }
    }

    package let content: Content
    /// The position of the value in the text, in Unicode scalars.
    package let offset: Int

    package init(content: Content, offset: Int) {
        (self.content, self.offset) = (content, offset)
    }

    /// The value for an error message. An array, an object or a number of more than 40 characters is shown as the name
    /// of its type. Any other value is shown as text, which is truncated if it is a long string.
    package var shown: String {
        switch content {
        case .null: "null"
        case .bool(let value): value ? "true" : "false"
        case .number(_, let text): text.count <= 40 ? text : "a number"
        case .string(let text): JSON5Shown.quoted(text)
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSON5Value {
    /// The offset of the member name or array element that a path ends at; nil if there is no value at the path.
    package func offset(of path: [String]) -> Int? {
        var (found, offset) = (self, offset)
        for name in path {
            switch found.content {
            case .object(let members):
                guard let member = members.last(where: { $0.name.isSpelled(as: name) }) else { return nil }
                (found, offset) = (member.value, member.offset)
            case .array(let elements):
                guard let index = Int(name), elements.indices.contains(index) else { return nil }
                (found, offset) = (elements[index], elements[index].offset)
            default: return nil
            }
        }
        return offset
    }

    /// Returns this value without one member or element.
    /// - Parameter place: the offset of the member's name, of the member's value, or of the element
    /// - Returns: nil if no value within this one has that offset
    package func removing(at place: Int) -> JSON5Value? {
        switch content {
        case .object(var members):
            if let index = members.firstIndex(where: { $0.offset == place || $0.value.offset == place }) {
                members.remove(at: index)
                return JSON5Value(content: .object(members), offset: offset)
            }
            for (index, member) in members.enumerated() {
                guard let value = member.value.removing(at: place) else { continue }
                members[index] = Member(name: member.name, offset: member.offset, value: value)
                return JSON5Value(content: .object(members), offset: offset)
            }
        case .array(var elements):
            if let index = elements.firstIndex(where: { $0.offset == place }) {
                elements.remove(at: index)
                return JSON5Value(content: .array(elements), offset: offset)
            }
            for (index, element) in elements.enumerated() {
                guard let value = element.removing(at: place) else { continue }
                elements[index] = value
                return JSON5Value(content: .array(elements), offset: offset)
            }
        default: break
        }
        return nil
    }
}

extension JSON5Value {
    /// Applies a merge patch to this value (RFC 7396). Each value of the result keeps the position that it has in its own
    /// text, so the texts need distinct positions (``moved(by:)``).
    package func merged(with patch: JSON5Value) -> JSON5Value {
        guard case .object(let changes) = patch.content, case .object(var members) = content else {
            return patch.withoutNulls
        }
        var places: [ExactText: Int] = [:]
        for (place, member) in members.enumerated() { places[ExactText(member.name)] = place }
        var removed: Set<Int> = []
        for change in changes {
            let place = places[ExactText(change.name)]
            if case .null = change.value.content {
                if let place { removed.insert(place) }
            } else if let place {
                let old = members[place]
                let value = old.value.merged(with: change.value)
                // The name of a member that is replaced, and not merged, is that of the patch.
                let offset = value.offset == old.value.offset ? old.offset : change.offset
                members[place] = Member(name: old.name, offset: offset, value: value)
            } else {
                places[ExactText(change.name)] = members.count
                members.append(Member(name: change.name, offset: change.offset, value: change.value.withoutNulls))
            }
        }
        let remaining = members.enumerated().filter { !removed.contains($0.offset) }.map(\.element)
        return JSON5Value(content: .object(remaining), offset: offset)
    }

    /// The value without the members that are null, at any depth outside arrays: the result of this value as a merge patch
    /// for a missing value.
    package var withoutNulls: JSON5Value {
        guard case .object(let members) = content else { return self }
        let remaining = members.compactMap { member -> Member? in
            if case .null = member.value.content { return nil }
            return Member(name: member.name, offset: member.offset, value: member.value.withoutNulls)
        }
        return JSON5Value(content: .object(remaining), offset: offset)
    }

    /// The value with all positions increased by a distance.
    package func moved(by distance: Int) -> JSON5Value {
        let moved: Content =
            switch content {
            case .object(let members):
                .object(
                    members.map {
                        Member(name: $0.name, offset: $0.offset + distance, value: $0.value.moved(by: distance))
                    })
            case .array(let elements): .array(elements.map { $0.moved(by: distance) })
            default: content
            }
        return JSON5Value(content: moved, offset: offset + distance)
    }
}

extension JSON5Value {
    /// The value as JSON; nil if it contains a number that JSON cannot represent.
    package var json: JSONValue? { try? json(unless: { false }) }

    /// Returns ``json``.
    ///
    /// - Parameter isCancelled: see ``JSON5Parser/parse(_:unless:)``
    /// - Throws: ``JSON5Error`` with the code `cancelled`
    package func json(unless isCancelled: @escaping () -> Bool) throws(JSON5Error) -> JSONValue? {
        guard isFinite else { return nil }
        var cancellation = JSON5Cancellation(isCancelled)
        var failure: JSON5Error?
        let value = JSONValue.building { write(to: &$0, &cancellation, &failure) }
        if let failure { throw failure }
        return value
    }

    private var isFinite: Bool {
        switch content {
        case .number(let number, _): number.isFinite
        case .array(let elements): elements.allSatisfy(\.isFinite)
        case .object(let members): members.allSatisfy { $0.value.isFinite }
        default: true
        }
    }

    /// - Parameter failure: set if the conversion is cancelled. The rest of the value is then omitted.
    private func write(
        to writer: inout JSONWriter, _ cancellation: inout JSON5Cancellation, _ failure: inout JSON5Error?
    ) {
        do throws(JSON5Error) { try cancellation.check(at: offset) } catch { failure = error }
        switch content {
        case .null: writer.null()
        case .bool(let truth): writer.bool(truth)
        case .string(let text): writer.string(text)
        case .number(let number, let text):
            // A number whose text is valid JSON keeps its text.
            if let value = try? JSONValue(parsing: text), value.kind == .number { return writer.value(value) }
            writer.value(Int(exactly: number).map(JSONValue.int) ?? .double(number))
        case .array(let elements):
            writer.beginArray()
            for element in elements where failure == nil { element.write(to: &writer, &cancellation, &failure) }
            writer.endArray()
        case .object(let members):
            writer.beginObject()
            for member in members where failure == nil {
                writer.name(member.name)
                member.value.write(to: &writer, &cancellation, &failure)
            }
            writer.endObject()
        }
    }
}

/// A path in a document: the member names and array indexes that lead from the root to a value.
package struct JSON5Path: CustomStringConvertible {
    private enum Step {
        case name(String)
        case index(Int)
    }

    private var steps: [Step]

    /// The whole document. Its description is "the settings".
    package static let root = JSON5Path(steps: [])

    /// The names of the members on the path; an index as decimal digits.
    package var names: [String] {
        steps.map { step in
            switch step {
            case .name(let name): name
            case .index(let index): String(index)
            }
        }
    }

    /// The path of a member of the value at this path.
    package func appending(_ name: String) -> JSON5Path {
        JSON5Path(steps: steps + [.name(name)])
    }

    /// Extends the path by a name.
    mutating func append(_ name: String) { steps.append(.name(name)) }

    /// Extends the path by an index.
    mutating func append(_ index: Int) { steps.append(.index(index)) }

    mutating func removeLast() { steps.removeLast() }

    /// The path of an element of the array at this path.
    package func appending(_ index: Int) -> JSON5Path {
        JSON5Path(steps: steps + [.index(index)])
    }

    /// The path in the form `limits.connections`. Names with other characters than letters, digits, `_` and `-` are in
    /// brackets, as in `namespaces["web.v1"].durability`.
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

/// Formats parts of a JSON5 text for error messages.
package enum JSON5Shown {
    /// The text in quotation marks, on one line, truncated to 60 characters.
    package static func quoted(_ text: String) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(60) {
            shown += scalar == "\"" || scalar == "\\" ? "\\\(scalar)" : printable(scalar)
        }
        return "\"\(shown)\(text.unicodeScalars.count > 60 ? "…" : "")\""
    }

    /// The character, or its code point as text if the character is invisible or would break the line.
    package static func printable(_ scalar: Unicode.Scalar) -> String {
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .unassigned, .privateUse, .surrogate:
            "\\u{\(String(scalar.value, radix: 16))}"
        default: String(scalar)
        }
    }
}
