import LarderJSON
import Testing

@Suite("Lines of paths in a text")
struct PlaceTests {
    private let document: JSONValue

    init() throws {
        document = try JSONValue(
            parsing: """
                {
                  "search": {
                    "limit": 5,
                    "a.b": [
                      1,
                      {"x": 2},
                      [
                        3
                      ]
                    ]
                  },
                  "limit": 1, "same": {
                    "limit"
                       :
                       2 },
                  "search\\u0032": 0,
                  "limit": 3
                }
                """)
    }

    private func place(_ path: String) throws -> [Int] {
        let place = try document.place(of: JSONPath(parsing: path))
        return [place.line, place.depth]
    }

    @Test("the line of a member is that of its name; if the name occurs several times, the last one counts")
    func members() throws {
        #expect(try place("search") == [2, 1])
        #expect(try place("search.limit") == [3, 2])
        #expect(try place("same.limit") == [13, 2])
        #expect(try place("search2") == [16, 1])
        #expect(try place("limit") == [17, 1])
    }

    @Test("the line of an array element is that of its first byte")
    func elements() throws {
        #expect(try place("/search/a.b") == [4, 2])
        #expect(try place("/search/a.b/1/x") == [6, 4])
        #expect(try place("/search/a.b/2/0") == [8, 4])
    }

    @Test("the line of a path that has no value is that of its longest prefix that has a value")
    func missing() throws {
        #expect(try place("") == [1, 0])
        #expect(try place("none") == [1, 0])
        #expect(try place("search.none.deeper") == [2, 1])
        #expect(try place("search.limit.deeper") == [3, 2])
        #expect(try place("/search/a.b/9") == [4, 2])
    }

    @Test("lines are correct in an object with many members")
    func manyMembers() throws {
        let members = (0..<500).map { "\"name\($0)\": \($0)" }.joined(separator: ",\n")
        let large = try JSONValue(parsing: "{\(members)}")
        for number in [0, 1, 250, 499] {
            #expect(large.place(of: JSONPath(["name\(number)"])).line == number + 1)
        }
    }
}
