package import LarderJSON

/// Selects the secret values in a namespace's documents, from `secrets` in the settings.
///
/// A pattern is a dotted path or a JSON Pointer. The segment `*` matches any one segment, and `**` matches any number
/// of segments, including none. If a pattern matches a path, the value there is secret, with everything inside it.
package struct SecretPatterns: Sendable, Hashable {
    /// The value that replaces each secret.
    package static let mask: JSONValue = "<masked>"

    package static let none = SecretPatterns(texts: [], patterns: [])

    private enum Step: Hashable {
        /// The UTF-8 of a name. Names are compared without Unicode normalization.
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

    /// A position in a pattern. The steps before `step` have matched the path so far.
    private struct Place: Hashable {
        var pattern: Int
        var step: Int
    }

    /// The patterns as they are written in the settings.
    package let texts: [String]
    private let patterns: [[Step]]

    private init(texts: [String], patterns: [[Step]]) { (self.texts, self.patterns) = (texts, patterns) }

    /// Parses patterns.
    /// - Throws: `JSONError` (`invalidPath`) if a pattern is neither a dotted path nor a JSON Pointer.
    package init(_ patterns: [String]) throws(JSONError) {
        var steps: [[Step]] = []
        for pattern in patterns { steps.append(try JSONPath(parsing: pattern).segments.map(Step.init)) }
        self.init(texts: patterns, patterns: steps)
    }

    package var isEmpty: Bool { patterns.isEmpty }

    /// Whether the value at a path is secret or part of a secret.
    package func isSecret(_ path: JSONPath) -> Bool { places(after: path) == nil }

    /// Replaces the secrets in a value with ``mask``.
    ///
    /// A null is not masked, because it shows only that there is no value. A null inside a secret array or object is
    /// masked with it.
    /// - Parameter path: the path of the value in the document
    /// - Returns: the masked value, and whether it contained a secret
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

    /// The positions in the patterns after all segments of a path have been compared; nil if a pattern matches the path
    /// or one of its ancestors.
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

    /// Adds, for each position at a `**`, also the position after it, because `**` can match zero segments. Returns nil
    /// if a pattern is matched completely.
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
