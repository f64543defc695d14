package import LarderJSON

extension FlagSet {
    /// Compiles the flags in a document that also contains other configuration.
    ///
    /// - Parameters:
    ///   - document: the document
    ///   - member: the member that contains the flags by name. The rules that flags share are in the member `$evaluators`
    ///     of the document, and the set has no metadata. Empty if the whole document is in flagd's format.
    package init(in document: JSONValue, member: String) {
        if member.isEmpty {
            self.init(document)
        } else {
            self.init(
                .building { writer in
                    writer.beginObject()
                    writer.member("flags", document[member])
                    writer.member("$evaluators", document.member("$evaluators"))
                    writer.endObject()
                })
        }
    }

    /// The path in the document of a place that a ``FlagProblem`` names.
    package static func path(_ place: JSONPath, member: String) -> JSONPath {
        let segments = place.segments
        if member.isEmpty || segments.first?.isSpelled(as: "flags") != true { return place }
        return JSONPath([member] + segments.dropFirst())
    }
}
