public import LarderJSON

// The agent writes the result of a cache hit in two parts, because it stores the text of the first part and copies it
// into later results for the same image.

extension ImageGet.Result {
    public func write(to writer: inout JSONWriter) {
        Self.writeConstant(path: path, image: image, to: &writer)
        Self.writeRest(
            freshness: freshness.rawValue, source: source.rawValue, ageSeconds: ageSeconds, lease: lease,
            hasDescriptor: hasDescriptor, to: &writer)
    }

    /// Begins a result with the members that are the same in every reply for the image.
    /// ``writeRest(freshness:source:ageSeconds:lease:hasDescriptor:to:)`` writes the remaining members.
    public static func writeConstant(path: String, image: WireImage, to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("path", path)
        image.writeMembers(to: &writer)
    }

    /// Writes the remaining members and ends the result.
    public static func writeRest(
        freshness: String, source: String, ageSeconds: Int, lease: Int, hasDescriptor: Bool,
        to writer: inout JSONWriter
    ) {
        writer.member("freshness", freshness)
        writer.member("source", source)
        writer.member("ageSeconds", ageSeconds)
        writer.member("lease", lease)
        if hasDescriptor { writer.member("descriptor", true) }
        writer.endObject()
    }
}
