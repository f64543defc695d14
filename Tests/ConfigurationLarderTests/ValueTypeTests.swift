import Configuration
import Testing

@testable import ConfigurationLarder

@Suite("Types of values")
struct ValueTypeTests {
    private func content(_ value: String, _ type: ConfigType) throws -> ConfigContent? {
        try snapshot(#"{"key":\#(value)}"#).value(forKey: "key", type: type).value?.content
    }

    @Test(
        "a value of the requested type is read",
        arguments: [
            (#""text""#, .string, .string("text")), (#""""#, .string, .string("")),
            (#""a \"b\" \u00fc""#, .string, .string("a \"b\" ü")),
            (
                #""a text that is longer than fifteen bytes""#, .string,
                .string("a text that is longer than fifteen bytes")
            ),
            ("7", .int, .int(7)), ("7", .double, .double(7)), ("0.1", .double, .double(0.1)),
            ("0.30000000000000004", .double, .double(0.30000000000000004)),
            ("true", .bool, .bool(true)), ("false", .bool, .bool(false)),
            (#""bWFnaWM=""#, .bytes, .bytes([0x6d, 0x61, 0x67, 0x69, 0x63])), (#""""#, .bytes, .bytes([])),
            (#"["a","b"]"#, .stringArray, .stringArray(["a", "b"])), ("[]", .stringArray, .stringArray([])),
            ("[1,2.0,3e0]", .intArray, .intArray([1, 2, 3])), ("[]", .intArray, .intArray([])),
            ("[1,2.5]", .doubleArray, .doubleArray([1, 2.5])), ("[true,false]", .boolArray, .boolArray([true, false])),
            (#"["AA==","AQI="]"#, .byteChunkArray, .byteChunkArray([[0], [1, 2]])),
        ] as [(String, ConfigType, ConfigContent)])
    func readable(value: String, type: ConfigType, expected: ConfigContent) throws {
        #expect(try content(value, type) == expected)
    }

    @Test(
        "a number is an integer if its value is one that fits, however it is written",
        arguments: [
            ("10.0", 10), ("1e2", 100), ("1E+2", 100), ("-12.50e1", -125), ("100e-2", 1), ("0.0", 0), ("-0", 0),
            ("0e99999999999999999999", 0), ("9223372036854775807", .max), ("9223372036854775807.000", .max),
            ("-9223372036854775808", .min), ("-9.223372036854775808e18", .min), ("0.000001e6", 1),
            ("9007199254740993.0", 9_007_199_254_740_993),
        ])
    func integers(text: String, expected: Int) throws {
        #expect(try content(text, .int) == .int(expected))
    }

    @Test(
        "a number with a fraction, or one that does not fit, is not an integer",
        arguments: [
            "10.5", "1e-1", "1e19", "1e400", "1e99999999999999999999", "9223372036854775808", "-9223372036854775809",
            "1e-99999999999999999999",
        ])
    func otherNumbers(text: String) throws {
        let error = try #require(throws: LarderProviderError.self) { try content(text, .int) }
        #expect(error.code == .typeMismatch)
        #expect(error.reason == #"the number at "key" is not an integer of 64 bits"#)
    }

    @Test(
        "a value of another kind is an error that names the key and the kinds, but not the value",
        arguments: [
            (#""7""#, .int, "a string, not an integer"), ("true", .int, "a Boolean, not an integer"),
            ("1", .bool, "a number, not a Boolean"), (#""true""#, .bool, "a string, not a Boolean"),
            ("7", .string, "a number, not a string"), ("false", .double, "a Boolean, not a number"),
            ("[1]", .int, "an array, not an integer"), (#"{"a":1}"#, .string, "an object, not a string"),
            ("7", .intArray, "a number, not an array"), ("7", .bytes, "a number, not a string in base64"),
        ] as [(String, ConfigType, String)])
    func mismatches(value: String, type: ConfigType, kinds: String) throws {
        let error = try #require(throws: LarderProviderError.self) { try content(value, type) }
        #expect(error.code == .typeMismatch && error.key == "key" && error.clientError == nil)
        #expect(error.reason == "the value at \"key\" is \(kinds)" && "\(error)" == error.reason)
    }

    @Test("an element of another kind makes the whole array an error, which names the element")
    func elements() throws {
        let error = try #require(throws: LarderProviderError.self) { try content("[1,2,true]", .intArray) }
        #expect(error.reason == #"the value at "key" is a Boolean, not an integer (element 2)"#)
        #expect(throws: LarderProviderError.self) { try content("[1,null]", .intArray) }
        #expect(throws: LarderProviderError.self) { try content("[1,true]", .doubleArray) }
        #expect(throws: LarderProviderError.self) { try content("[true,0]", .boolArray) }
    }

    @Test(
        "text that is not base64 with padding is an error, which does not contain the text",
        arguments: ["secret text", "QQ", "QQ=", "QQ==\\n", "Q===", "QQ=Q", "QUI_", "===="])
    func base64(text: String) throws {
        let error = try #require(throws: LarderProviderError.self) { try content("\"\(text)\"", .bytes) }
        #expect(error.reason == #"the string at "key" is not base64"#)
    }

    @Test("a number out of range is not a double")
    func outOfRange() throws {
        let error = try #require(throws: LarderProviderError.self) { try content("1e400", .double) }
        #expect(error.reason == #"the number at "key" is out of the range of a double"#)
    }

    @Test("null is no value, for every type", arguments: [ConfigType.string, .int, .bool, .bytes, .stringArray])
    func null(type: ConfigType) throws {
        #expect(try content("null", type) == nil)
    }

    @Test("an error of one key does not affect others, nor the same key with another type")
    func isolation() throws {
        let snapshot = try snapshot(#"{"a":"x","b":[1,"x"],"c":3}"#)
        #expect(throws: LarderProviderError.self) { try snapshot.value(forKey: "a", type: .int) }
        #expect(throws: LarderProviderError.self) { try snapshot.value(forKey: "b", type: .intArray) }
        #expect(try snapshot.value(forKey: "a", type: .string).value?.content == .string("x"))
        #expect(try snapshot.value(forKey: "c", type: .int).value?.content == .int(3))
    }

    @Test("repeated reads of a converted value return the same value, separately for each type")
    func repeated() throws {
        let snapshot = try snapshot(#"{"list":[1,2],"text":"bG9uZ2VyIHRoYW4gYSBzaG9ydCBzdHJpbmc="}"#)
        for _ in 1...3 {
            #expect(try snapshot.value(forKey: "list", type: .intArray).value?.content == .intArray([1, 2]))
            #expect(try snapshot.value(forKey: "list", type: .doubleArray).value?.content == .doubleArray([1, 2]))
            #expect(
                try snapshot.value(forKey: "text", type: .string).value?.content
                    == .string("bG9uZ2VyIHRoYW4gYSBzaG9ydCBzdHJpbmc="))
            #expect(
                try snapshot.value(forKey: "text", type: .bytes).value?.content
                    == .bytes(Array("longer than a short string".utf8)))
        }
    }
}
