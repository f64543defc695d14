import LarderJSON

extension ConfigStatus.Namespace {
    init(from value: JSONValue) throws(WireError) {
        let reader = try MemberReader(object: value)
        namespace = try reader.requiredString("namespace")
        state = ConfigState(rawValue: try reader.requiredString("state"))
        since = try reader.requiredTimestamp("since")
        revision = try reader.requiredInt("revision")
        epoch = try reader.requiredString("epoch")
        digest = try reader.string("digest")
        bytes = try reader.requiredInt("bytes")
        publishedAt = try reader.timestamp("publishedAt")
        ageMilliseconds = try reader.int("ageMilliseconds")
        durability = try reader.requiredString("durability")
        lastError = try reader.object("lastError").map { (error) throws(WireError) in
            ConfigStatus.Problem(
                name: try error.requiredString("name"), message: try error.requiredString("message"),
                at: try error.requiredTimestamp("at"))
        }
        refused = try reader.object("refused").map { (refusal) throws(WireError) in
            ConfigStatus.Refusal(
                version: try refusal.string("version"), reason: try refusal.requiredString("reason"),
                at: try refusal.requiredTimestamp("at"))
        }
        upstream = try reader.object("upstream").map { (upstream) throws(WireError) in
            ConfigStatus.Upstream(
                kind: try upstream.requiredString("kind"), location: try upstream.requiredString("location"),
                version: try upstream.string("version"), etag: try upstream.string("etag"),
                lastAttemptAt: try upstream.timestamp("lastAttemptAt"),
                lastSuccessAt: try upstream.timestamp("lastSuccessAt"),
                nextAttemptAt: try upstream.timestamp("nextAttemptAt"),
                consecutiveFailures: try upstream.requiredInt("consecutiveFailures"))
        }
        quarantine = try reader.object("quarantine").map { (quarantine) throws(WireError) in
            try ConfigStatus.Quarantine(from: quarantine)
        }
        hold = try reader.object("hold").map { (hold) throws(WireError) in try ConfigStatus.Hold(from: hold) }
        acknowledgements =
            try reader.object("acknowledgements").map { (said) throws(WireError) in
                try ConfigStatus.Acknowledgements(from: said)
            } ?? ConfigStatus.Acknowledgements()
        layers = []
        for layer in try reader.requiredValue("layers").elements {
            let reader = try MemberReader(object: layer)
            layers.append(
                ConfigStatus.Layer(
                    name: try reader.requiredString("name"), present: try reader.requiredBool("present"),
                    bytes: try reader.requiredInt("bytes"), origin: try reader.requiredString("origin"),
                    updatedAt: try reader.timestamp("updatedAt"), problem: try reader.string("problem")))
        }
        copy = try reader.object("copy").map { (copy) throws(WireError) in
            ConfigStatus.Copy(path: try copy.requiredString("path"), problem: try copy.string("problem"))
        }
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("namespace", namespace)
        writer.member("state", state.rawValue)
        writer.member("since", since.description)
        writer.member("revision", revision)
        writer.member("epoch", epoch)
        writer.nullableMember("digest", digest)
        writer.member("bytes", bytes)
        writer.nullableMember("publishedAt", publishedAt?.description)
        writer.nullableMember("ageMilliseconds", ageMilliseconds)
        writer.member("durability", durability)
        writer.name("lastError")
        if let lastError { lastError.write(to: &writer) } else { writer.null() }
        writer.name("refused")
        if let refused { refused.write(to: &writer) } else { writer.null() }
        writer.name("quarantine")
        if let quarantine { quarantine.write(to: &writer) } else { writer.null() }
        writer.name("hold")
        if let hold { hold.write(to: &writer) } else { writer.null() }
        writer.name("upstream")
        if let upstream { upstream.write(to: &writer) } else { writer.null() }
        writer.name("layers")
        writer.beginArray()
        for layer in layers { layer.write(to: &writer) }
        writer.endArray()
        writer.name("acknowledgements")
        acknowledgements.write(to: &writer)
        writer.name("copy")
        if let copy { copy.write(to: &writer) } else { writer.null() }
        writer.endObject()
    }
}

extension ConfigStatus.Problem {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("name", name)
        writer.member("message", message)
        writer.member("at", at.description)
        writer.endObject()
    }
}

extension ConfigStatus.Refusal {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.nullableMember("version", version)
        writer.member("reason", reason)
        writer.member("at", at.description)
        writer.endObject()
    }
}

extension ConfigStatus.Upstream {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("kind", kind)
        writer.member("location", location)
        writer.nullableMember("version", version)
        writer.nullableMember("etag", etag)
        writer.nullableMember("lastAttemptAt", lastAttemptAt?.description)
        writer.nullableMember("lastSuccessAt", lastSuccessAt?.description)
        writer.nullableMember("nextAttemptAt", nextAttemptAt?.description)
        writer.member("consecutiveFailures", consecutiveFailures)
        writer.endObject()
    }
}

extension ConfigStatus.Layer {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("name", name)
        writer.member("present", present)
        writer.member("bytes", bytes)
        writer.member("origin", origin)
        writer.nullableMember("updatedAt", updatedAt?.description)
        writer.nullableMember("problem", problem)
        writer.endObject()
    }
}

extension ConfigStatus.Copy {
    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("path", path)
        writer.nullableMember("problem", problem)
        writer.endObject()
    }
}
