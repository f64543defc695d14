import Testing

@_spi(LarderSchema) @testable import LarderJSON

@Suite("Cursors")
struct ValueCursorTests {
    /// A copy of the value at a cursor, built only from what cursors return.
    private func plain(_ cursor: ValueCursor) -> JSONValue {
        switch cursor.rawKind {
        case JSONValue.Kind.null.rawValue: return .null
        case JSONValue.Kind.bool.rawValue: return .bool(cursor.isTrue)
        case JSONValue.Kind.number.rawValue:
            return (try? JSONValue(parsing: Array(cursor.source))) ?? .null
        case JSONValue.Kind.string.rawValue: return .string(cursor.string)
        case JSONValue.Kind.array.rawValue:
            var elements: [JSONValue] = []
            var iterator = cursor.elements
            while let element = iterator.next() { elements.append(plain(element)) }
            #expect(elements.count == cursor.count)
            return .array(elements)
        default:
            var members: [(String, JSONValue)] = []
            var iterator = cursor.members
            while let (name, value) = iterator.next() {
                var text = name.string
                text.withUTF8 { text in
                    #expect(name.nameHash == ValueCursor.hash(ofName: UnsafeRawBufferPointer(text)))
                    #expect(cursor.member(text)?.value.identity == value.identity)
                }
                members.append((text, plain(value)))
            }
            #expect(members.count == cursor.count)
            return .object(members)
        }
    }

    @Test(
        "the values that cursors return are those of the document",
        arguments: [
            "null", "true", "[]", "{}", #"{"a":[1,-0.50,"é\n\ud83d\ude00"],"":{"b\u0041":false}}"#,
            #"{"a":1,"b":2,"a":3}"#, #"{"a":1,"\u0061":2}"#,
            "{" + (0..<100).map { #""m\#($0 % 60)":\#($0)"# }.joined(separator: ",") + "}",
        ])
    func values(text: String) throws {
        let value = try JSONValue(parsing: text)
        #expect(value.withCursor { plain($0) } == value)
    }

    @Test("`value(at:)` returns the value of a member that a cursor finds; a cursor returns nil for a missing member")
    func lookup() throws {
        let value: JSONValue = ["a": ["b": [1, 2]]]
        let name = Array("a".utf8)
        let found = value.withCursor { cursor in
            name.withUnsafeBufferPointer { cursor.member($0).map { value.value(at: $0.value) } }
        }
        #expect(found == ["b": [1, 2]])
        #expect(value.withCursor { cursor in Array("b".utf8).withUnsafeBufferPointer { cursor.member($0) == nil } })
    }
}
