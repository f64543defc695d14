package import LarderJSON

/// Which places of a namespace's documents hold secrets, as `secrets` in the settings says.
///
/// A pattern is a path in its dotted form or a JSON Pointer. `*` as a segment stands for any one segment, `**` for any
/// number of them, also none. What is at a place that a pattern matches is a secret with all that is in it.
package struct SecretPatterns: Sendable, Hashable {
    /// What stands in the place of a secret.
    package static let mask: JSONValue = "<masked>"

    /// No pattern: nothing is a secret.
    package static let none = SecretPatterns(patterns: [])

    private enum Step: Hashable {
        /// The UTF-8 of a name: names are compared by it, without Unicode normalisation.
        case name([UInt8])
        case anyOne
        case anyNumber

        init(_ segment: String) {
            switch segment {
            case "*": self = .anyOne
            case "**": self = .anyNumber
            default: self = .name(Array(segment.utf8))
            }
        }
    }

    /// A place in a pattern: how far a path has matched it.
    private struct Place: Hashable {
        var pattern: Int
        var step: Int
    }

    private let patterns: [[Step]]

    private init(patterns: [[Step]]) { self.patterns = patterns }

    /// Reads patterns.
    /// - Throws: `JSONError` (`invalidPath`) for one that is neither a dotted path nor a pointer.
    package init(_ patterns: [String]) throws(JSONError) {
        var steps: [[Step]] = []
        for pattern in patterns { steps.append(try JSONPath(parsing: pattern).segments.map(Step.init)) }
        self.patterns = steps
    }

    /// Whether there is no pattern.
    package var isEmpty: Bool { patterns.isEmpty }

    /// Whether what is at a path is a secret, or part of one.
    package func isSecret(_ path: JSONPath) -> Bool { places(after: path) == nil }

    /// A value without the secrets in it.
    ///
    /// A null is left as it is, unless it is in an array or object that is a secret: it says that nothing is there.
    /// - Parameter path: where in the document the value is
    /// - Returns: the value, with ``mask`` in the place of each secret; and whether there was one
    package func masked(_ value: JSONValue, at path: JSONPath) -> (JSONValue, Bool) {
        if patterns.isEmpty || value.isNull { return (value, false) }
        guard let places = places(after: path) else { return (Self.mask, true) }
        if places.isEmpty { return (value, false) }
        var isMasked = false
        let result = JSONValue.building { write(value, places, to: &$0, &isMasked) }
        return isMasked ? (result, true) : (value, false)
    }

    private func write(_ value: JSONValue, _ places: Set<Place>, to writer: inout JSONWriter, _ isMasked: inout Bool) {
        switch value.kind {
        case .object where !places.isEmpty:
            writer.beginObject()
            for (name, member) in value.members {
                writer.name(name)
                write(member, after: self.places(places, after: name), to: &writer, &isMasked)
            }
            writer.endObject()
        case .array where !places.isEmpty:
            writer.beginArray()
            for (index, element) in value.elements.enumerated() {
                write(element, after: self.places(places, after: String(index)), to: &writer, &isMasked)
            }
            writer.endArray()
        default: writer.value(value)
        }
    }

    private func write(
        _ value: JSONValue, after places: Set<Place>?, to writer: inout JSONWriter, _ isMasked: inout Bool
    ) {
        if let places { return write(value, places, to: &writer, &isMasked) }
        if value.isNull { return writer.null() }
        isMasked = true
        writer.value(Self.mask)
    }

    // MARK: Matching

    /// The places in which the patterns are after a path; nil where one of them matches it or a part of it from its
    /// start.
    private func places(after path: JSONPath) -> Set<Place>? {
        guard var places = advanced(patterns.indices.map { Place(pattern: $0, step: 0) }) else { return nil }
        for segment in path.segments {
            guard let next = self.places(places, after: segment) else { return nil }
            places = next
        }
        return places
    }

    private func places(_ places: Set<Place>, after segment: String) -> Set<Place>? {
        var next: [Place] = []
        for place in places {
            switch patterns[place.pattern][place.step] {
            case .anyNumber: next.append(place)
            case .anyOne: next.append(Place(pattern: place.pattern, step: place.step + 1))
            case .name(let name):
                if segment.utf8.elementsEqual(name) {
                    next.append(Place(pattern: place.pattern, step: place.step + 1))
                }
            }
        }
        return advanced(next)
    }

    /// The places, and those behind each `**` among them, which may stand for nothing; nil where a pattern is at its
    /// end.
    private func advanced(_ places: [Place]) -> Set<Place>? {
        var all: Set<Place> = []
        for var place in places {
            while true {
                if place.step == patterns[place.pattern].count { return nil }
                all.insert(place)
                guard case .anyNumber = patterns[place.pattern][place.step] else { break }
                place.step += 1
            }
        }
        return all
    }
}
