import LarderJSON
import Testing

@Suite("Writer")
struct WriterTests {
    @Test("members are written in the order of the calls, with commas and colons")
    func order() {
        var writer = JSONWriter()
        writer.beginObject()
        writer.member("z", 1)
        writer.member("a", "x")
        writer.name("list")
        writer.beginArray()
        writer.int(-5)
        writer.beginObject()
        writer.endObject()
        writer.beginArray()
        writer.endArray()
        writer.null()
        writer.bool(true)
        writer.bool(false)
        writer.string("static")
        writer.endArray()
        writer.name("dynamic" as String)
        writer.raw(Array("[1, 2]".utf8))
        writer.member("b", false)
        writer.member("v", ["k": .null] as JSONValue)
        writer.endObject()
        #expect(
            String(decoding: writer.bytes, as: UTF8.self)
                == #"{"z":1,"a":"x","list":[-5,{},[],null,true,false,"static"],"#
                + #""dynamic":[1, 2],"b":false,"v":{"k":null}}"#)
    }

    @Test("a member whose value is nil is omitted, and one whose value is JSON null is written")
    func optionals() {
        let value = JSONValue.building { writer in
            writer.beginObject()
            writer.member("a", nil as String?)
            writer.member("b", nil as Int?)
            writer.member("d", nil as JSONValue?)
            writer.member("e", "x" as String?)
            writer.member("f", 1 as Int?)
            writer.member("h", .null as JSONValue?)
            writer.endObject()
        }
        #expect(value.compactText == #"{"e":"x","f":1,"h":null}"#)
    }

    @Test("only characters that require it are escaped")
    func escapes() throws {
        for value in UInt8(0)..<0x80 {
            let text = "a\(Unicode.Scalar(value))b"
            var writer = JSONWriter()
            writer.string(text)
            #expect(try JSONValue(parsing: writer.bytes).string == text)
            let expected: String
            switch value {
            case 0x08: expected = "\\b"
            case 0x09: expected = "\\t"
            case 0x0A: expected = "\\n"
            case 0x0C: expected = "\\f"
            case 0x0D: expected = "\\r"
            case 0x22: expected = "\\\""
            case 0x5C: expected = "\\\\"
            case 0..<0x20:
                expected = "\\u00" + (value < 16 ? "0" : "") + String(value, radix: 16)
            default: expected = String(Unicode.Scalar(value))
            }
            #expect(String(decoding: writer.bytes, as: UTF8.self) == "\"a\(expected)b\"")
        }
    }

    @Test("strings of every length with a special character at every position are written completely")
    func stringLengths() throws {
        for length in 0..<40 {
            for place in 0...length {
                for special in ["", "\"", "é", "\u{1}", "😀"] {
                    let text =
                        String(repeating: "x", count: place) + special + String(repeating: "y", count: length - place)
                    let value = JSONValue.string(text)
                    #expect(value.string == text)
                    #expect(JSONValue.object([(text, 1)])[text]?.int == 1)
                }
            }
        }
    }

    @Test("integers of every length are written exactly")
    func integers() {
        var number = 1
        for _ in 0..<18 {
            for value in [number - 1, number, number + 1, -number, -number + 1] {
                #expect(JSONValue.int(value).compactText == String(value))
            }
            number *= 10
        }
        #expect(JSONValue.int(.max).compactText == "9223372036854775807")
        #expect(JSONValue.int(.min).compactText == "-9223372036854775808")
        #expect(JSONValue.int(.min).int == .min)
    }

    @Test("doubles are written exactly, and NaN and infinity as null")
    func doubles() {
        for number in [0, -0.0, 0.1, 1.5, 1e300, -.leastNonzeroMagnitude, .pi, 1e16, 123_456_789.125] as [Double] {
            #expect(JSONValue.double(number).double?.bitPattern == number.bitPattern)
        }
        for number in [Double.nan, .infinity, -.infinity] { #expect(JSONValue.double(number).isNull) }
    }

    @Test("a value has the path of the first infinity or NaN that was replaced in it; a parsed null has none")
    func notFinite() throws {
        let nan = JSONValue.double(.nan)
        #expect(nan == .null && nan.notFinitePath == JSONPath([]) && JSONValue.null.notFinitePath == nil)
        let value: JSONValue = ["c": .null, "a": [1, ["b": nan, "d": .double(.infinity)]], "e": [true, "x\n", [:]]]
        #expect(value.notFinitePath == JSONPath(["a", "1", "b"]))
        #expect(value["a"]?.detached().notFinitePath == JSONPath(["1", "b"]))
        #expect(value["c"]?.notFinitePath == nil && value["e"]?.notFinitePath == nil)
        #expect(try JSONValue(parsing: value.compactText).notFinitePath == nil)
        #expect(JSONValue.object([("a", nan), ("a", 1)]).notFinitePath == nil)
        #expect(JSONValue.object([("a", 1), ("a", [nan])]).notFinitePath == JSONPath(["a", "0"]))
    }

    @Test("a value or a part of it is written without whitespace and duplicate members")
    func compactCopy() throws {
        let value = try JSONValue(parsing: #"{ "a" : [ 1 , { "x" : 1, "x" : [ ] } , "k v" ] , "b" : { } , "c":[1,2]}"#)
        #expect(value.compactText == #"{"a":[1,{"x":[]},"k v"],"b":{},"c":[1,2]}"#)
        #expect(value["a"]?.compactText == #"[1,{"x":[]},"k v"]"#)
        #expect(value["a"]?[1]?.compactText == #"{"x":[]}"#)
        #expect(value["b"]?.description == "{}")
        #expect(value["c"]?.compactBytes == Array("[1,2]".utf8))
        var writer = JSONWriter()
        writer.beginArray()
        writer.value(value)
        writer.value(value)
        writer.endArray()
        let text = value.compactText
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "[\(text),\(text)]")
    }

    @Test("rawUnframed writes no comma before its bytes")
    func unframed() {
        var writer = JSONWriter()
        writer.beginArray()
        writer.int(1)
        ",2".utf8.withContiguousStorageIfAvailable { writer.rawUnframed(UnsafeRawBufferPointer($0)) }
        writer.int(3)
        writer.endArray()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "[1,2,3]")
    }

    @Test("a text and two parts are appended in one call; a line ends after a text, and the next value has no comma")
    func lineOfParts() {
        var writer = JSONWriter(reservingCapacity: 1)
        for number in 0..<3 {
            Array("\(number)".utf8).withUnsafeBytes { part in
                Array(#","list":"#.utf8).withUnsafeBytes { writer.rawUnframed("{\"id\":", part, $0) }
            }
            writer.value([1, 2])
            writer.endLine(after: "}")
        }
        let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
        writer.rawUnframed("", nothing, nothing)
        let expected = (0..<3).map { "{\"id\":\($0),\"list\":[1,2]}\n" }.joined()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }

    @Test("an object of four members is written as by one call for each member")
    func objectOfFour() throws {
        let long = String(repeating: "é1", count: 3_000)
        let values = ["7", "-0.10", "[ 1, {} ]", #"{"a":1,"a":2}"#, "\"\(long)\"", #""\u0041""#]
        let texts = ["", "abc", "fresh", "0123456789abcdef", "größe", "a\"b", "line\n", long]
        for value in try values.map({ try JSONValue(parsing: $0) }) {
            for number in [0, 7, -7, 10, -123_456, Int.max, Int.min] {
                for (index, text) in texts.enumerated() {
                    let other = texts[texts.count - 1 - index]
                    var (writer, expected) = (JSONWriter(reservingCapacity: 1), JSONWriter())
                    writer.beginArray()
                    expected.beginArray()
                    for _ in 0..<2 {
                        writer.object("value", value, "n", number, "text", text, "", other)
                        expected.beginObject()
                        expected.member("value", value)
                        expected.member("n", number)
                        expected.member("text", text)
                        expected.member("", other)
                        expected.endObject()
                    }
                    #expect(writer.bytes == expected.bytes)
                }
            }
        }
    }

    @Test("after removeAll, a writer has no bytes and writes the next value like a new writer")
    func removeAll() {
        var writer = JSONWriter(reservingCapacity: 4)
        writer.beginArray()
        writer.int(1)
        writer.removeAll()
        #expect(writer.bytes.isEmpty)
        writer.string("x" as String)
        #expect(writer.bytes == Array("\"x\"".utf8))
    }

    @Test("Swift literals become the corresponding JSON values")
    func literals() {
        let value: JSONValue = ["a": [1, 2.5, "x", true, .null], "b": [:], "c": []]
        #expect(value.compactText == #"{"a":[1,2.5,"x",true,null],"b":{},"c":[]}"#)
        #expect(JSONValue.emptyObject.compactText == "{}")
        #expect(JSONValue.array([.null, .bool(false), .int(1)]).compactText == "[null,false,1]")
        #expect(JSONValue.object([("a", 1), ("a", 2)]).compactText == #"{"a":2}"#)
    }

    @Test("a detached value is equal and compact")
    func detached() throws {
        let value = try JSONValue(parsing: #"[ 0, { "a" : [ 1 ] } ]"#)
        let part = try #require(value[1]).detached()
        #expect(part == value[1])
        #expect(part.withTextBytes { String(decoding: $0, as: UTF8.self) } == #"{"a":[1]}"#)
    }

    @Test(
        "texts, numbers and bytes that are appended in one call are written in order",
        arguments: [0, 7, 10, 99, 100, 9_999, 10_000, 123_456_789, UInt64.max] as [UInt64], [0, 3, 5_000])
    func unframedInOneStep(number: UInt64, size: Int) {
        let rest = (0..<size).map { UInt8(ascii: "a") + UInt8($0 % 26) }
        var writer = JSONWriter(reservingCapacity: 8)
        writer.beginArray()
        rest.withUnsafeBytes { writer.rawUnframed("<", number, " to ", number / 3, $0) }
        rest.withUnsafeBytes { writer.rawUnframed("", number, "", number, $0) }
        let text = String(decoding: rest, as: UTF8.self)
        let expected = "[<\(number) to \(number / 3)\(text)\(number)\(number)\(text)"
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }
}
