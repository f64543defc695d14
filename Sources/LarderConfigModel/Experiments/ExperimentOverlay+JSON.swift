package import LarderJSON

extension ExperimentOverlay {
    /// Why a list of overlays is none.
    package struct Problem: Error, Sendable, Equatable {
        /// Which element of the list is wrong; nil for the list itself.
        package let index: Int?
        /// What is wrong with it and what it should be, to follow its name. It shows no values.
        package let reason: String
    }

    /// Reads a list of overlays, as settings and remote documents have it.
    ///
    /// A member that is not known is a problem: an agent that passes over what decides who is in an experiment would
    /// put the wrong hosts into it.
    package static func all(in list: JSONValue) throws(Problem) -> [ExperimentOverlay] {
        guard list.kind == .array else { throw Problem(index: nil, reason: "must be an array of overlays") }
        var overlays: [ExperimentOverlay] = []
        for (index, element) in list.elements.enumerated() {
            do throws(Wrong) {
                let overlay = try ExperimentOverlay(element)
                if overlays.contains(where: { $0.name == overlay.name }) {
                    throw Wrong("has the name of another overlay, \"\(overlay.name)\"; each needs its own")
                }
                overlays.append(overlay)
            } catch {
                throw Problem(index: index, reason: error.reason)
            }
        }
        return overlays
    }

    /// What is wrong with one overlay.
    private struct Wrong: Error {
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static let known = ["name", "salt", "percentage", "units", "values"]

    private init(_ value: JSONValue) throws(Wrong) {
        guard value.kind == .object else {
            throw Wrong("must be an object with \"name\", \"percentage\" or \"units\", and \"values\"")
        }
        if let stranger = value.members.first(where: { !Self.known.contains($0.name) }) {
            let names = Self.known.map { "\"\($0)\"" }.joined(separator: ", ")
            throw Wrong("has the member \"\(stranger.name)\", which is not known; known are \(names)")
        }
        guard let name = value["name"]?.string, !name.isEmpty, name.utf8.count <= 128 else {
            throw Wrong("needs \"name\", a text of at most 128 bytes")
        }
        if let salt = value["salt"], salt.kind != .string { throw Wrong("must have a string for \"salt\"") }
        guard let values = value["values"], values.kind == .object else {
            throw Wrong("needs \"values\", an object of what the overlay says")
        }
        let (share, units) = (try Self.share(value["percentage"]), try Self.units(value["units"]))
        if share == nil, units == nil {
            throw Wrong("needs \"percentage\" or \"units\", which say what hosts it is for")
        }
        self.init(
            name: name, salt: value["salt"]?.string, share: share, units: units ?? [], values: values.detached())
    }

    private static func share(_ value: JSONValue?) throws(Wrong) -> Share? {
        guard let value else { return nil }
        let ends = value.kind == .array ? value.elements.map(\.double) : [0, value.double]
        guard ends.count == 2, let from = ends[0], let to = ends[1], let share = Share(from: from, to: to) else {
            throw Wrong("must have a number from 0 to 100 for \"percentage\", or two such as in [25, 50]")
        }
        return share
    }

    private static func units(_ value: JSONValue?) throws(Wrong) -> Set<String>? {
        guard let value else { return nil }
        let units = value.elements.compactMap(\.string)
        guard value.kind == .array, units.count == value.count else {
            throw Wrong("must have an array of strings for \"units\"")
        }
        return Set(units)
    }
}
